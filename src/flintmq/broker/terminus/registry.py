"""The link termini of a virtual host, by user, container, link and role."""

from collections.abc import Mapping
from typing import final

from mypy_extensions import i64

from flintmq.base.errors import ResourceError
from flintmq.base.limits import TERMINI_MAX, TERMINI_USER_MAX
from flintmq.broker.ports import Storage, TerminusRecord
from flintmq.broker.queue.base import Queue
from flintmq.broker.queue.ids import QueueIds
from flintmq.broker.terminus.terminus import NONE, SOURCE, TARGET, SourceTerminus, TargetTerminus, Terminus
from flintmq.broker.tick import Tick

# User, container and link. The user is part of the key because a container chooses its own name.
_Key = tuple[str, str, str]


@final
class TerminusRegistry:
    def __init__(self, vhost: str, storage: Storage, tick: Tick, ids: QueueIds) -> None:
        self.sources: dict[_Key, SourceTerminus] = {}
        self.targets: dict[_Key, TargetTerminus] = {}
        self.journal = storage.journal
        self.pages = storage.pages
        self.definitions = storage.definitions
        self.timers = tick.timers
        self.partial_messages = tick.partial_messages
        self._vhost = vhost
        self._tick = tick
        self._ids = ids
        # The number of termini of each user.
        self._of_users: dict[str, i64] = {}
        # Termini by the session, or connection, that used them last.
        self._of_sessions: dict[object, dict[Terminus, None]] = {}
        self._of_connections: dict[object, dict[Terminus, None]] = {}
        # Used at start-up only.
        self._queues: Mapping[int, Queue] = {}

    def __len__(self) -> int:
        return len(self.sources) + len(self.targets)

    @property
    def now_ms(self) -> i64:
        return self._tick.now_ms

    def make_source(
        self, user: str, container: str, link: str, durability: int, expiry: str, timeout_ms: int, configuration: bytes
    ) -> SourceTerminus:
        """Create a source terminus; there must be none of this name. Raises ResourceError if there are too many."""
        made = SourceTerminus(
            self._record(user, container, link, SOURCE, durability, expiry, timeout_ms, configuration), self
        )
        self.sources[user, container, link] = made
        return made

    def make_target(
        self, user: str, container: str, link: str, durability: int, expiry: str, timeout_ms: int, configuration: bytes
    ) -> TargetTerminus:
        """Create a target terminus; there must be none of this name. Raises ResourceError if there are too many."""
        made = TargetTerminus(
            self._record(user, container, link, TARGET, durability, expiry, timeout_ms, configuration), self
        )
        self.targets[user, container, link] = made
        return made

    def _record(
        self,
        user: str,
        container: str,
        link: str,
        role: str,
        durability: int,
        expiry: str,
        timeout_ms: int,
        configuration: bytes,
    ) -> TerminusRecord:
        if len(self) >= TERMINI_MAX:
            raise ResourceError(
                f"vhost '{self._vhost}' has {TERMINI_MAX} link termini already: close links that will not be resumed, "
                "or let them expire"
            )
        if self._of_users.get(user, 0) >= TERMINI_USER_MAX:
            raise ResourceError(
                f"user '{user}' has {TERMINI_USER_MAX} link termini in vhost '{self._vhost}' already: close links "
                "that will not be resumed, or let them expire"
            )
        record = TerminusRecord(
            self._ids.take(), self._vhost, user, container, link, role, durability, expiry, timeout_ms, configuration
        )
        if durability > NONE:
            self.definitions.put_terminus(record)
        self._count(user, 1)
        return record

    def join(self, terminus: Terminus) -> None:
        """Take note that a link of a session and connection uses the terminus."""
        self._of_sessions.setdefault(terminus.session, {})[terminus] = None
        self._of_connections.setdefault(terminus.connection, {})[terminus] = None

    def leave(self, terminus: Terminus) -> None:
        """Detach the terminus from the session and the connection that used it last."""
        _remove(self._of_sessions, terminus.session, terminus)
        _remove(self._of_connections, terminus.connection, terminus)
        terminus.session = None
        terminus.connection = None

    def session_ended(self, session: object) -> None:
        """End the use of its termini: a session has ended, with all its links."""
        for terminus in list(self._of_sessions.pop(session, {})):
            terminus.end_session()

    def connection_closed(self, connection: object) -> None:
        """End the use of its termini: a connection has closed, with all its sessions."""
        for terminus in list(self._of_connections.pop(connection, {})):
            self.leave(terminus)
            terminus.close_connection()

    def user_deleted(self, user: str) -> None:
        """Expire the termini of a deleted user: a later user of the same name must not resume them."""
        every: list[Terminus] = [*self.sources.values(), *self.targets.values()]
        for terminus in every:
            if terminus.record.user == user:
                terminus.expire()

    def forget(self, terminus: Terminus) -> None:
        """Remove a terminus that is gone."""
        self.leave(terminus)
        key = _key(terminus.record)
        if terminus.record.role == SOURCE:
            if self.sources.get(key) is terminus:
                del self.sources[key]
                self._count(key[0], -1)
        elif self.targets.get(key) is terminus:
            del self.targets[key]
            self._count(key[0], -1)

    def _count(self, user: str, change: i64) -> None:
        count = self._of_users.get(user, 0) + change
        if count > 0:
            self._of_users[user] = count
        else:
            self._of_users.pop(user, None)

    def discard(self) -> None:
        """Discard all termini: the virtual host is deleted, and its queues are gone."""
        every: list[Terminus] = [*self.sources.values(), *self.targets.values()]
        for terminus in every:
            terminus.release_all()
            terminus.discard()

    # -- start-up -----------------------------------------------------------------------------------------------

    def restore(self, record: TerminusRecord, queues: Mapping[int, Queue]) -> Terminus:
        """Restore a terminus. `queues` are the existing queues by id."""
        self._queues = queues
        key = _key(record)
        self._count(key[0], 1)
        restored: Terminus
        if record.role == SOURCE:
            restored = self.sources[key] = SourceTerminus(record, self)
        else:
            restored = self.targets[key] = TargetTerminus(record, self)
        node = queues.get(record.node_id)
        if node is not None:
            restored.own(node)
        return restored

    def queue_by_id(self, queue_id: int) -> Queue | None:
        return self._queues.get(queue_id)


def _key(record: TerminusRecord) -> _Key:
    return record.user, record.container, record.link


def _remove(users: dict[object, dict[Terminus, None]], user: object | None, terminus: Terminus) -> None:
    used = users.get(user)
    if used is not None:
        used.pop(terminus, None)
        if not used:
            del users[user]
