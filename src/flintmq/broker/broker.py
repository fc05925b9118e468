"""The broker: virtual hosts over one storage, and the tick that moves messages."""

from dataclasses import replace
from typing import final

from mypy_extensions import i64

from flintmq.base.errors import ConfigurationError
from flintmq.base.limits import (
    DELETED_QUEUE_UNITS,
    DISPATCH_WORK_UNITS,
    EXPIRY_STEP_MESSAGES,
    STAGE_STEP_MESSAGES,
    STEP_UNITS,
)
from flintmq.base.work import WORK
from flintmq.broker.access.limits import Limits
from flintmq.broker.access.user import User, check_user_size
from flintmq.broker.dead_letter.dead_letters import DeadLetters
from flintmq.broker.dialect import RABBITMQ, Dialect, dialect_named
from flintmq.broker.exchange.random_source import RandomSource
from flintmq.broker.exchange.registry import ExchangeRegistry
from flintmq.broker.ports import (
    Definitions,
    LimitRecord,
    ParameterRecord,
    PermissionRecord,
    PolicyRecord,
    Rule,
    Storage,
    TopicPermissionRecord,
    UserRecord,
    VHostRecord,
)
from flintmq.broker.queue.base import Queue, Recoverable
from flintmq.broker.queue.classic import ClassicQueue
from flintmq.broker.queue.entries import EntryQueue
from flintmq.broker.queue.ids import QueueIds
from flintmq.broker.queue.recovery import Recovery
from flintmq.broker.queue.stream import StreamQueue
from flintmq.broker.queue.undelivered import note_undelivered
from flintmq.broker.rules import check_rule
from flintmq.broker.tick import Tick
from flintmq.broker.timers import NEVER
from flintmq.broker.vhost import VHost, check_vhost_size


@final
class Broker:
    """All virtual hosts and users. `seed` determines all random choices: the same seed and messages repeat a run."""

    def __init__(self, storage: Storage, seed: int = 0) -> None:
        self.storage = storage
        # The node's name in answers and logs. The server sets it.
        self.node = "flintmq@localhost"
        self.tick = Tick()
        self.vhosts: dict[str, VHost] = {}
        self.users: dict[str, User] = {}
        # Keys are virtual host, component and name.
        self.parameters: dict[tuple[str, str, str], ParameterRecord] = {}
        # Keys are names. The broker generates each secret once and exports none.
        self.secrets: dict[str, bytes] = {}
        self._ids = QueueIds(1)
        self._random = RandomSource(seed)
        self._exchanges: dict[str, ExchangeRegistry] = {}
        self.tick.pages = storage.pages
        self._dead_letters = DeadLetters(self.tick, self._exchanges, storage.journal)

    @property
    def now_ms(self) -> i64:
        """The time of the input that is being handled (Unix time in ms). The server reads the clock and sets it."""
        return self.tick.now_ms

    @now_ms.setter
    def now_ms(self, value: i64) -> None:
        self.tick.now_ms = value

    # -- definitions --------------------------------------------------------------------------------------------
    # Each change holds at once, and is durable with the batch it is in.

    def add_vhost(self, name: str, dialect: Dialect = RABBITMQ) -> VHost:
        return self.put_vhost(VHostRecord(name, dialect.name))

    def put_vhost(self, record: VHostRecord) -> VHost:
        """Create or change a virtual host. Raises ConfigurationError for an invalid record."""
        vhost = self.vhosts.get(record.name)
        if vhost is None or vhost.record != record:
            check_vhost_size(record, vhost is None)
        if vhost is None:
            vhost = self._make_vhost(record)
        else:
            vhost.describe(record)
        self.storage.definitions.put_vhost(record)
        return vhost

    def _make_vhost(self, record: VHostRecord) -> VHost:
        dialect = dialect_named(record.dialect)
        vhost = VHost(record.name, self.storage, self.tick, self._ids, self._random, dialect)
        vhost.describe(record)
        self.vhosts[record.name] = vhost
        self._exchanges[record.name] = vhost.exchanges
        return vhost

    def delete_vhost(self, name: str) -> None:
        """Delete a virtual host with its contents, connections and permissions.

        Raises ConfigurationError if it does not exist.
        """
        vhost = self.vhost(name)
        vhost.remove()
        self.tick.churn.published += vhost.router.published
        self.tick.churn.gone.add(vhost.traffic)
        del self.vhosts[name]
        del self._exchanges[name]
        for user in self.users.values():
            user.forget_vhost(name)
        self.parameters = {key: record for key, record in self.parameters.items() if record.vhost != name}
        self.storage.definitions.delete_vhost(name)

    def vhost(self, name: str) -> VHost:
        found = self.vhosts.get(name)
        if found is None:
            raise ConfigurationError(f"there is no vhost '{name}'")
        return found

    def put_user(self, record: UserRecord) -> User:
        """Create a user, or change password and tags. Raises ConfigurationError for an invalid record."""
        user = self.users.get(record.name)
        if user is None or user.record.tags != record.tags:
            check_user_size(record, user is None)
        if user is None:
            user = User(record)
            self.users[record.name] = user
        else:
            if not record.scram and record.password_hash == user.record.password_hash:
                record = replace(record, scram=user.record.scram)
            user.record = record
        self.storage.definitions.put_user(record)
        return user

    def delete_user(self, name: str) -> None:
        """Delete a user with connections, permissions and suspended links.

        Raises ConfigurationError if it does not exist.
        """
        user = self.user(name)
        for connection in list(user.connections):
            connection.disconnect(f"user '{name}' is deleted")
        for vhost in self.vhosts.values():
            vhost.termini.user_deleted(name)
            vhost.stages.user_deleted(name)
        del self.users[name]
        self.storage.definitions.delete_user(name)

    def user(self, name: str) -> User:
        found = self.users.get(name)
        if found is None:
            raise ConfigurationError(f"there is no user '{name}'")
        return found

    def put_secret(self, name: str, value: bytes) -> None:
        self.secrets[name] = value
        self.storage.definitions.put_secret(name, value)

    def put_rule(self, rule: Rule) -> None:
        """Set a permission, policy, limit or parameter. Raises ConfigurationError for an invalid rule."""
        check_rule(rule)
        self._apply(rule)
        self.storage.definitions.put_rule(rule)

    def delete_rule(self, rule: Rule) -> None:
        """Delete the rule that this one would replace, if any. Raises ConfigurationError if its owner is missing."""
        self._withdraw(rule)
        self.storage.definitions.delete_rule(rule)

    def _apply(self, rule: Rule) -> None:
        if isinstance(rule, PermissionRecord):
            self.vhost(rule.vhost)
            self.user(rule.user).rights(rule.vhost).grant(rule)
        elif isinstance(rule, TopicPermissionRecord):
            self.vhost(rule.vhost)
            self.user(rule.user).rights(rule.vhost).grant_topics(rule)
        elif isinstance(rule, PolicyRecord):
            self.vhost(rule.vhost).put_policy(rule)
        elif isinstance(rule, LimitRecord):
            self._limits(rule).values[rule.name] = rule.value
        else:
            if rule.vhost:
                self.vhost(rule.vhost)
            self.parameters[rule.vhost, rule.component, rule.name] = rule

    def _withdraw(self, rule: Rule) -> None:
        if isinstance(rule, PermissionRecord):
            self.user(rule.user).rights(rule.vhost).revoke()
        elif isinstance(rule, TopicPermissionRecord):
            self.user(rule.user).rights(rule.vhost).revoke_topics(rule.exchange)
        elif isinstance(rule, PolicyRecord):
            self.vhost(rule.vhost).delete_policy(rule)
        elif isinstance(rule, LimitRecord):
            self._limits(rule).values.pop(rule.name, None)
        else:
            self.parameters.pop((rule.vhost, rule.component, rule.name), None)

    def _limits(self, rule: LimitRecord) -> Limits:
        return self.vhost(rule.owner).limits if rule.scope == "vhost" else self.user(rule.owner).limits

    # -- the tick -----------------------------------------------------------------------------------------------

    def page_out(self) -> None:
        """Move as many messages as possible out of memory: memory is low."""
        for vhost in self.vhosts.values():
            for queue in [*vhost.queues.values(), *vhost.replies.values()]:
                if isinstance(queue, EntryQueue):
                    queue.page_out()
            vhost.stages.page_out()

    def dispatch(self) -> bool:
        """Run due timers, and deliver from every queue that may have a message for its consumers.

        Returns True if a queue used up its burst. Other queues and the sockets then come first before that queue
        continues.
        """
        tick = self.tick
        tick.dispatch.is_behind = False
        if tick.rearranged:
            self._rearrange()
        # A message that expires in this very ms may still be delivered: a time to live of 0 asks for exactly that.
        tick.expiries.run(tick.now_ms - 1, EXPIRY_STEP_MESSAGES)
        tick.timers.run(tick.now_ms)
        more = self._publish_staged() if tick.stages else False
        steps_left: i64 = STEP_UNITS
        if tick.steps:
            began: i64 = WORK.spent
            more |= self.do_steps(STEP_UNITS)
            steps_left -= WORK.spent - began
        more |= self._dispatch_ready()
        tick.expiries.run(tick.now_ms, tick.expiries.left)
        # A timer would only wake a later tick, and one that takes a late timer for a process that was stopped.
        more |= tick.expiries.left <= 0
        if tick.dead_letters or tick.discarded or tick.with_room:
            more |= self._dead_letters.publish()
            # Messages that arrived here may also have a time to live of 0.
            more |= self._dispatch_ready()
        if tick.tap is not None:
            tick.tap.end_dispatch()
        if tick.unused:
            more |= self._delete_unused(steps_left)
        while tick.ended:
            queue = tick.ended.pop()
            vhost = self.vhosts.get(queue.vhost)
            if queue.has_ended and vhost is not None:
                vhost.remove_queue(queue)
        if tick.deferred:
            # Offsets are read last: nothing may be appended to those streams between this and the end of the batch.
            offsets: dict[int, int] = {}
            for work in tick.deferred:
                work.plan(offsets)
        return more

    def do_steps(self, most: i64) -> bool:
        """Do steps of the work that ticks do, until `most` units of work are spent. Returns whether some is left."""
        steps = self.tick.steps
        enough = WORK.spent + most
        for _ in range(len(steps)):
            if WORK.spent >= enough:
                break
            self.tick.do_step(steps.popleft(), enough - WORK.spent)
        return bool(steps)

    def _delete_unused(self, most: i64) -> bool:
        """Delete unused queues until `most` units of work are spent. Returns whether some are left."""
        unused = self.tick.unused
        enough = WORK.spent + most
        while unused and WORK.spent < enough:
            queue = unused.popleft()
            vhost = self.vhosts.get(queue.vhost)
            # The queue may have been deleted with its virtual host, or used, since it was found unused.
            if vhost is None or queue.gone:
                continue
            if queue.is_unused:
                WORK.spent += DELETED_QUEUE_UNITS
                vhost.remove_queue(queue)
            else:
                queue.watch_for_use()
        return bool(unused)

    def _publish_staged(self) -> bool:
        """Move messages of committed batches to their queues, a bounded number per tick."""
        stages = self.tick.stages
        self.tick.stages = []
        share: i64 = max(1, STAGE_STEP_MESSAGES // len(stages))
        more = False
        stages.reverse()
        try:
            while stages:
                more |= stages.pop().step(share)
        finally:
            # A stage that raises must not remove the ones behind it from the list.
            self.tick.stages += stages
        return more

    def on_committed(self) -> bool:
        """The tick's batch was handed to the storage, and no input was handled since.

        True if another tick has to follow.
        """
        deferred = self.tick.deferred
        if not deferred:
            return False
        self.tick.deferred = []
        self.storage.begin_behind()
        for work in deferred:
            work.run()
        return True

    def _rearrange(self) -> None:
        rearranged = self.tick.rearranged
        self.tick.rearranged = {}
        for queue in rearranged:
            vhost = self.vhosts.get(queue.vhost)
            if vhost is not None:
                vhost.rearrange(queue)

    @property
    def dead_letter_count(self) -> int:
        """The number of dead letters that wait to be published."""
        return len(self.tick.dead_letters)

    def publish_dead_letters_since(self, since: int) -> None:
        """Publish dead letters that consumers caused, of those behind the first `since`, in the open journal group."""
        self._dead_letters.publish_since(since)

    def _dispatch_ready(self) -> bool:
        """Give queues turns. Returns whether any has more to deliver and has to wait for the next tick."""
        dispatch = self.tick.dispatch
        dispatch.begin()
        more = self._dispatch_turn()
        while more and dispatch.is_bounded and not dispatch.is_over():
            more = self._dispatch_turn()
        return more

    def _dispatch_turn(self) -> bool:
        ready, in_turn = self.tick.ready, self.tick.in_turn
        if not ready and not in_turn:
            return False
        turn = in_turn + ready if in_turn else ready[:]
        ready.clear()
        in_turn.clear()
        more = False
        turn.reverse()
        dispatch = self.tick.dispatch
        enough = WORK.spent + DISPATCH_WORK_UNITS
        try:
            while turn:
                if WORK.spent > enough or dispatch.is_over():
                    # The other queues get their turn in the next tick. The selectors, or many queues, took so long.
                    more = True
                    break
                queue = turn.pop()
                if not queue.is_due:
                    # The queue was on both lists, or was dispatched for a consumer that could not wait.
                    continue
                queue.dispatched()
                if queue.dispatch():
                    queue.touch()
                    more = True
        finally:
            # A queue that raises must not remove the ones behind it from the list.
            turn.reverse()
            ready[:0] = turn
        return more

    @property
    def has_ready(self) -> bool:
        """Whether any queue may have a message to deliver."""
        return bool(self.tick.ready) or bool(self.tick.in_turn)

    @property
    def next_due_ms(self) -> int:
        """The time at which `dispatch` has work even if nothing arrives (Unix time in ms), 0 for never."""
        due_ms, expires_ms = self.tick.timers.next_ms, self.tick.expiries.next_ms
        return min(due_ms, expires_ms) if due_ms != NEVER and expires_ms != NEVER else max(due_ms, expires_ms)

    def on_durable(self) -> None:
        """The storage made progress: streams may have more to deliver at the end of the next tick."""
        unsynced = self.tick.unsynced[:]
        self.tick.unsynced.clear()
        for stream in unsynced:
            stream.synced()

    def note_undelivered(self) -> None:
        """Note in the journal which messages were never delivered, so that a restart does not flag them as redelivered.

        Called when all connections are closed and the storage is still open.
        """
        for vhost in self.vhosts.values():
            for queue in vhost.queues.values():
                if isinstance(queue, EntryQueue):
                    note_undelivered(queue)

    # -- start-up -----------------------------------------------------------------------------------------------

    def recover(self, definitions: Definitions) -> int:
        """Restore everything from storage before the first connection. Returns how many messages were found."""
        queues = self.restore(definitions)
        noting = {
            *[record.id for record in definitions.termini],
            *[record.id for record in definitions.leases],
            *[record.id for record in definitions.stages],
        }
        noting &= set(queues)
        count = 0
        for queue_id, entries in self.storage.recover(set(queues), noting):
            queues[queue_id].restore_all(entries)
            # The other records are notes, about messages that existed before or that somebody holds.
            if queue_id > 0 and queue_id not in noting:
                count += len(entries)
        for queue_id, queue in queues.items():
            queue.start_at(self.storage.recovered_next_seq(queue_id))
        for vhost in self.vhosts.values():
            vhost.stages.retire_unowned(self.users)
        if self.tick.has_appended:
            # The offsets that streams had reached must be on the disk before the streams continue.
            self.storage.commit()
            self.storage.begin_behind()
        return count

    def restore(self, definitions: Definitions) -> dict[int, Recoverable]:
        """Restore all but the messages. Returns, by id, the queues that may have messages in the journal."""
        self._ids = QueueIds(definitions.next_queue_id)
        self.secrets = dict(definitions.secrets)
        for vhost in definitions.vhosts:
            self._make_vhost(vhost)
        for user in definitions.users:
            self.users[user.name] = User(user)
        for rule in definitions.rules:
            self._apply(rule)
        for exchange in definitions.exchanges:
            self.vhosts[exchange.vhost].exchanges.restore(exchange)
        queues: dict[int, Recoverable] = {}
        streams: dict[int, StreamQueue] = {}
        by_id: dict[int, Queue] = {}
        for record in definitions.queues:
            queue = self.vhosts[record.vhost].restore_queue(record)
            by_id[record.id] = queue
            if isinstance(queue, ClassicQueue) and queue.dedup is not None:
                # The deduplication notes come before their queue, which takes notes of entries that it drops at the
                # start.
                queues[-record.id] = queue.dedup
            if isinstance(queue, EntryQueue):
                queues[record.id] = Recovery(queue)
            elif isinstance(queue, Recoverable):
                queues[record.id] = queue
            elif isinstance(queue, StreamQueue):
                streams[record.id] = queue
        for place in definitions.reader_offsets:
            stream = streams.get(place.queue_id)
            if stream is not None:
                stream.reader_offsets.restore(place)
        for terminus in definitions.termini:
            queues[terminus.id] = self.vhosts[terminus.vhost].termini.restore(terminus, by_id)
        for record_of_lease in definitions.leases:
            lease = self.vhosts[record_of_lease.vhost].leases.restore(record_of_lease, by_id)
            if lease is not None:
                queues[record_of_lease.id] = lease
        for record_of_stage in definitions.stages:
            stage = self.vhosts[record_of_stage.vhost].stages.restore(record_of_stage, by_id)
            queues[stage.record.id] = stage
            queues[int(stage.copies.id)] = stage.copies
        for binding in definitions.bindings:
            self.vhosts[binding.vhost].restore_binding(binding)
        return queues
