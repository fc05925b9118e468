"""The stages of a virtual host, by transactional id."""

from collections.abc import Callable, Container, Mapping
from typing import final

from mypy_extensions import i64

from flintmq.base.errors import AccessRefused, NotFound, PreconditionFailed
from flintmq.base.limits import STAGE_IDLE_MS, STAGES_MAX, STAGES_USER_MAX
from flintmq.broker.access.user import is_by_token
from flintmq.broker.message import Message
from flintmq.broker.ports import StageRecord, Storage
from flintmq.broker.queue.base import Queue
from flintmq.broker.queue.ids import QueueIds
from flintmq.broker.stage.stage import Stage
from flintmq.broker.tick import Tick


@final
class StageRegistry:
    """The stages of a virtual host. `deliver` puts a message on queues."""

    def __init__(
        self,
        vhost: str,
        storage: Storage,
        tick: Tick,
        ids: QueueIds,
        deliver: Callable[[Message, list[Queue]], int],
    ) -> None:
        self.by_name: dict[str, Stage] = {}
        self.journal = storage.journal
        self.tick = tick
        self.deliver = deliver
        self._vhost = vhost
        self._definitions = storage.definitions
        self._ids = ids
        # The time of the first call of `open` since the broker started: the use of stages before it is not known.
        self._since_ms: i64 = 0
        # Used at start-up only.
        self._queues: Mapping[int, Queue] = {}

    def open(self, name: str, user: str, owner: str) -> Stage:
        """Open a stage for a new writer; create it if there is none with this transactional id.

        Raises AccessRefused if it is another user's, PreconditionFailed if there are too many, or for an empty name.
        """
        if name == "":
            raise PreconditionFailed("a transactional id must not be empty")
        stage = self.by_name.get(name)
        if stage is None:
            if len(self.by_name) >= STAGES_MAX:
                raise PreconditionFailed(
                    f"vhost '{self._vhost}' has {STAGES_MAX} transactional ids already: forget unused ones"
                )
            if not self._has_room(user):
                raise PreconditionFailed(
                    f"user '{user}' has {STAGES_USER_MAX} transactional ids in vhost '{self._vhost}' already: "
                    "forget unused ones"
                )
            stage = Stage(StageRecord(self._ids.take(), self._vhost, name, user), self)
            self.by_name[name] = stage
            self._definitions.put_stage(stage.record)
        else:
            self._check_user(stage, user)
        stage.open(owner)
        return stage

    def _has_room(self, user: str) -> bool:
        """Whether the user may have another stage. If necessary, retires the one that was unused the longest."""
        now_ms = self.tick.now_ms
        if self._since_ms == 0:
            self._since_ms = now_ms
        own = [stage for stage in self.by_name.values() if stage.record.user == user and not stage.is_retired]
        if len(own) < STAGES_USER_MAX:
            return True
        for stage in sorted(own, key=lambda stage: int(stage.used_ms)):
            if now_ms - max(stage.used_ms, self._since_ms) < STAGE_IDLE_MS:
                return False
            if stage.is_idle:
                stage.retire()
                return True
        return False

    def find(self, name: str, user: str) -> Stage:
        """Return the stage of this name. Raises NotFound, or AccessRefused if it is another user's."""
        stage = self.by_name.get(name)
        if stage is None:
            raise NotFound(f"no transactional id '{name}' in vhost '{self._vhost}'")
        self._check_user(stage, user)
        return stage

    def _check_user(self, stage: Stage, user: str) -> None:
        if stage.record.user != user:
            raise AccessRefused(
                f"access to transactional id '{stage.record.name}' in vhost '{self._vhost}' refused for user '{user}'"
            )

    def forget(self, name: str, user: str) -> None:
        """Forget a stage, with the number of its last batch. A missing one is no error.

        Raises AccessRefused if it is another user's.
        """
        stage = self.by_name.get(name)
        if stage is not None:
            self._check_user(stage, user)
            stage.retire()

    def forget_any(self, name: str) -> None:
        """Forget a stage, whoever's it is. A missing one is no error."""
        stage = self.by_name.get(name)
        if stage is not None:
            stage.retire()

    def user_deleted(self, user: str) -> None:
        """Forget the stages of a deleted user: a later user of the same name must not continue them."""
        for stage in list(self.by_name.values()):
            if stage.record.user == user:
                stage.retire()

    def retired(self, stage: Stage) -> None:
        """Remove a stage of which only the definition is left."""
        stage.gone = True
        stage.drop_state()
        del self.by_name[stage.record.name]
        self._definitions.delete_stage(stage.record)

    def page_out(self) -> None:
        """Move as many staged messages as possible out of memory: memory is low."""
        for stage in self.by_name.values():
            stage.page_out()

    def discard(self) -> None:
        """Discard all stages: the virtual host is deleted."""
        for stage in self.by_name.values():
            stage.discard_all()
        self.by_name = {}

    # -- start-up -----------------------------------------------------------------------------------------------

    def restore(self, record: StageRecord, queues: Mapping[int, Queue]) -> Stage:
        """Restore a stage. `queues` are the existing queues by id."""
        self._queues = queues
        restored = self.by_name[record.name] = Stage(record, self)
        return restored

    def retire_unowned(self, users: Container[str]) -> None:
        """Forget the stages of missing users: a crash may have kept a deletion and lost what `user_deleted` wrote."""
        for stage in self.by_name.values():
            if stage.record.user not in users and not is_by_token(stage.record.user):
                stage.retire()

    def queue_by_id(self, queue_id: int) -> Queue | None:
        return self._queues.get(queue_id)
