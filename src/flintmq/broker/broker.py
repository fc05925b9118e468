"""The broker: virtual hosts over one storage, and the tick that moves what came in to where it goes."""

from dataclasses import replace
from typing import final

from mypy_extensions import i64

from flintmq.base.errors import ConfigurationError
from flintmq.base.limits import DISPATCH_WORK_UNITS, POLICY_STEP_NAMES, STAGE_STEP_MESSAGES
from flintmq.base.work import WORK
from flintmq.broker.access.limits import Limits
from flintmq.broker.access.user import User, check_user_size
from flintmq.broker.dead_letter.dead_letters import DeadLetters
from flintmq.broker.dialect import RABBITMQ, Dialect, dialect_named
from flintmq.broker.exchange.random_source import RandomSource
from flintmq.broker.exchange.registry import Exchanges
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
from flintmq.broker.queue.stream import StreamQueue
from flintmq.broker.rules import check_rule
from flintmq.broker.tick import Tick
from flintmq.broker.timers import NEVER
from flintmq.broker.vhost import VHost, check_vhost_size


@final
class Broker:
    """`seed` is all the chance there is: the same one makes the same choices of the same messages."""

    def __init__(self, storage: Storage, seed: int = 0) -> None:
        self.storage = storage
        # What this broker is called where it speaks of itself; whoever knows the machine sets it.
        self.node = "flintmq@localhost"
        self.tick = Tick()
        self.vhosts: dict[str, VHost] = {}
        self.users: dict[str, User] = {}
        # By virtual host, component and name.
        self.parameters: dict[tuple[str, str, str], ParameterRecord] = {}
        # By name: what this broker makes up once, and keeps to itself.
        self.secrets: dict[str, bytes] = {}
        self._ids = QueueIds(1)
        self._random = RandomSource(seed)
        self._exchanges: dict[str, Exchanges] = {}
        self.tick.pages = storage.pages
        self._dead_letters = DeadLetters(self.tick, self._exchanges, storage.journal)

    @property
    def now_ms(self) -> i64:
        """The time of what is being taken in (Unix time); whoever reads the clock sets it."""
        return self.tick.now_ms

    @now_ms.setter
    def now_ms(self, value: i64) -> None:
        self.tick.now_ms = value

    # -- definitions --------------------------------------------------------------------------------------------
    # Each change holds at once, and is durable with the batch it is in.

    def add_vhost(self, name: str, dialect: Dialect = RABBITMQ) -> VHost:
        return self.put_vhost(VHostRecord(name, dialect.name))

    def put_vhost(self, record: VHostRecord) -> VHost:
        """Make a virtual host, or change what is said of it. Raises ConfigurationError."""
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
        """With all that is in it, its connections and the permissions for it. Raises ConfigurationError."""
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
        """Make a user, or change password and tags. Raises ConfigurationError."""
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
        """With its connections and permissions, and what is kept of its links. Raises ConfigurationError."""
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
        """Lay down a permission, policy, limit or parameter. Raises ConfigurationError for one that makes no sense."""
        check_rule(rule)
        self._apply(rule)
        self.storage.definitions.put_rule(rule)

    def delete_rule(self, rule: Rule) -> None:
        """Withdraw the rule that this one would replace, if there is one. Raises ConfigurationError."""
        self._withdraw(rule)
        self.storage.definitions.delete_rule(rule)

    def apply_policies(self, most: i64) -> bool:
        """Compare so many names with a change of policies that is under way; returns whether there are others left."""
        changes = self.tick.policy_changes
        if changes and not changes[0].step(most):
            changes.popleft()
        return bool(changes)

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
        """Memory is low: keep as few messages in it as can be."""
        for vhost in self.vhosts.values():
            for queue in vhost.queues.values():
                queue.page_out()
            for queue in vhost.replies.values():
                queue.page_out()
            vhost.stages.page_out()

    def dispatch(self) -> bool:
        """Let time pass, and deliver from every queue that may have something for its consumers.

        True when a queue used up its burst: others get their turn, and the sockets theirs, before it goes on.
        """
        tick = self.tick
        if tick.rearranged:
            self._rearrange()
        # A message whose time is up just now may still be delivered at once: that is what a time of zero asks for.
        tick.expiries.run(tick.now_ms - 1)
        tick.timers.run(tick.now_ms)
        more = self._publish_staged() if tick.stages else False
        if tick.policy_changes:
            more |= self.apply_policies(POLICY_STEP_NAMES)
        more |= self._dispatch_ready()
        tick.expiries.run(tick.now_ms)
        if tick.dead_letters or tick.discarded or tick.roomy:
            more |= self._dead_letters.publish()
            # They may live no time, either, where they come to.
            more |= self._dispatch_ready()
        if tick.tap is not None:
            tick.tap.end_dispatch()
        while tick.unused:
            queue = tick.unused.pop()
            vhost = self.vhosts.get(queue.vhost)
            # It may have gone with its virtual host in this very tick.
            if vhost is not None:
                vhost.remove_queue(queue)
        while tick.ended:
            ending = tick.ended.pop()
            if ending.is_over:
                self.vhosts[ending.ended_queue.vhost].remove_queue(ending.ended_queue)
        if tick.deferred:
            # Last: nothing else may come to those streams before the batch is handed over.
            offsets: dict[int, int] = {}
            for work in tick.deferred:
                work.plan(offsets)
        return more

    def _publish_staged(self) -> bool:
        """Batches that are committed go on to their queues, so many messages a tick."""
        stages = self.tick.stages
        self.tick.stages = []
        share: i64 = max(1, STAGE_STEP_MESSAGES // len(stages))
        more = False
        stages.reverse()
        try:
            while stages:
                more |= stages.pop().step(share)
        finally:
            # One that fails must not take along those behind it.
            self.tick.stages += stages
        return more

    def on_committed(self) -> bool:
        """The batch of a tick was handed over, and nothing was taken in since. True when another tick has to follow."""
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
        """How many wait to be published."""
        return len(self.tick.dead_letters)

    def publish_given_up(self, since: int) -> None:
        """Those that consumers made since there were so many, in the group of the journal that is open."""
        self._dead_letters.publish_given_up(since)

    def _dispatch_ready(self) -> bool:
        ready, in_turn = self.tick.ready, self.tick.in_turn
        if not ready and not in_turn:
            return False
        turn = in_turn + ready if in_turn else ready[:]
        ready.clear()
        in_turn.clear()
        more = False
        turn.reverse()
        enough = WORK.spent + DISPATCH_WORK_UNITS
        try:
            while turn:
                if WORK.spent > enough:
                    # To ask whom messages suit took so long that the others have their turn in the next tick.
                    more = True
                    break
                queue = turn.pop()
                if not queue.is_due:
                    # It was on both lists, or has been dispatched for somebody who could not wait.
                    continue
                queue.dispatched()
                if queue.dispatch():
                    queue.touch()
                    more = True
        finally:
            # A queue that fails must not take along those behind it.
            turn.reverse()
            ready[:0] = turn
        return more

    @property
    def has_ready(self) -> bool:
        """Whether a queue may have something to deliver."""
        return bool(self.tick.ready) or bool(self.tick.in_turn)

    @property
    def next_due_ms(self) -> int:
        """When `dispatch` has something to do even if nothing comes (Unix time in ms); 0 for never."""
        due_ms, expires_ms = self.tick.timers.next_ms, self.tick.expiries.next_ms
        return min(due_ms, expires_ms) if due_ms != NEVER and expires_ms != NEVER else max(due_ms, expires_ms)

    def on_durable(self) -> None:
        """The storage made progress: streams may have more to deliver at the end of the next tick."""
        unsynced = self.tick.unsynced[:]
        self.tick.unsynced.clear()
        for stream in unsynced:
            stream.synced()

    def note_undelivered(self) -> None:
        """All connections are closed, and the storage will be: messages that nobody has had will not be flagged."""
        for vhost in self.vhosts.values():
            for queue in vhost.queues.values():
                if isinstance(queue, EntryQueue):
                    queue.note_undelivered()

    # -- start-up -----------------------------------------------------------------------------------------------

    def recover(self, definitions: Definitions) -> int:
        """Build everything from storage, before the first connection; returns how many messages were found."""
        queues = self.restore(definitions)
        noting = {
            *[record.id for record in definitions.termini],
            *[record.id for record in definitions.leases],
            *[record.id for record in definitions.stages],
        }
        noting &= set(queues)
        count = 0
        for queue_id, entry in self.storage.recover(set(queues), noting):
            queues[queue_id].restore(entry)
            # Others are notes: of messages that were there before, and of who has some.
            count += queue_id > 0 and queue_id not in noting
        for queue_id, queue in queues.items():
            queue.start_at(self.storage.recovered_next_seq(queue_id))
        for vhost in self.vhosts.values():
            vhost.stages.retire_unowned(self.users)
        if self.tick.has_appended:
            # How far streams had got is to be on the disk before they go on.
            self.storage.commit()
            self.storage.begin_behind()
        return count

    def restore(self, definitions: Definitions) -> dict[int, Recoverable]:
        """Build all but the messages; returns the queues that may have some in the journal, by id."""
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
                # Before its queue, which takes notes of what it lets go of at the start.
                queues[-record.id] = queue.dedup
            if isinstance(queue, Recoverable):
                queues[record.id] = queue
            elif isinstance(queue, StreamQueue):
                streams[record.id] = queue
        for place in definitions.reader_offsets:
            stream = streams.get(place.queue_id)
            if stream is not None:
                stream.restore_place(place)
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
