from flintmq.storage.block import Damage
from flintmq.storage.inspection.report import JOURNAL_SEGMENT, OTHER, FileReport, Report


def test_a_report() -> None:
    """Every file has a line, one thing of a kind is one, and the last line is the verdict."""
    journal = FileReport("journal/1", JOURNAL_SEGMENT, 4096, "torn", 0, 1, 1, 1, 1, 2, 1, 1)
    assert Report("data", False, False, [journal], {"vhosts": 1, "queues": 2}, 1, 0).lines() == [
        "journal/1: 4,096 bytes, torn, 1 block, 1 message, 1 live, 2 dead, a start cuts off 1 message in 1 block",
        "1 vhost, 2 queues",
        "1 message on queues, 0 records in streams",
        "intact",
    ]


def test_a_report_of_damage() -> None:
    """Each place is named, and counted at the end; definitions that cannot be read are not counted."""
    broken = FileReport("x", OTHER, 1, damage=[Damage("x", 0, "torn off")])
    lines = Report("data", False, False, [broken], None, 2, 1).lines()
    assert lines[:2] == ["x: 1 byte", "2 messages on queues, 1 record in streams"]
    assert lines[2].startswith("damaged: ")
    assert lines[-1] == "damaged in 1 place, in 1 file"
