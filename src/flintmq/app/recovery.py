"""Recovery of a broker from its storage, and the definitions of its settings."""

import os
import time

from flintmq.app.definitions import define
from flintmq.app.logins import LOGIN_SECRET
from flintmq.app.runtime_environment import HashPassword
from flintmq.broker.broker import Broker
from flintmq.broker.queue.stream import StreamQueue
from flintmq.server import logs
from flintmq.server.config import Settings
from flintmq.storage.node import NodeStorage

log = logs.get_logger()


def recover(broker: Broker, settings: Settings, hash_password: HashPassword) -> None:
    """Recover the broker from its storage, and apply the definitions of the settings."""
    started = time.perf_counter()
    storage = broker.storage
    definitions = storage.definitions.load()
    is_new = not definitions.vhosts and not definitions.users
    # Recovery may take minutes without another log line.
    log.info("new data directory" if is_new else "recovering", data=str(settings.storage.directory.resolve()))
    count = broker.recover(definitions)
    if not is_new:
        log.info("recovered", **_found(broker, count), seconds=round(time.perf_counter() - started, 3))
    if isinstance(storage, NodeStorage):
        for orphan, kept_in in storage.quarantine_orphans({record.id for record in definitions.queues}):
            what = "stream of no queue set aside" if kept_in else "stream of no queue stays: the quarantine is full"
            log.warning(what, directory=str(orphan), kept_in=str(kept_in or ""))
    if LOGIN_SECRET not in broker.secrets:
        broker.put_secret(LOGIN_SECRET, os.urandom(32))
    for remark in define(broker, settings, hash_password):
        log.warning("no effect", what=remark)
    if isinstance(storage, NodeStorage):
        tell_damage(storage)


def _found(broker: Broker, messages: int) -> dict[str, int]:
    """Return what was recovered, for the log: `messages` on queues, `records` in streams."""
    queues = [queue for vhost in broker.vhosts.values() for queue in vhost.queues.values()]
    streams = [queue for queue in queues if isinstance(queue, StreamQueue)]
    return {
        "queues": len(queues) - len(streams),
        "messages": messages,
        "streams": len(streams),
        "records": sum(stream.message_count for stream in streams),
    }


def tell_damage(storage: NodeStorage) -> None:
    for damage in storage.quarantine_damage():
        log.error("damaged record set aside", damage=str(damage), kept_in=damage.kept_in)
