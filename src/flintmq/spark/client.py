"""A client that connects again, and repeats the interrupted call, after a restart or when another node leads."""

import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self, TypeVar

import flintmq.client as fc
from flintmq.base.errors import ConnectionLost
from flintmq.spark.endpoint import Endpoint, is_passing

# How long the client waits for a broker that it was connected to: a restart may have to recover a large journal.
PATIENCE_SECONDS: Final = 60.0
_RETRY_FIRST_SECONDS: Final = 0.1
_RETRY_MOST_SECONDS: Final = 2.0

T = TypeVar("T")


class ReconnectingClient:
    """One channel on one connection, both opened by the first call.

    A `patient` client, which tasks use, waits for a broker that it cannot reach. The driver, which plans queries, uses
    one that is not: it fails at once. Every client is patient after it has been connected. With `confirms`, the channel
    is in confirm mode. `node` is the number of the node of a cluster that is tried first.
    """

    def __init__(self, endpoint: Endpoint, confirms: bool, patient: bool, node: int = 0) -> None:
        self._endpoint = endpoint
        self._node = node
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
        """Close the connection. The next call opens another one."""
        connection = self._connection
        self._connection = None
        self._channel = None
        if connection is not None:
            connection.close()

    def call(self, operation: Callable[[fc.Channel], T]) -> T:
        """Call `operation` with the channel and return its result; repeat it on a new connection if the connection is
        lost.

        Raises FlintError if the broker stays away longer than PATIENCE_SECONDS, and whatever the operation raises.
        """
        # The time starts when the connection is lost, because the operation itself may take longer.
        deadline = 0.0
        pause = _RETRY_FIRST_SECONDS
        while True:
            try:
                channel = self._open()
                self._patient = True
                return operation(channel)
            except fc.ChannelClosed:
                self._channel = None
                raise
            except (ConnectionLost, fc.ConnectFailed, fc.ConnectionClosed, fc.TimedOut) as error:
                self.close()
                now = time.monotonic()
                deadline = deadline or now + PATIENCE_SECONDS
                if not is_passing(error) or not self._patient or now + pause > deadline:
                    raise
            time.sleep(pause)
            pause = min(2 * pause, _RETRY_MOST_SECONDS)

    def has(self, capability: str) -> bool:
        """Whether the broker lists this capability in its server properties. Raises FlintError if it stays away."""
        self.call(lambda _channel: None)
        assert self._connection is not None
        capabilities = self._connection.server_properties.get("capabilities")
        return isinstance(capabilities, dict) and capabilities.get(capability) is True

    def _open(self) -> fc.Channel:
        if self._connection is None:
            self._connection = self._endpoint.connect(self._node)
        if self._channel is None:
            self._channel = self._connection.channel(confirms=self._confirms)
        return self._channel
