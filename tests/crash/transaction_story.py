"""Transactions over several queues under kills: after each restart every one is wholly there, or wholly not."""

import random
import time
from pathlib import Path

from flintmq.broker.message import Table
from flintmq.wire.amqp091.methods import QueueDeclare, QueueDeclareOk, QueueDelete, QueueDeleteOk
from tests.crash.inspection import Inspector
from tests.crash.story import SETTINGS
from tests.crash.transacting import Feeder, Places, Worker, check
from tests.servers import BrokerProcess
from tests.sockets import AmqpSocket

LOAD_SECONDS = (0.05, 0.4)


class TransactionStory:
    """A broker, and loads on it that each end with a kill; the queues of each are its own."""

    def __init__(self, data: Path, seed: str) -> None:
        self.broker = BrokerProcess(data, wrapper=(), **SETTINGS)
        self.rng = random.Random(seed)
        self.applied = 0
        self.cut = 0
        self.kills = 0
        # How long (seconds) each start after a crash took until clients were accepted.
        self.starts: list[float] = []
        self._seed = seed

    def chapter(self, number: int) -> None:
        """Load, kill, and look; now and then kill again, and find the same."""
        places = Places(f"in{number}", f"dead{number}", tuple(f"out{number}.{letter}" for letter in "abc"))
        self._declare(places)
        feeder = Feeder(*self._cast(f"f{number}"), places)
        workers = [Worker(*self._cast(f"{letter}{number}"), places) for letter in "vw"]
        clients = [feeder, *workers]
        for client in clients:
            client.start()
        time.sleep(self.rng.uniform(*LOAD_SECONDS))
        if number % 2:
            # However slow the disk is: a load that commits nothing shows nothing.
            worker = workers[0]
            while not any(work.commits for work in worker.asked[: worker.answered]):
                assert worker.is_running
                time.sleep(0.01)
        self._crash()
        for client in clients:
            client.join()
        found = self._look(places)
        confirmed = set(feeder.publisher.confirmed)
        applied = check(workers, {name: name in confirmed for name in feeder.sent}, places, found)
        self.applied += applied
        self.cut += sum(sum(work.commits for work in worker.asked) for worker in workers) - applied
        if self.rng.random() < 0.1:
            self._crash()
            assert self._look(places) == found
        self._delete(places)

    def _crash(self) -> None:
        self.broker.kill()
        self.kills += 1
        started = time.monotonic()
        self.broker.start()
        self.starts.append(time.monotonic() - started)

    def _cast(self, name: str) -> tuple[int, str, random.Random]:
        return self.broker.port, name, random.Random(f"{self._seed} {name}")

    def _declare(self, places: Places) -> None:
        to_dead: Table = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": places.dead}
        with AmqpSocket(self.broker.port).open() as connection:
            connection.open_channel()
            for queue in places.queues:
                arguments: Table = to_dead if queue == places.source else {}
                connection.call(1, QueueDeclare(queue=queue, durable=True, arguments=arguments), QueueDeclareOk)

    def _look(self, places: Places) -> dict[str, list[str]]:
        inspector = Inspector(self.broker.port)
        found = {queue: [seen.name for seen in inspector.contents(queue)] for queue in places.queues}
        inspector.close()
        return found

    def _delete(self, places: Places) -> None:
        with AmqpSocket(self.broker.port).open() as connection:
            connection.open_channel()
            for queue in places.queues:
                connection.call(1, QueueDelete(queue=queue), QueueDeleteOk)
