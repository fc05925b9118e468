"""`python -m tests.faults.auditing [messages]`: a real broker under strace; no confirm is sent before its sync."""

import re
import shutil
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from flintmq.broker.message import Table
from flintmq.wire.amqp091.methods import QueueBind, QueueBindOk, QueueDeclare, QueueDeclareOk
from tests.confirms import ConfirmedPublisher
from tests.faults.trace import CALLS, Audit, mark
from tests.servers import BrokerProcess
from tests.sockets import AmqpSocket
from tests.waiting import wait_until

PUBLISHERS = 3
# How far a publisher runs ahead of its confirms.
WINDOW = 50
STREAM: Table = {"x-queue-type": "stream"}
# Every third message goes to a queue, a stream, or both.
ADDRESSES = (("", "audited"), ("", "recorded"), ("amq.fanout", ""))


def why_not() -> str:
    """Why there can be no audit here; empty when there can."""
    return "" if shutil.which("strace") else "strace, which shows system calls, is not installed"


def audit(directory: Path, messages: int) -> Audit:
    """Publish so many messages in all, and read what the broker did. Raises AssertionError where strace may not."""
    trace = directory / "trace"
    # With -qq, it would not say that a process has exited, which is the last that it writes.
    strace = ("strace", "-D", "-f", "-q", "-yy", "-xx", "-s", "1000000", "-e", f"trace={CALLS}", "-o", str(trace))
    with BrokerProcess(directory / "data", wrapper=strace) as broker, ExitStack() as connections:
        clients = [connections.enter_context(AmqpSocket(broker.port).open()) for _ in range(PUBLISHERS)]
        for client in clients:
            client.open_channel()
        clients[0].call(1, QueueDeclare(queue="audited", durable=True), QueueDeclareOk)
        clients[0].call(1, QueueDeclare(queue="recorded", durable=True, arguments=STREAM), QueueDeclareOk)
        for queue in ("audited", "recorded"):
            clients[0].call(1, QueueBind(queue=queue, exchange="amq.fanout"), QueueBindOk)
        publishers = [ConfirmedPublisher[int](client) for client in clients]
        for number in range(messages // PUBLISHERS):
            for place, publisher in enumerate(publishers):
                body = mark(place, number + 1) + bytes(number % 300)
                publisher.publish(number, *ADDRESSES[(number + place) % len(ADDRESSES)], body)
                while publisher.pending > WINDOW:
                    publisher.collect(30.0)
        for publisher in publishers:
            while publisher.pending:
                publisher.collect(30.0)
        assert not any(publisher.refused for publisher in publishers)
        found = Audit([int(client.name.rpartition(":")[2]) for client in clients])
        broker.stop()
        # Strace is a process of its own, and writes what it has left a moment later.
        last = re.compile(rf"^{broker.process.pid} +\+\+\+ exited with 0 ", re.MULTILINE)
        wait_until(lambda: last.search(trace.read_text(encoding="ascii")) is not None)
    with trace.open(encoding="ascii") as lines:
        found.read(lines)
    return found


def main(messages: int) -> None:
    reason = why_not()
    if reason:
        print(f"no audit: {reason}")
        return
    with tempfile.TemporaryDirectory() as directory:
        found = audit(Path(directory), messages)
    for line in found.early[:10]:
        print(f"confirmed before its sync: {line}")
    print(f"{found.confirmed} confirms, {found.syncs} syncs, {len(found.early)} confirmed before the sync")
    sys.exit(bool(found.early) or found.confirmed < messages - PUBLISHERS)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20_000)
