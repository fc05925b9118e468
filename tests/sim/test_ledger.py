"""What the ledger takes for a broken promise, and what only looks like one."""

import pytest

from tests.sim.ledger import ACK, REQUEUE, Group, Ledger, Unexpected
from tests.sim.messages import Copy, Sent
from tests.sim.topology import Line, Topology


class _Hands:
    may_be_over = False


def _ledger_with(line: Line, number: int) -> tuple[Ledger, Sent]:
    topology = Topology()
    topology.lines.append(line)
    ledger = Ledger(topology)
    sent = Sent(number, 1, (line,), 40, 0, persistent=True)
    ledger.published(sent)
    ledger.confirmed(sent)
    return ledger, sent


def _deliver(ledger: Ledger, line: Line, sent: Sent, redelivered: bool) -> Copy:
    return ledger.delivered(line, sent.number, sent.body, redelivered, _Hands(), {})


def test_a_late_delivery_is_no_second_one_while_the_server_closes_connections() -> None:
    """Who reads late may come to a delivery that was taken back; while nothing fails, a second one has to say so."""
    line = Line("q")
    ledger, sent = _ledger_with(line, 1)
    ledger.gave_back([_deliver(ledger, line, sent, True)], [])
    with pytest.raises(Unexpected, match="did not say so"):
        _deliver(ledger, line, sent, False)
    ledger.is_closing = lambda: True
    _deliver(ledger, line, sent, False)


def test_the_answer_to_a_commit_settles_nothing_of_whoever_came_behind_it() -> None:
    """A message that a transaction gave back, and that somebody else has settled since, is in that one's batch."""
    line = Line("q")
    ledger, sent = _ledger_with(line, 1)
    group = Group()
    group.settlements.append((line, _deliver(ledger, line, sent, False), REQUEUE))
    ledger.committing(group)
    copy = _deliver(ledger, line, sent, True)
    ledger.settled(copy, ACK)
    ledger.settlement_arrived(copy, 4)
    ledger.committed(group)
    assert copy.out_batch == 4


def test_a_late_delivery_does_not_undo_a_settlement_that_is_on_its_way() -> None:
    """A channel that may be over reads what it had before; the commit that settles the message since then counts."""
    line = Line("q")
    ledger, sent = _ledger_with(line, 1)
    group = Group()
    copy = _deliver(ledger, line, sent, True)
    group.settlements.append((line, copy, ACK))
    ledger.committing(group)
    late = _Hands()
    late.may_be_over = True
    assert ledger.delivered(line, sent.number, sent.body, True, late, {}) is copy
    ledger.gave_back([copy], [])
    ledger.committed(group)
    assert (copy.is_out, copy.out_arrived) == (True, True)
    ledger.found({"q": []}, 0)


def test_a_late_delivery_does_not_undo_a_settlement_that_may_be_lost() -> None:
    """Somebody whose connection broke may have settled the message: that it is gone then is no loss."""
    line = Line("q")
    ledger, sent = _ledger_with(line, 1)
    copy = _deliver(ledger, line, sent, True)
    ledger.settled(copy, ACK)
    ledger.gave_back([], [copy])
    late = _Hands()
    late.may_be_over = True
    assert ledger.delivered(line, sent.number, sent.body, True, late, {}) is copy
    ledger.gave_back([copy], [])
    ledger.found({"q": []}, 0)


@pytest.mark.parametrize("is_first_committed_last", [False, True])
def test_messages_of_a_channel_come_in_the_order_of_their_commits(is_first_committed_last: bool) -> None:
    """Of two transactions that are open at once, the one that began later may be committed first."""
    line = Line("q")
    ledger, first = _ledger_with(line, 1)
    second = Sent(2, 1, (line,), 40, 0, persistent=True)
    ledger.published(second)
    if is_first_committed_last:
        first.place, second.place = 4, 3
    latest: dict[object, int] = {}
    ledger.delivered(line, 2, second.body, False, _Hands(), latest)
    if is_first_committed_last:
        ledger.delivered(line, 1, first.body, False, _Hands(), latest)
    else:
        with pytest.raises(Unexpected, match="behind"):
            ledger.delivered(line, 1, first.body, False, _Hands(), latest)
