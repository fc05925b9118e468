"""The end of a token, which is the end of the connection that was opened with it, unless a newer one came before."""

from collections.abc import Callable
from typing import final

from mypy_extensions import i64

from flintmq.base.errors import AmqpError, AuthenticationFailed
from flintmq.broker.timers import Timed, Timers
from flintmq.gateway.login import Login


@final
class Expiry(Timed):
    """Costs nothing to those who logged in without a token. `fail` closes the connection."""

    def __init__(self, login: Login, timers: Timers, fail: Callable[[AmqpError], None]) -> None:
        super().__init__()
        self._login = login
        self._timers = timers
        self._fail = fail

    def wait(self) -> None:
        """The token that counts now is good until then."""
        bearer = self._login.bearer
        if bearer is not None:
            self._timers.cancel(self)
            self._timers.at(bearer.expires_ms, self)

    def cancel(self) -> None:
        self._timers.cancel(self)

    def on_due(self, now_ms: i64) -> None:
        self._fail(AuthenticationFailed("credential expired"))
