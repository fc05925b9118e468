"""What a campaign does, and what it says of it."""

import random
from collections import Counter
from pathlib import Path

import pytest

from tests.cluster import campaign
from tests.cluster.campaign import Campaign, planned, table_of, wrong_in
from tests.cluster.faults import FAULTS, LEADER_KILLED, Outcome
from tests.cluster.ledger import Ledger


def outcome(seconds: float, came_back: bool = True) -> Outcome:
    return Outcome(LEADER_KILLED, dict.fromkeys(campaign.PUBLISHERS, seconds), seconds, None, came_back)


def test_the_whole_campaign() -> None:
    """It has as many kills, partitions, stalled disks, stops of processes and of etcd as a cluster has to stand."""
    counts: Counter[str] = Counter()
    for fault in planned(list(FAULTS), None, random.Random("seed")):
        counts[fault.name] += 1
    assert counts["leader killed"] + counts["follower killed"] == 100
    assert sum(count for name, count in counts.items() if "cut off" in name or "nothing from" in name) == 30
    assert sum(count for name, count in counts.items() if "stalled" in name) == 10
    assert sum(count for name, count in counts.items() if "hung" in name) == 10
    assert (counts["etcd restarted"], counts["etcd stopped for 30 s"]) == (10, 1)


def test_rounds() -> None:
    """Each round has each fault once, and a seed repeats the order."""
    plan = planned(list(FAULTS), 3, random.Random("seed"))
    for first in range(0, len(plan), len(FAULTS)):
        assert set(plan[first : first + len(FAULTS)]) == set(FAULTS)
    assert plan == planned(list(FAULTS), 3, random.Random("seed"))
    assert plan != planned(list(FAULTS), 3, random.Random("another"))


def test_times_that_are_too_long() -> None:
    """One that is longer than at worst is missed, and a median that is longer than in most cases."""
    for seconds, is_missed in (((0.3, 0.4, 0.9), False), ((0.3, 0.4, 1.2), True), ((0.3, 0.7, 0.9), True)):
        assert campaign.is_missed(LEADER_KILLED, list(seconds)) == is_missed
    cells = list(table_of({LEADER_KILLED: [outcome(0.3), outcome(1.2)]}).columns[3].cells)
    assert cells == ["0.75 / 1.20 missed"]


def test_what_must_not_become_of_messages() -> None:
    """Each kind is named, with some of the messages."""
    ledger = Ledger(campaign.PUBLISHERS, ["q"], once=["r"])
    assert list(wrong_in(ledger)) == []
    for number in range(1, 9):
        ledger.confirm(f"pika.1-{number}", 1.0)
    ledger.deliver("q", "pika.1-2", False, 2.0)
    ledger.deliver("q", "pika.1-2", False, 2.0)
    ledger.deliver("q", "pika.1-1", False, 2.0)
    ledger.deliver("r", "pika.1-1", False, 2.0)
    ledger.deliver("r", "pika.1-1", True, 2.0)
    ledger.refuse("pika.1-9")
    assert list(wrong_in(ledger)) == [
        "7 confirmed and lost: pika.1-2, pika.1-3, pika.1-4, pika.1-5, pika.1-6",
        "1 delivered again without the flag: pika.1-2",
        "1 out of order: pika.1-1",
        "1 refused: pika.1-9",
        "1 passed on by Spark more than once: pika.1-1",
    ]


def test_what_was_not_looked_for_is_not_lost() -> None:
    """A campaign that was broken off does not know whether messages are lost."""
    ledger = Ledger(campaign.PUBLISHERS, ["q"])
    ledger.confirm("pika.1-1", 1.0)
    assert list(wrong_in(ledger, is_drained=False)) == ["1 confirmed and not looked for: pika.1-1"]


def test_whatever_fails_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also that the cluster does not even start."""

    def fails(*_: object, **__: object) -> None:
        raise AssertionError("no node starts")

    monkeypatch.setattr(campaign, "Cluster", fails)
    monkeypatch.setattr(campaign, "StallingDisks", lambda _: None)
    failed = Campaign(tmp_path, [LEADER_KILLED], has_spark=False, seconds=1.0)
    failed.run()
    assert failed.wrong == ["AssertionError: no node starts"]
    assert failed.totals() == "Confirmed: 0. Lost: 0."


def test_no_fault_has_these_words(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is started."""
    with pytest.raises(SystemExit):
        campaign.main(["--faults", "flood"])
    assert "leader killed" in capsys.readouterr().err
