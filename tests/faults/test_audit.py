"""A confirm means synced: seen from outside, in the system calls of a broker. `make audit` has 20,000 messages."""

from pathlib import Path

import pytest

from tests.faults.auditing import audit, why_not
from tests.faults.trace import Audit, mark

MESSAGES = 600


def _hex(data: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in data)


def _sent(tag: int) -> str:
    frame = bytes.fromhex("01 0001 0000000d 003c0050") + tag.to_bytes(8, "big") + b"\x00\xce"
    return f'1 write(9<TCP:[127.0.0.1:5672->127.0.0.1:4321]>, "{_hex(frame)}", 21) = 21'


def _written(tag: int, call: str, ending: str) -> str:
    body = mark(0, tag)
    return f'2 {call}(5<{_hex(b"/1.journal")}>, [{{iov_base="{_hex(body)}", iov_len={len(body)}}}], 1, 64{ending}'


TRACES = {
    "synced by the write": ([_written(1, "pwritev2", ", RWF_DSYNC) = 10"), _sent(1)], 0),
    "synced afterwards": ([_written(1, "pwritev2", ", 0) = 10"), "2 fdatasync(5</1.journal>) = 0", _sent(1)], 0),
    "not synced": ([_written(1, "pwritev2", ", 0) = 10"), _sent(1)], 1),
    "sent before the sync is over": (
        [
            _written(1, "pwritev2", ", 0) = 10"),
            "2 fdatasync(5</1.journal> <unfinished ...>",
            _sent(1),
            "2 <... fdatasync resumed>) = 0",
        ],
        1,
    ),
    "written while a sync ran": (
        [
            "2 fdatasync(5</1.journal> <unfinished ...>",
            _written(1, "pwritev2", ", 0) = 10").replace("2 ", "3 ", 1),
            "2 <... fdatasync resumed>) = 0",
            _sent(1),
        ],
        1,
    ),
    "the sync failed": (
        [_written(1, "pwritev2", ", 0) = 10"), "2 fdatasync(5</1.journal>) = -1 EIO (Input/output error)", _sent(1)],
        1,
    ),
    "half of it written": ([_written(1, "pwritev2", ", RWF_DSYNC) = 5"), _sent(1)], 1),
    "another file was synced": (
        [_written(1, "pwritev2", ", 0) = 10"), "2 fdatasync(6</2.journal>) = 0", _sent(1)],
        1,
    ),
}


@pytest.mark.parametrize(("lines", "early"), TRACES.values(), ids=TRACES.keys())
def test_what_the_audit_finds(lines: list[str], early: int) -> None:
    """A confirm is in order when what it confirms was written and synced before it was sent, and only then."""
    found = Audit([4321])
    found.read(lines)
    assert (found.confirmed, len(found.early)) == (1, early)


def test_every_confirm_is_preceded_by_its_sync(tmp_path: Path) -> None:
    """Queues, a stream and both, from several publishers: each confirm was sent after its message was synced."""
    reason = why_not()
    if reason:
        pytest.skip(reason)
    found = audit(tmp_path, MESSAGES)
    assert found.early == []
    assert found.confirmed == MESSAGES
    assert found.syncs > MESSAGES / 200
