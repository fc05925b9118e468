"""A broker in its own process."""

import asyncio
import fcntl
import gc
import os
import resource
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import uvloop

from flintmq.app.node import Node
from flintmq.app.runtime_environment import durable
from flintmq.server import heap, logs, service_manager
from flintmq.server.config import Settings
from flintmq.server.reload import Apply, Part, SettingsReload
from flintmq.server.signals import Signals

# The objects of messages have no cycles, so collections are rare. The youngest generation has 10,000 objects, which
# take two milliseconds; 50,000 took ten, for which all clients waited. Survivors are examined once more, after 2.5
# million objects. New objects of connections are collected as they arise (server/connections.py), and each of these
# collections counts as one of the second generation, so that number must be high before a full collection. Until then
# the remains of old connections stay: 8 KiB each, of some 30,000.
_GC_THRESHOLDS: Final = (10_000, 250, 1_000)
# The size of the table of open files from the start: half a megabyte.
_FILES_IN_SIGHT: Final = 65_536


def run(settings: Settings, load: Callable[[], Settings]) -> int:
    """Run a broker until SIGTERM or SIGINT, and return the exit code. Raises FlintError if it cannot start.

    On SIGHUP, `load` reads the settings again.
    """
    logs.configure(settings.log)
    heap.bound()
    return uvloop.run(_serve_until_signalled(settings, load))


async def _serve_until_signalled(settings: Settings, load: Callable[[], Settings]) -> int:
    signals = Signals()
    signals.install(asyncio.get_running_loop())
    return await serve(settings, signals, SettingsReload(settings, load))


async def serve(settings: Settings, signals: Signals, reloading: SettingsReload) -> int:
    """Run a broker until a signal stops it, and stop it cleanly."""
    _raise_open_files()
    if settings.cluster.name:
        from flintmq.app.clustered import serve_clustered  # noqa: PLC0415

        return await serve_clustered(settings, signals)
    # Collect both young generations: surviving objects then belong to the old one, which is not examined again.
    node = Node(settings, replace(durable(), collect_garbage=partial(gc.collect, 1)))
    await node.start()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)
    # The start is over, see `cli/server.py`.
    gc.enable()
    for part in [Part(("log.",), _prepare_log), *node.reloaded]:
        reloading.add(part)
    # A SIGHUP that came before is handled now, because nothing could apply changed settings earlier.
    watching = asyncio.create_task(reloading.watch(signals.reload))
    service_manager.notify(service_manager.READY)
    try:
        await signals.stop.wait()
    finally:
        service_manager.notify(service_manager.STOPPING)
        watching.cancel()
        await node.stop()
    return 1 if node.failure else 0


async def _prepare_log(settings: Settings) -> Apply:
    return partial(logs.configure, settings.log)


def _raise_open_files() -> None:
    """Let this process open as many files as the system allows, because each connection needs one."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    # The kernel doubles its table of open files when it is full, and a process with threads waits 20 ms for that. So it
    # grows now, not when many clients connect.
    room = _FILES_IN_SIGHT if most == resource.RLIM_INFINITY else min(most, _FILES_IN_SIGHT)
    with Path(os.devnull).open("rb") as file:
        os.close(fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, room - 1))
