"""A lease over kills of the broker: a range of positions has the messages it had, and each is settled exactly once."""

import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

import flintmq.client as fc
from tests.crash.story import SETTINGS
from tests.effort import SEED, effort
from tests.servers import BrokerProcess

pytestmark = pytest.mark.timeout(400)

# Each of the moments once, at least.
KILLS = effort(4)
QUEUE, READER = "leased", "reader"
PERSISTENT = fc.encode_properties(fc.Properties(delivery_mode=2))
# How long after a call has begun the broker dies: before it has read it, while it writes, after it has answered.
DYING_SECONDS = (0.0, 0.02)


class Driver:
    """What a driver of batches does and remembers; `read` is what each position had when it was read first."""

    def __init__(self, broker: BrokerProcess, rng: random.Random) -> None:
        self._broker = broker
        self._rng = rng
        self.published = 0
        self.read: dict[int, tuple[bytes, bool]] = {}
        # Up to where positions are settled, and may be: an answer was not heard.
        self.settled = 0
        self.maybe_settled = 0
        self.known_end = 0
        self._epoch = 0

    def run(self, chapter: Callable[[fc.Channel], None]) -> None:
        """Take over, look whether all is as it was, and go on."""
        with fc.connect(self._broker.url) as connection, connection.channel(confirms=True) as channel:
            channel.declare_queue(QUEUE)
            self._open(channel)
            self._publish(channel, self._rng.randint(1, 3_000))
            with suppress(fc.ConnectionLost):
                chapter(channel)

    def _open(self, channel: fc.Channel) -> None:
        info = channel.lease_open(QUEUE, READER)
        assert info.epoch > self._epoch
        self._epoch = info.epoch
        assert info.first in (self.settled, self.maybe_settled), "what was settled is not what was asked for"
        assert info.next >= self.known_end, "a range that was told of is gone"
        self.settled = self.maybe_settled = info.first
        self.known_end = info.next
        self.look(channel)

    def look(self, channel: fc.Channel) -> None:
        """Read all that is leased: what was read before is the same again."""
        position = self.settled
        for chunk in channel.lease_chunks(QUEUE, READER, self.settled, self.known_end, 64 * 1024):
            for record in chunk.records:
                assert record.offset == position
                found = record.body, record.redelivered
                assert self.read.setdefault(position, found) == found, f"position {position} has another message"
                position += 1
        assert position == self.known_end

    def _publish(self, channel: fc.Channel, count: int) -> None:
        bodies = (b"%d" % (self.published + n) + b"." * self._rng.choice([0, 0, 500]) for n in range(count))
        channel.publish_batch(("", QUEUE, body, PERSISTENT) for body in bodies)
        self.published += count

    def extend(self, channel: fc.Channel) -> None:
        info = channel.lease_extend(QUEUE, READER, self._epoch, self._rng.randint(1, 4_000))
        assert info.first == self.settled
        self.known_end = info.next

    def settle(self, channel: fc.Channel) -> None:
        self.maybe_settled = self._rng.randint(self.settled, self.known_end)
        channel.lease_settle(QUEUE, READER, self._epoch, self.maybe_settled)
        self.settled = self.maybe_settled


def _die_during(broker: BrokerProcess, rng: random.Random, call: Callable[[], None]) -> None:
    def run() -> None:
        with suppress(fc.ConnectionLost):
            call()

    thread = threading.Thread(target=run)
    thread.start()
    time.sleep(rng.uniform(*DYING_SECONDS))
    broker.kill()
    thread.join()


def test_a_range_survives_kills(tmp_path: Path) -> None:
    """Killed between extending and settling, and within both: same positions, same messages, each settled once."""
    rng = random.Random(SEED)
    with BrokerProcess(tmp_path / "data", wrapper=(), **SETTINGS) as broker:
        driver = Driver(broker, rng)

        def between(channel: fc.Channel) -> None:
            driver.extend(channel)
            driver.look(channel)
            broker.kill()

        def extending(channel: fc.Channel) -> None:
            _die_during(broker, rng, lambda: driver.extend(channel))

        def settling(channel: fc.Channel) -> None:
            driver.extend(channel)
            driver.look(channel)
            _die_during(broker, rng, lambda: driver.settle(channel))

        def settled(channel: fc.Channel) -> None:
            driver.extend(channel)
            driver.look(channel)
            driver.settle(channel)
            broker.kill()

        def finish(channel: fc.Channel) -> None:
            while driver.settled < driver.published:
                driver.extend(channel)
                driver.look(channel)
                driver.settle(channel)

        try:
            for number in range(KILLS):
                chapters = (between, extending, settling, settled)
                driver.run(chapters[number % len(chapters)])
                broker.start()
            driver.run(finish)
        except BaseException as error:
            error.add_note(f"TEST_SEED={SEED}")
            raise
        bodies = [driver.read[position][0] for position in sorted(driver.read)]
        assert [int(body.rstrip(b".")) for body in bodies] == list(range(driver.published))
        assert broker.stop() == 0
