"""A taste of what `make fuzz` does for longer."""

from flintmq.wire.amqp10.performatives import Close, End
from tests.effort import effort
from tests.fuzz import laws
from tests.fuzz.amqp10 import laws as laws_10
from tests.fuzz.seeds import CLIENTS, CLIENTS_10, SERVERS, SERVERS_10, run


def test_spoiled_sessions() -> None:
    """A session with a few things wrong is understood or refused, whole and byte by byte, and others are served."""
    for seed in range(effort(200)):
        try:
            run(seed)
        except Exception as error:
            raise AssertionError(f"seed {seed}: python -m tests.fuzz 1 {seed}") from error


def test_sessions_as_they_are() -> None:
    """What is spoiled is right to begin with: no session ends in a close that it did not ask for."""
    for session in CLIENTS:
        closes = [frame for frame in laws.answered(b"".join(session[1:])) if frame[2][:4] == b"\0\x0a\0\x32"]
        assert not closes
        laws.check_server(b"".join(session))
    for session in SERVERS:
        assert not [frame for frame in laws.answered(b"".join(session)) if frame[2][:4] == b"\0\x0a\0\x32"]
        laws.check_client(b"".join(session))
    for session in CLIENTS_10:
        laws_10.check_server(b"".join(session))
    for session in SERVERS_10:
        ends = [each for each in laws_10.answered(b"".join(session)) if isinstance(each, (Close, End))]
        assert [each.error for each in ends] == [None] * len(ends)
        laws_10.check_client(b"".join(session))
