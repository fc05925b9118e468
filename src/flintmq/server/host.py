"""The host of the gateway: it checks logins outside the event loop, and writes what the gateway reports to the logs."""

import asyncio
from collections.abc import Callable
from typing import Protocol, final

from flintmq.base.errors import AmqpError
from flintmq.broker.access.bearer import Bearer
from flintmq.gateway.audit import AuditEvent
from flintmq.gateway.gateway import Host
from flintmq.protocol.sasl.scram import Keys
from flintmq.server import logs
from flintmq.server.attempts import AMQP_091, AMQP_10, Attempts
from flintmq.server.audit import AuditLog
from flintmq.server.schedule import TickSchedule

log = logs.get_logger()


class Logins(Protocol):
    """Checks of logins. `server/auth.py` explains each method."""

    def check(
        self, user: str, password: str, address: str, is_wanted: Callable[[], bool], answer: Callable[[str], None]
    ) -> None: ...

    def check_token(
        self, token: str, address: str, is_wanted: Callable[[], bool], answer: Callable[[str, Bearer | None], None]
    ) -> None: ...

    def check_proof(
        self,
        user: str,
        proof: Callable[[], str],
        address: str,
        is_wanted: Callable[[], bool],
        answer: Callable[[str], None],
    ) -> None: ...

    def failed(self, user: str, address: str) -> None: ...

    def refusal(self, user: str, address: str) -> str: ...

    def scram_keys(self, user: str, mechanism: str) -> Keys: ...

    def close(self) -> None: ...


@final
class ServerHost(Host):
    """The server as the gateway sees it.

    `logins` may answer from any thread; the connection gets the answer in the event loop, followed by a tick.

    `amqp10_peers` has the names of the peers that speak AMQP 1.0.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        schedule: TickSchedule,
        logins: Logins,
        audit: AuditLog,
        amqp10_peers: set[str],
    ) -> None:
        self.attempts = Attempts()
        self._loop = loop
        self._schedule = schedule
        self._logins = logins
        self._audit = audit
        self._amqp10_peers = amqp10_peers

    # -- logins -------------------------------------------------------------------------------------------------

    def authenticate(
        self, peer: str, user: str, password: str, is_wanted: Callable[[], bool], answer: Callable[[str], None]
    ) -> None:
        def answer_here(why: str) -> None:
            self._loop.call_soon_threadsafe(self._checked, peer, why, answer)

        self._logins.check(user, password, _address(peer), is_wanted, answer_here)

    def check_proof(
        self,
        peer: str,
        user: str,
        proof: Callable[[], str],
        is_wanted: Callable[[], bool],
        answer: Callable[[str], None],
    ) -> None:
        def answer_here(why: str) -> None:
            self._loop.call_soon_threadsafe(self._checked, peer, why, answer)

        self._logins.check_proof(user, proof, _address(peer), is_wanted, answer_here)

    def _checked(self, peer: str, why: str, answer: Callable[[str], None]) -> None:
        self._count(peer, not why)
        if why:
            _log_refusal(peer, why)
        answer(why)
        self._schedule.request()

    def check_token(
        self, peer: str, token: str, is_wanted: Callable[[], bool], answer: Callable[[str, Bearer | None], None]
    ) -> None:
        def answer_here(why: str, bearer: Bearer | None) -> None:
            self._loop.call_soon_threadsafe(self._token_checked, peer, why, bearer, answer)

        self._logins.check_token(token, _address(peer), is_wanted, answer_here)

    def _token_checked(
        self, peer: str, why: str, bearer: Bearer | None, answer: Callable[[str, Bearer | None], None]
    ) -> None:
        self._count(peer, not why)
        if why:
            _log_refusal(peer, why)
        # The expiry of the token is compared with the broker's time.
        self._schedule.now()
        answer(why, bearer)
        self._schedule.request()

    def refusal(self, peer: str, user: str) -> str:
        why = self._logins.refusal(user, _address(peer))
        if not why:
            self._count(peer, True)
        return why

    def scram_keys(self, user: str, mechanism: str) -> Keys:
        return self._logins.scram_keys(user, mechanism)

    def login_refused(self, peer: str, user: str, why: str) -> None:
        self._count(peer, False)
        self._logins.failed(user, _address(peer))
        _log_refusal(peer, why)

    def _count(self, peer: str, succeeded: bool) -> None:
        self.attempts.count(AMQP_10 if peer in self._amqp10_peers else AMQP_091, _address(peer), succeeded)

    def close(self) -> None:
        """Answer no more logins."""
        self._logins.close()

    # -- logs ---------------------------------------------------------------------------------------------------

    def internal_error(self, error: Exception) -> None:
        log.error("internal error", exc_info=error)

    def channel_failed(self, peer: str, user: str, channel: int, error: AmqpError) -> None:
        log.warning("channel closed", peer=peer, user=user, channel=channel, reason=error.reply_text)

    def unsendable(self, user: str, vhost: str, queue: str, why: str) -> None:
        log.warning("message given up", user=user, vhost=vhost, queue=queue, reason=why)

    def audit(self, event: AuditEvent) -> None:
        self._audit.record(event)


def _log_refusal(peer: str, why: str) -> None:
    log.warning("login refused", peer=peer, reason=why)


def _address(peer: str) -> str:
    """Return the address of a peer, without the port."""
    return peer.rpartition(":")[0].strip("[]")
