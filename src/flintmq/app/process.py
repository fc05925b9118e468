"""A broker in its own process."""

import asyncio
import fcntl
import os
import resource
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import uvloop

from flintmq.app.collector import collect_rarely, collect_young
from flintmq.app.node import Node
from flintmq.app.runtime_environment import durable
from flintmq.base.errors import ConfigurationError
from flintmq.server import heap, logs, service_manager
from flintmq.server.config import Settings
from flintmq.server.reload import Apply, Part, SettingsReload
from flintmq.server.signals import Signals
from flintmq.storage.layout import NODE_STATE

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
    reloading.add(Part(("log.",), _prepare_log))
    if settings.cluster.name:
        from flintmq.app.clustered import serve_clustered  # noqa: PLC0415

        return await serve_clustered(signals, reloading)
    _require_no_cluster(settings.storage.directory)
    node = Node(settings, replace(durable(), collect_garbage=collect_young))
    await node.start()
    collect_rarely()
    for part in node.reloaded:
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


def _require_no_cluster(directory: Path) -> None:
    """See that the directory is not that of a node, which would lose what is confirmed without the others."""
    if (directory / NODE_STATE).exists():
        raise ConfigurationError(
            f"{directory} belongs to a node of a cluster, whose leader replaces what this broker would write: set "
            "cluster.name and the other settings of the cluster, or choose another storage.directory. To use it "
            f"without the cluster from now on, remove {NODE_STATE} from it"
        )


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
