"""Dead letters: why they died, in the lake, and back to work with those that may. See README.md."""

import json
import sys
import time
from collections import Counter

import nycdata
import pyarrow.dataset as ds
from stage import stage

import flintmq.client as fc

FLIGHTS = 4_000
# Flights that come when nobody works any more, and wait for so long.
LATE = 1_000
EXPIRY_MS = 100
WAIT_SECONDS = 30


def main() -> int:
    with stage() as on:
        on.channel.declare_queue("dead")
        back_to: dict[str, object] = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
        on.channel.declare_queue("work", arguments=back_to)
        on.publish_flights("work", FLIGHTS)
        refused = work(on.channel)
        late = nycdata.rows("flights", FLIGHTS + LATE)[FLIGHTS:]
        on.publish("work", late, expiration=str(EXPIRY_MS))
        wait_until_dead(on.channel, refused + LATE)
        on.run("dead_letters.yaml")
        letters = Counter(ds.dataset(on.directory / "letters", partitioning="hive").to_table()["reason"].to_pylist())
        on.table("Why they died", sorted(letters.items()), "reason", "letters")
        on.run("redrive.yaml")
        same = sorted(on.taken("work"), key=str) == sorted(late, key=str)
        known = letters == {"rejected": refused, "expired": LATE}
        on.console.print(f"Every dead letter is in the lake, once: {'yes' if known else 'NO'}.")
        on.console.print(f"All that expired, and nothing else, is back at work: {'yes' if same else 'NO'}.")
    return 0 if known and same else 1


def work(channel: fc.Channel) -> int:
    """Flights that never left are refused. Returns their number."""
    refused = 0
    for batch in channel.consume("work", timeout=1):
        for message in batch.messages:
            if json.loads(message.body)["dep_time"] is None:
                channel.nack(message.delivery_tag, requeue=False)
                refused += 1
            else:
                channel.ack(message.delivery_tag)
    return refused


def wait_until_dead(channel: fc.Channel, count: int) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while channel.declare_queue("dead", passive=True).message_count < count:
        if time.monotonic() > deadline:
            raise SystemExit("messages that should have expired did not")
        time.sleep(0.05)


if __name__ == "__main__":
    sys.exit(main())
