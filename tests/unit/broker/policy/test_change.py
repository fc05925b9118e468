"""A change of policies where there are many queues: some in each tick, and none is left out."""

import pytest

from flintmq.base.errors import InternalError
from flintmq.base.limits import POLICY_NAME_UNITS, STEP_UNITS
from flintmq.broker.broker import Broker
from flintmq.broker.ports import PolicyRecord, StreamLimits
from flintmq.broker.vhost import VHost
from tests.unit.broker.memory import MemoryStorage, MemoryStream

PER_TICK = STEP_UNITS // POLICY_NAME_UNITS
COUNT = 5 * PER_TICK
POLICY = PolicyRecord("/", "p", "", {"max-length": 5, "alternate-exchange": "amq.fanout"}, "all", 0, False)


def _broker() -> tuple[Broker, VHost]:
    broker = Broker(MemoryStorage())
    vhost = broker.add_vhost("/")
    for number in range(COUNT):
        vhost.declare_queue(f"q{number}", True, False, False, {}, None)
    return broker, vhost


def _limited(vhost: VHost) -> int:
    return sum(queue.settings.max_length == 5 for queue in vhost.queues.values())


def test_some_names_in_each_tick() -> None:
    """However many there are, a turn compares so many of them; exchanges come last."""
    broker, vhost = _broker()
    broker.put_rule(POLICY)
    steps = [_limited(vhost)]
    while broker.dispatch():
        steps.append(_limited(vhost))
    assert steps == [PER_TICK * number for number in range(1, 6)]
    assert {exchange.alternate for exchange in vhost.exchanges.by_name.values()} >= {"amq.fanout"}
    broker.delete_rule(POLICY)
    while broker.dispatch():
        pass
    assert _limited(vhost) == 0


def test_what_happens_meanwhile() -> None:
    """New queues go by the policies as they are, deleted ones are passed over, and the last change counts."""
    broker, vhost = _broker()
    broker.put_rule(POLICY)
    last = vhost.queues[f"q{COUNT - 1}"]
    vhost.delete_queue(last.name, False, False, None)
    vhost.declare_queue("new", True, False, False, {}, None)
    assert vhost.queues["new"].settings.max_length == 5
    broker.put_rule(PolicyRecord("/", "p", "7", {"max-length": 7}, "all", 0, False))
    while broker.dispatch():
        pass
    expected = {queue.name: 7 if "7" in queue.name else -1 for queue in vhost.queues.values()}
    assert {queue.name: queue.settings.max_length for queue in vhost.queues.values()} == expected
    assert last.settings.max_length == -1


def test_a_queue_that_cannot_be_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error is told once, and the queues behind it get the policy all the same."""
    broker, vhost = _broker()
    for number in range(3):
        vhost.declare_queue(f"s{number}", True, False, False, {"x-queue-type": "stream"}, None)
    vhost.declare_queue("last", True, False, False, {}, None)

    def refuse(self: MemoryStream, limits: StreamLimits) -> None:
        raise InternalError("unreadable")

    monkeypatch.setattr(MemoryStream, "limit", refuse)
    broker.put_rule(PolicyRecord("/", "p", "", {"max-length-bytes": 5_000}, "all", 0, False))
    errors = 0
    while True:
        try:
            if not broker.dispatch():
                break
        except InternalError:
            errors += 1
    assert errors == 3
    assert all(queue.settings.max_bytes == 5_000 for queue in vhost.queues.values())
    assert broker.tick.policy_changes == 0


def test_a_virtual_host_that_goes_meanwhile() -> None:
    """There is nothing left to do."""
    broker, _ = _broker()
    broker.put_rule(POLICY)
    broker.delete_vhost("/")
    while broker.dispatch():
        pass
    assert not broker.tick.steps
    assert broker.tick.policy_changes == 0
