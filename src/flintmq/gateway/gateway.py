"""What all connections of a server share: the broker, the tick, and replies that wait for the disk."""

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
    """What a gateway needs and may not do itself. `peer` names the other side of a connection."""

    @abstractmethod
    def authenticate(
        self, peer: str, user: str, password: str, is_wanted: Callable[[], bool], answer: Callable[[str], None]
    ) -> None:
        """Check a password, in its own time, and call `answer` with why it is refused, empty where it is not.

        Nobody has to be told any more once it is not wanted.
        """

    @abstractmethod
    def check_token(
        self, peer: str, token: str, is_wanted: Callable[[], bool], answer: Callable[[str, Bearer | None], None]
    ) -> None:
        """The same for a token: `answer` is called with why it is refused, or with who came with it."""

    @abstractmethod
    def check_proof(
        self,
        peer: str,
        user: str,
        proof: Callable[[], str],
        is_wanted: Callable[[], bool],
        answer: Callable[[str], None],
    ) -> None:
        """The same for a client that has proved in a way of its own to be this user: `proof` says what is wrong with
        that, empty where nothing is. It is called once, from any thread.
        """

    @abstractmethod
    def refusal(self, peer: str, user: str) -> str:
        """Why a client that has proved to be this user may not come in; empty where it may."""

    @abstractmethod
    def scram_keys(self, user: str, mechanism: str) -> Keys:
        """What is kept of a user's password for this mechanism; for others, something that no password fits."""

    @abstractmethod
    def login_refused(self, peer: str, user: str, why: str) -> None:
        """Somebody may want to know. `user` is whom the client said to be, empty where it had not said that."""

    @abstractmethod
    def internal_error(self, error: Exception) -> None:
        """A fault of ours, which may cost a connection: the log has to have it, with its trace."""

    @abstractmethod
    def channel_failed(self, peer: str, user: str, channel: int, error: AmqpError) -> None:
        """A fault of the client cost it this channel, and the connection goes on: somebody may want to know."""

    def unsendable(self, user: str, vhost: str, queue: str, why: str) -> None:
        """A queue gave up a message that no client can be sent, or a stream passed over one: it is in no other log."""

    def audit(self, event: AuditEvent) -> None:
        """Somebody changed what is defined, or was refused it: the audit log wants to know."""


@dataclass(frozen=True)
class LoginPolicy:
    """`mechanisms` in the order they are offered. Who logs in anonymously is `anonymous_user`; empty: nobody may.

    `takes_tokens`: there is somebody whose tokens count. `allows_clear_text`: secrets may come over the network as they
    are.
    """

    mechanisms: tuple[str, ...] = (plain.NAME, amqplain.NAME)
    anonymous_user: str = ""
    takes_tokens: bool = False
    allows_clear_text: bool = False


@final
class Gateway:
    """`random_bytes(n)` is the source of names the server makes up."""

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
        # What messages hold that have begun to come, on all connections.
        self.reassembly = NodeReassembly()
        # Why the storage takes nothing any more; empty while it does.
        self.failure = ""
        # Replies that wait for a batch to become durable.
        self.durability = DurabilityQueue(host.internal_error)
        # Publish targets by the permissions that publishers have.
        self.targets = PermissionCache(PublishTargets)
        self._connections = 0

    @property
    def alarm(self) -> str:
        """Why publishers have to wait; empty while they need not."""
        return self.tick.alarm

    @alarm.setter
    def alarm(self, reason: str) -> None:
        self.tick.alarm = reason

    def next_number(self) -> int:
        """Connections are told apart by a number that is never used again."""
        self._connections += 1
        return self._connections

    def end_tick(self) -> bool:
        """Deliver, hand the tick's durable work to the storage, and confirm what needs no waiting.

        True when there is more to deliver: call again once the sockets had their turn.
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
        # A consumer whose consume-ok went out just now may have something to get.
        return more or self.broker.has_ready

    def on_durable(self) -> None:
        """The storage made progress, or failed: send the replies that waited for that. A tick has to follow."""
        storage = self.broker.storage
        if storage.failure:
            self._fail(storage.failure)
            return
        self.broker.on_durable()
        self.durability.on_durable(storage.durable_batch)

    def _fail(self, reason: str) -> None:
        self.failure = reason
        self.durability.fail(reason)
