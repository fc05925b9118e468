"""A queue read by a driver and two executors, while these and the broker are killed: each message arrives once."""

import random
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

import flintmq.client as fc
from tests.servers import BrokerProcess, free_port
from tests.spark.killing import exchange
from tests.spark.killing.points import COMMITTED, DECIDED, LEASED, PLANNED, READING, STAGED, STAGING, arm, is_armed
from tests.spark.killing.processes import Driver
from tests.spark.lakes import FORMATS, rows

QUEUE: Final = "work"
CONSUMER: Final = "killed"
PERSISTENT: Final = fc.encode_properties(fc.Properties(delivery_mode=2))
# A driver that has not got on by then hangs.
PATIENCE_SECONDS: Final = 600.0
# Between two kills at random: most come while a batch is under way.
PAUSE_SECONDS: Final = (0.2, 2.0)
# How often one driver, its executors and its broker are hurt before the driver is killed itself.
KILLS_OF_A_LIFE: Final = 5
# How often a driver that nobody disturbs may fail to start.
ATTEMPTS: Final = 3
# Where drivers die on purpose: in their first batch, and later.
APPOINTED: Final = {
    "parquet": ((LEASED, 0), (DECIDED, 0), (READING, 1), (COMMITTED, 2), (PLANNED, 2)),
    "delta": ((PLANNED, 0), (STAGED, 0), (STAGING, 1), (DECIDED, 2), (COMMITTED, 2)),
    "exchange": ((STAGING, 0), (STAGED, 0), (COMMITTED, 0), (LEASED, 1), (STAGED, 2), (COMMITTED, 2)),
}
# And in a batch behind which nothing comes.
LAST: Final = {"parquet": (DECIDED,), "delta": (COMMITTED,), "exchange": (COMMITTED,)}


class Story:
    """`batches` of `size` messages each; `kills` in all, of which each driver's death is one."""

    def __init__(self, directory: Path, seed: str, kills: int, batches: int, size: int, job: str = "parquet") -> None:
        self.directory = directory
        # Executors have no other way to find it again than by its port.
        self.broker = BrokerProcess(directory / "data", FLINTMQ_LISTEN_PORT=str(free_port()))
        self.kills: Counter[str] = Counter()
        self.lives = 0
        self._rng = random.Random(seed)
        self._wanted = kills
        self._size = size
        self._messages = batches * size
        self._job = job
        self._appointed = list(APPOINTED[job])

    # -- the whole ------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Raises AssertionError when a message is lost or came twice."""
        self.broker.start()
        try:
            self._prepare()
            while self._left:
                self._life()
            self._finish()
            for point in LAST[self._job]:
                self._die_last(point)
                self._finish()
            self.check()
        finally:
            self.broker.close()

    def _prepare(self) -> None:
        self.publish(0, self._messages)
        with fc.connect(self.broker.url) as connection, connection.channel() as channel:
            exchange.declare(channel)

    def _finish(self) -> None:
        """What is left of the work, undisturbed. On a busy machine, Spark gives up waiting for its own processes."""
        for _ in range(ATTEMPTS):
            driver = self._begin()
            try:
                self._wait_for_end(driver, "the last driver's end")
                if driver.code == 0:
                    return
            finally:
                driver.close()
        raise AssertionError(self._log())

    def _die_last(self, point: str) -> None:
        """In a batch that is all there is to do."""
        points = self.directory / "points"
        self._publish_more(self._size // 2)
        arm(points, point)
        driver = self._begin()
        self._wait(lambda: not driver.is_running, f"the death at the point {point}")
        driver.close()
        assert not is_armed(points, point), self._log()
        self.kills[f"driver at {point}, last batch"] += 1

    def _publish_more(self, count: int) -> None:
        self.publish(self._messages, self._messages + count)
        self._messages += count

    @property
    def _left(self) -> int:
        return self._wanted - self.kills.total()

    def publish(self, start: int, end: int) -> None:
        with fc.connect(self.broker.url) as connection, connection.channel(confirms=True) as channel:
            channel.declare_queue(QUEUE)
            channel.publish_batch(("", QUEUE, b"%d" % number, PERSISTENT) for number in range(start, end))

    def check(self) -> None:
        found = self._found()
        twice = [body for body, count in found.items() if count > 1]
        lost = [number for number in range(self._messages) if b"%d" % number not in found]
        assert not twice, f"{len(twice)} messages came twice, as {twice[:5]}"
        assert not lost, f"{len(lost)} messages were lost, as {lost[:5]}"
        assert len(found) == self._messages
        with fc.connect(self.broker.url) as connection, connection.channel() as channel:
            assert channel.declare_queue(QUEUE, passive=True).message_count == 0
            lease = channel.lease_open(QUEUE, CONSUMER)
            assert (lease.first, lease.next) == (self._messages, self._messages)

    def _found(self) -> Counter[bytes]:
        if self._job in FORMATS:
            # As others read it.
            return Counter(body for (body,) in rows(self.directory / "lake", self._job, "body"))
        with fc.connect(self.broker.url) as connection, connection.channel() as channel:
            return exchange.bodies(channel, self._messages)

    # -- lives of drivers -----------------------------------------------------------------------------------------

    def _begin(self) -> Driver:
        self.lives += 1
        assert self.lives <= 2 * self._wanted + ATTEMPTS, f"drivers do not get on\n{self._log()}"
        options = {
            "url": self.broker.url,
            "queue": QUEUE,
            "consumerName": CONSUMER,
            "maxMessagesPerTrigger": str(self._size),
            "minPartitions": "4",
            "fetchBytes": "65536",
        }
        return Driver(self._job, self.directory, options)

    def _life(self) -> None:
        """One driver, from its start to its death."""
        points = self.directory / "points"
        point = ""
        if self._appointed:
            point, passes = self._appointed.pop(0)
            arm(points, point, passes)
        driver = self._begin()
        try:
            self._wait(lambda: driver.has_begun or not driver.is_running, "a driver's start")
            if point:
                self._wait_for_end(driver, f"the death at the point {point}")
                if is_armed(points, point):
                    # It has not come as far.
                    self._appointed.append((point, 0))
                    self._add_work(driver)
                else:
                    self.kills[f"driver at {point}"] += 1
                return
            for _ in range(min(KILLS_OF_A_LIFE, self._left - 1)):
                if not self._pause(driver):
                    break
                self._hurt(driver)
            if self._pause(driver):
                driver.kill_jvm() if self._rng.random() < 0.5 else driver.kill()
                self.kills["driver"] += 1
            else:
                self._add_work(driver)
        finally:
            if point:
                (points / point).unlink(missing_ok=True)
            driver.close()

    def _add_work(self, driver: Driver) -> None:
        """Where one has done all there was, there is to be more for those who come behind."""
        if driver.code == 0:
            self._publish_more(4 * self._size)

    def _wait_for_end(self, driver: Driver, what: str) -> None:
        self._wait(lambda: not driver.is_running, what)

    def _pause(self, driver: Driver) -> bool:
        """Let it work for a moment; False when it has ended."""
        time.sleep(self._rng.uniform(*PAUSE_SECONDS))
        return driver.is_running

    def _hurt(self, driver: Driver) -> None:
        victim = self._rng.choice(("executor", "worker", "broker"))
        number = self._rng.randrange(8)
        if victim == "broker":
            self.broker.kill()
            self.broker.start()
        elif not (driver.kill_executor(number) if victim == "executor" else driver.kill_worker(number)):
            return
        self.kills[victim] += 1

    def _wait(self, holds: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not holds():
            assert time.monotonic() < deadline, f"{what} takes too long\n{self._log()}"
            time.sleep(0.05)

    def _log(self) -> str:
        return "\n".join((self.directory / "driver.log").read_text(errors="replace").splitlines()[-60:])
