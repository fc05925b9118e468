"""The gateway of a node: its connections share the broker, the tick, and the queue of waiting replies."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

from mypy_extensions import mypyc_attr

from flintmq.base.errors import AmqpError, StorageFenced
from flintmq.broker.access.bearer import Bearer
from flintmq.broker.broker import Broker
from flintmq.gateway.audit import AuditEvent
from flintmq.gateway.durability import DurabilityQueue
from flintmq.gateway.permission_cache import PermissionCache
from flintmq.gateway.publishing import PublishTargets
from flintmq.gateway.tracing import Tracing
from flintmq.protocol.reassembly import NodeReassembly
from flintmq.protocol.sasl import amqplain, plain
from flintmq.protocol.sasl.scram import Keys


@mypyc_attr(allow_interpreted_subclasses=True)
class Host:
    """Services that a gateway needs from the server: logins and logs. `peer` names the other side of a connection."""

    @abstractmethod
    def authenticate(
        self, peer: str, user: str, password: str, is_wanted: Callable[[], bool], answer: Callable[[str], None]
    ) -> None:
        """Check a password later and call `answer` with the reason of a refusal, empty if the password is right.

        Nothing is called once `is_wanted` returns False.
        """

    @abstractmethod
    def check_token(
        self, peer: str, token: str, is_wanted: Callable[[], bool], answer: Callable[[str, Bearer | None], None]
    ) -> None:
        """Check an OAuth 2 token later and call `answer` with the reason of a refusal, or with the token's bearer."""

    @abstractmethod
    def check_proof(
        self,
        peer: str,
        user: str,
        proof: Callable[[], str],
        is_wanted: Callable[[], bool],
        answer: Callable[[str], None],
    ) -> None:
        """Check a proof that a client knows a password, as of SCRAM, and call `answer` as `authenticate` does.

        `proof` returns what is wrong with it, empty if nothing is. It is called once, from any thread.
        """

    @abstractmethod
    def refusal(self, peer: str, user: str) -> str:
        """The reason to refuse a client that has proved to be this user; empty if it may log in."""

    @abstractmethod
    def scram_keys(self, user: str, mechanism: str) -> Keys:
        """The SCRAM keys of a user; for an unknown user, keys that no password fits."""

    @abstractmethod
    def login_refused(self, peer: str, user: str, why: str) -> None:
        """Log that a login was refused. `user` is the name that the client gave, empty if it gave none."""

    @abstractmethod
    def internal_error(self, error: Exception) -> None:
        """Log a fault of the broker with its traceback. It may have ended a connection."""

    @abstractmethod
    def channel_failed(self, peer: str, user: str, channel: int, error: AmqpError) -> None:
        """Log that a channel was closed for a fault of the client. The connection stays open."""

    def unsendable(self, user: str, vhost: str, queue: str, why: str) -> None:
        """Log that a queue discarded, or a stream skipped, a message that cannot be sent to any client."""

    def audit(self, event: AuditEvent) -> None:
        """Record in the audit log that a definition was changed, or that a change was refused."""


@dataclass(frozen=True)
class LoginPolicy:
    """The settings of logins. `mechanisms` are in the order of the offer.

    Anonymous clients log in as `anonymous_user`; empty: as guest, from this machine. `takes_tokens`: OAuth 2 tokens are
    accepted. `allows_clear_text`: mechanisms that send the secret in clear text are allowed without TLS.
    """

    mechanisms: tuple[str, ...] = (plain.NAME, amqplain.NAME)
    anonymous_user: str = ""
    takes_tokens: bool = False
    allows_clear_text: bool = False


@final
class Gateway:
    """The gateway of a node. `random_bytes(n)` is the source for names and nonces that the server generates."""

    def __init__(
        self,
        broker: Broker,
        host: Host,
        random_bytes: Callable[[int], bytes],
        policy: LoginPolicy | None = None,
    ) -> None:
        self.broker = broker
        self.tick = broker.tick
        self.tracing = Tracing(broker, host.internal_error)
        self.host = host
        self.random_bytes = random_bytes
        self.policy = policy or LoginPolicy()
        # Memory for messages that are received in part, on all connections.
        self.reassembly = NodeReassembly()
        # The reason why the storage failed for good; empty while it works.
        self.failure = ""
        # Replies that wait for a batch to become durable.
        self.durability = DurabilityQueue(host.internal_error)
        # Publish targets by the permissions that publishers have.
        self.targets = PermissionCache(PublishTargets)
        self._connections = 0

    @property
    def alarm(self) -> str:
        """The reason why publishers are blocked; empty while they are not."""
        return self.tick.alarm

    @alarm.setter
    def alarm(self, reason: str) -> None:
        self.tick.alarm = reason

    def next_number(self) -> int:
        """A number for a new connection, unique for the life of the node."""
        self._connections += 1
        return self._connections

    def end_tick(self) -> bool:
        """Dispatch queues, hand the batch of the tick to the storage, and send replies that need not wait.

        Returns whether there is more to deliver. If so, call it again after the sockets were written.
        """
        more = self.broker.dispatch()
        storage = self.broker.storage
        try:
            batch = storage.commit()
        except StorageFenced:
            self._fail(storage.failure)
            return more
        more |= self.broker.on_committed()
        self.durability.end_tick(batch, storage.durable_batch)
        # A consumer whose consume-ok was just sent may have messages to get.
        return more or self.broker.has_ready

    def on_durable(self) -> None:
        """Send the replies that waited for the storage, which made progress or failed. A tick must follow."""
        storage = self.broker.storage
        if storage.failure:
            # Batches that became durable before the failure are durable.
            self.durability.on_durable(storage.durable_batch)
            self._fail(storage.failure)
            return
        self.broker.on_durable()
        self.durability.on_durable(storage.durable_batch)

    def _fail(self, reason: str) -> None:
        self.failure = reason
        self.durability.fail(reason)
