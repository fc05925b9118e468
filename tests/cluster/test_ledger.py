"""What the ledger of a cluster's clients finds."""

from tests.cluster.ledger import Ledger, longest_gap


def test_a_gap_may_be_at_either_end() -> None:
    """The longest time without an event counts from the beginning of the span, and up to its end."""
    assert longest_gap([1.0, 2.0, 2.5], 1.0, 2.5) == 1.0
    assert longest_gap([0.0, 1.0, 2.0, 2.5], 1.5, 4.5) == 2.0
    assert longest_gap([5.0], 1.0, 4.0) == 3.0


def test_each_publisher_counts() -> None:
    """Confirms of one publisher do not hide that another one gets none."""
    ledger = Ledger(("quick", "slow"), "q")
    for second in range(10):
        ledger.confirm(f"quick.1-{second}", float(second))
    ledger.confirm("slow.1-1", 1.0)
    ledger.confirm("slow.1-2", 8.0)
    assert ledger.without_confirms(0.0, 9.0) == {"quick": 1.0, "slow": 7.0}
    assert ledger.confirms_since(4.0) == 1


def test_what_is_wrong_is_found() -> None:
    """Lost, delivered again without the flag, and overtaken; what is flagged may come again, and late. Connections may
    overtake each other.
    """
    ledger = Ledger("p", ("q", "r"))
    for number in range(1, 5):
        ledger.confirm(f"p.1-{number}", float(number))
    for number, is_redelivered in ((1, False), (3, False), (1, True), (2, False), (3, False)):
        ledger.deliver("q", f"p.1-{number}", is_redelivered, 5.0)
    for number in (1, 2, 4):
        ledger.deliver("r", f"p.1-{number}", False, 5.0)
    ledger.deliver("q", "p.2-9", False, 5.0)
    ledger.deliver("q", "p.1-5", False, 5.0)
    assert ledger.lost == {"p.1-3", "p.1-4"}
    assert ledger.unflagged == ["p.1-3"]
    assert ledger.out_of_order == ["p.1-2"]


def test_what_may_come_once_comes_once() -> None:
    """The flag is no excuse, and what was not confirmed may come, too."""
    ledger = Ledger("p", ["q"], once=["r"])
    ledger.confirm("p.1-1", 1.0)
    ledger.deliver("q", "p.1-1", False, 2.0)
    assert ledger.lost == {"p.1-1"}
    ledger.deliver("r", "p.1-1", True, 2.0)
    ledger.deliver("r", "p.1-2", True, 2.0)
    ledger.confirm("p.1-2", 3.0)
    assert ledger.lost == {"p.1-2"}
    ledger.deliver("q", "p.1-2", False, 3.0)
    assert (ledger.lost, ledger.twice) == (set(), [])
    ledger.deliver("r", "p.1-1", True, 4.0)
    assert (ledger.twice, ledger.unflagged) == (["p.1-1"], [])
