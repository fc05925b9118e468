"""Expiry of tokens: a connection is closed when its token expires, unless a newer token came before."""

from collections.abc import Callable
from typing import final

from mypy_extensions import i64

from flintmq.base.errors import AmqpError, AuthenticationFailed
from flintmq.broker.timers import Timed, Timers
from flintmq.gateway.login import Login


@final
class Expiry(Timed):
    """Closes a connection with `fail` when its token expires. It does nothing for logins without a token."""

    def __init__(self, login: Login, timers: Timers, fail: Callable[[AmqpError], None]) -> None:
        super().__init__()
        self._login = login
        self._timers = timers
        self._fail = fail

    def wait(self) -> None:
        """Set the timer to the expiry of the present token, if there is one."""
        bearer = self._login.bearer
        if bearer is not None:
            self._timers.cancel(self)
            self._timers.at(bearer.expires_ms, self)

    def cancel(self) -> None:
        self._timers.cancel(self)

    def on_due(self, now_ms: i64) -> None:
        self._fail(AuthenticationFailed("credential expired"))
