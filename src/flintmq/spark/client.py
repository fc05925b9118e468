"""A connection that outlives restarts of the broker: what a call needs again after one is made again."""

import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self, TypeVar

import flintmq.client as fc
from flintmq.base.errors import ConnectionForced, ConnectionLost
from flintmq.spark.endpoint import Endpoint

# How long a broker that was there may be away: a restart with a large journal to recover.
PATIENCE_SECONDS: Final = 60.0
_RETRY_FIRST_SECONDS: Final = 0.1
_RETRY_MOST_SECONDS: Final = 2.0

T = TypeVar("T")


class ReconnectingClient:
    """One channel on one connection, made when it is first used.

    Whoever plans a query learns at once that the broker is not there; a task of a running one is `patient`.
    """

    def __init__(self, endpoint: Endpoint, confirms: bool, patient: bool) -> None:
        self._endpoint = endpoint
        self._confirms = confirms
        self._patient = patient
        self._connection: fc.Connection | None = None
        self._channel: fc.Channel | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        connection = self._connection
        self._connection = None
        self._channel = None
        if connection is not None:
            connection.close()

    def call(self, operation: Callable[[fc.Channel], T]) -> T:
        """The operation's result; it is repeated when the broker went away. Raises FlintError, what it raises too."""
        # A minute from when the broker went away, however long the operation took until then.
        deadline = 0.0
        pause = _RETRY_FIRST_SECONDS
        while True:
            try:
                result = operation(self._open())
            except fc.ChannelClosed:
                self._channel = None
                raise
            except (ConnectionLost, fc.ConnectFailed, fc.ConnectionClosed, fc.TimedOut) as error:
                self.close()
                now = time.monotonic()
                deadline = deadline or now + PATIENCE_SECONDS
                # Any other close of a connection has a reason that stays: a wrong password, an unknown vhost.
                for_good = isinstance(error, fc.ConnectionClosed) and error.code != ConnectionForced.code
                if for_good or not self._patient or now + pause > deadline:
                    raise
            else:
                self._patient = True
                return result
            time.sleep(pause)
            pause = min(2 * pause, _RETRY_MOST_SECONDS)

    def has(self, capability: str) -> bool:
        """Whether the broker says so of itself. Raises FlintError."""
        self.call(lambda _channel: None)
        assert self._connection is not None
        capabilities = self._connection.server_properties.get("capabilities")
        return isinstance(capabilities, dict) and capabilities.get(capability) is True

    def _open(self) -> fc.Channel:
        if self._connection is None:
            self._connection = self._endpoint.connect()
        if self._channel is None:
            self._channel = self._connection.channel(confirms=self._confirms)
        return self._channel
