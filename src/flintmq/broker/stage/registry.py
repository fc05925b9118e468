"""The stages of a virtual host, by their transactional ids."""

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
class Stages:
    """`deliver` puts a message on queues."""

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
        # When somebody first opened one in this run of the broker: what is older is not known.
        self._since_ms: i64 = 0
        # While the broker starts.
        self._queues: Mapping[int, Queue] = {}

    def open(self, name: str, user: str, owner: str) -> Stage:
        """The stage of this transactional id, with a new writer; made where there is none.

        Raises AccessRefused where it is another user's, PreconditionFailed where there are too many, or for no name.
        """
        if name == "":
            raise PreconditionFailed("a transactional id must not be empty")
        stage = self.by_name.get(name)
        if stage is None:
            if len(self.by_name) >= STAGES_MAX:
                raise PreconditionFailed(
                    f"vhost '{self._vhost}' remembers {STAGES_MAX} transactional ids: forget those that are not used"
                )
            if not self._has_room(user):
                raise PreconditionFailed(
                    f"user '{user}' has {STAGES_USER_MAX} transactional ids in vhost '{self._vhost}': "
                    "forget those that are not used"
                )
            stage = Stage(StageRecord(self._ids.take(), self._vhost, name, user), self)
            self.by_name[name] = stage
            self._definitions.put_stage(stage.record)
        else:
            self._check_user(stage, user)
        stage.open(owner)
        return stage

    def _has_room(self, user: str) -> bool:
        """For one more of this user, if need be in the place of the one that was not used for the longest time."""
        now_ms = self.tick.now_ms
        if self._since_ms == 0:
            self._since_ms = now_ms
        its = [stage for stage in self.by_name.values() if stage.record.user == user and not stage.is_retired]
        if len(its) < STAGES_USER_MAX:
            return True
        for stage in sorted(its, key=lambda stage: int(stage.used_ms)):
            if now_ms - max(stage.used_ms, self._since_ms) < STAGE_IDLE_MS:
                return False
            if stage.is_idle:
                stage.retire()
                return True
        return False

    def find(self, name: str, user: str) -> Stage:
        """Raises NotFound, or AccessRefused where it is another user's."""
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
        """Which batch was the last one, too. Raises AccessRefused; where there is none, there is nothing to do."""
        stage = self.by_name.get(name)
        if stage is not None:
            self._check_user(stage, user)
            stage.retire()

    def forget_any(self, name: str) -> None:
        """The same, whoever's it is."""
        stage = self.by_name.get(name)
        if stage is not None:
            stage.retire()

    def user_deleted(self, user: str) -> None:
        """Nobody else goes on with what was its, not even a user that has its name later."""
        for stage in list(self.by_name.values()):
            if stage.record.user == user:
                stage.retire()

    def retired(self, stage: Stage) -> None:
        """Nothing is left of a stage but its definition."""
        stage.gone = True
        stage.drop_state()
        del self.by_name[stage.record.name]
        self._definitions.delete_stage(stage.record)

    def page_out(self) -> None:
        """Memory is low: keep as little of what is staged in it as can be."""
        for stage in self.by_name.values():
            stage.page_out()

    def discard(self) -> None:
        """The virtual host is deleted."""
        for stage in self.by_name.values():
            stage.discard_all()
        self.by_name = {}

    # -- start-up -----------------------------------------------------------------------------------------------

    def restore(self, record: StageRecord, queues: Mapping[int, Queue]) -> Stage:
        """One that was kept; `queues` are those there are, by id."""
        self._queues = queues
        restored = self.by_name[record.name] = Stage(record, self)
        return restored

    def retire_unowned(self, users: Container[str]) -> None:
        """A crash may have kept the deletion of a user, and not what `user_deleted` wrote with it."""
        for stage in self.by_name.values():
            if stage.record.user not in users and not is_by_token(stage.record.user):
                stage.retire()

    def queue_by_id(self, queue_id: int) -> Queue | None:
        return self._queues.get(queue_id)
