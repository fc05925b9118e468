"""A broker inside a Python program: real, on a free port, ready in milliseconds.

    with Broker() as broker:
        connection = pika.BlockingConnection(pika.URLParameters(broker.url))

It speaks what any FlintMQ speaks, over TCP, and leaves its process alone: no signal handlers, no limits, no event loop
policy, no logging set up (its own log goes to the logger "flintmq"), and the garbage collector stays as it is.
"""

import asyncio
import os
import shutil
import tempfile
import threading
import weakref
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import replace
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, final
from urllib.parse import quote

import uvloop

from flintmq.app.node import Node
from flintmq.app.runtime_environment import RuntimeEnvironment, durable, ephemeral
from flintmq.base.errors import ConfigurationError, FlintError, StorageError
from flintmq.server.config import Settings, from_document

__all__ = ["Broker", "ConfigurationError", "FlintError", "StorageError"]

# Where a broker differs by default from one that has a machine to itself: how much memory this process uses says
# nothing about the broker, keys for SCRAM take 40 ms to make, and the HTTP API half a second to load.
_SECTIONS: Final[dict[str, dict[str, object]]] = {
    "alarms": {"memory_high_watermark": 1.0, "disk_free_min_bytes": 0},
    "auth": {"mechanisms": "PLAIN AMQPLAIN EXTERNAL ANONYMOUS"},
    "management": {"enabled": False, "port": 0, "tls_port": 0},
}

# How long the end waits for clients to agree to it. Those of the thread that waits for it cannot.
_SHUTDOWN_SECONDS: Final = 0.1


@final
class Broker:
    """A broker to be used with `with`, in a thread of its own, or with `async with`, in the running event loop.

    What it holds is gone with it, unless there is a `directory`: there it is found again by the next broker, embedded
    or not, and a confirm means synced to disk as anywhere. `port` 0 takes a free one. `settings` are what the
    configuration file of a server would say, as a dictionary: `{"users": [{"name": "a", "password": "b"}]}`.

    Raises ConfigurationError for settings that are not right.
    """

    def __init__(
        self,
        directory: str | PathLike[str] | None = None,
        *,
        port: int = 0,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self._settings = _settings(port, settings or {})
        self._is_kept = directory is not None
        if directory is not None:
            self._settings = _in_directory(self._settings, Path(directory))
        # Removes the directory of a broker that has none to keep.
        self._temporary: weakref.finalize[[str, int], Broker] | None = None
        self._thread: _BrokerThread | None = None
        self._node: Node | None = None
        self._port = self._http_port = 0

    # -- where it is --------------------------------------------------------------------------------------------

    @property
    def host(self) -> str:
        """The address it listens on."""
        return self._settings.listen.host

    @property
    def port(self) -> int:
        """The port it listens on, also while it restarts. Raises RuntimeError where it was never started."""
        if not self._port:
            raise RuntimeError("the broker was not started: use it with `with`, or call start()")
        return self._port

    @property
    def url(self) -> str:
        """An AMQP URL of its default user, in the virtual host "/"."""
        return self.url_of()

    def url_of(self, vhost: str = "/", user: str | None = None, password: str | None = None) -> str:
        """An AMQP URL of this virtual host, for this user, or for the default one."""
        default = self._settings.default_user
        login = f"{quote(user or default.name, safe='')}:{quote(password or default.password, safe='')}"
        return f"amqp://{login}@{self.host}:{self.port}/{quote(vhost, safe='')}"

    @property
    def http_url(self) -> str:
        """Where its HTTP API is. Raises RuntimeError where `settings` do not ask for one."""
        if not self._http_port:
            raise RuntimeError("no HTTP API: settings={'management': {'enabled': True}} has one, while the broker runs")
        return f"http://{self._settings.management.host}:{self._http_port}"

    def __repr__(self) -> str:
        state = f"on port {self._port}" if self.is_running else "not running"
        return f"<flintmq.embedded.Broker {state}>"

    @property
    def is_running(self) -> bool:
        """Whether it accepts connections."""
        return self._node is not None

    # -- in a thread --------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start it in a thread of its own, and return when it accepts connections.

        Raises StorageError for a directory that cannot be used, FlintError for a port that is taken.
        """
        self._check_not_running()
        try:
            thread = _BrokerThread(*self._footing())
            self._node = thread.start()
        except BaseException:
            self._forget()
            raise
        self._thread = thread
        self._port, self._http_port = self._node.port, self._node.http_port

    def stop(self) -> None:
        """Close all connections with 320, write what is to be kept, and end the thread; nothing, if it does not run.

        Raises StorageError where the disk failed, so that not everything was kept.
        """
        try:
            self._halt()
        finally:
            self._forget()

    def restart(self) -> None:
        """Stop and start again, on the same port: as clients see a broker that is updated.

        What is durable is there again, also where it is gone with the broker.
        """
        if self._thread is None:
            raise RuntimeError("only a broker that was started with `with` or start() can be restarted")
        self._halt()
        settings = self._settings
        self._settings = replace(
            settings,
            listen=replace(settings.listen, port=self._port),
            management=replace(settings.management, port=self._http_port),
        )
        self.start()

    def _halt(self) -> None:
        thread, node = self._thread, self._node
        if thread is None or node is None or not thread.is_here:
            return
        self._thread = self._node = None
        thread.stop()
        _check_kept(node)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # -- in a running event loop --------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        self._check_not_running()
        try:
            node = Node(*self._footing())
            await node.start()
        except BaseException:
            self._forget()
            raise
        self._node = node
        self._port, self._http_port = node.port, node.http_port
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        node = self._node
        self._node = None
        try:
            if node is not None:
                await node.stop(_SHUTDOWN_SECONDS)
                _check_kept(node)
        finally:
            self._forget()

    # -- what both have -----------------------------------------------------------------------------------------

    def _footing(self) -> tuple[Settings, RuntimeEnvironment]:
        if self._is_kept:
            return self._settings, durable()
        if self._temporary is None:
            path = tempfile.mkdtemp(prefix="flintmq-")
            # Or when the program ends with its broker running, which is no reason to complain.
            self._temporary = weakref.finalize(self, _remove, path, os.getpid())
            self._settings = _in_directory(self._settings, Path(path))
        return self._settings, ephemeral()

    def _check_not_running(self) -> None:
        if self._node is not None:
            raise RuntimeError(f"the broker runs already, on port {self._port}")

    def _forget(self) -> None:
        self._port = self._http_port = 0
        if self._temporary is not None:
            self._temporary()
            self._temporary = None


def _settings(port: int, given: Mapping[str, Any]) -> Settings:
    sections: dict[str, Any] = {**_SECTIONS, "listen": {"port": port}}
    for name, section in given.items():
        default = sections.get(name)
        sections[name] = {**default, **section} if default is not None and isinstance(section, Mapping) else section
    return from_document(sections)


def _in_directory(settings: Settings, directory: Path) -> Settings:
    return replace(settings, storage=replace(settings.storage, directory=directory))


def _remove(path: str, process: int) -> None:
    """A forked child has the broker's object, and not the broker: its end is no reason to take the parent's files."""
    if os.getpid() == process:
        shutil.rmtree(path, ignore_errors=True)


def _check_kept(node: Node) -> None:
    if node.failure:
        raise StorageError(node.failure)


@final
class _BrokerThread:
    """A thread with an event loop and a broker in it."""

    def __init__(self, settings: Settings, environment: RuntimeEnvironment) -> None:
        self._settings = settings
        self._environment = environment
        self._process = os.getpid()
        self._loop = uvloop.new_event_loop()
        self._stop = asyncio.Event()
        self._started: Future[Node] = Future()
        self._ended: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, name="flintmq", daemon=True)

    @property
    def is_here(self) -> bool:
        """Whether there is such a thread: a forked child has none, and would wait for ever for its parent's to end."""
        return os.getpid() == self._process

    def start(self) -> Node:
        """Returns once the broker accepts connections, and raises what kept it from that."""
        self._thread.start()
        return self._started.result()

    def stop(self) -> None:
        """Returns once the broker has ended, and raises what went wrong in that."""
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self._ended.result()

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
        except BaseException as error:  # noqa: BLE001 - it belongs to whoever waits in the other thread
            waiting = self._ended if self._started.done() else self._started
            waiting.set_exception(error)
        else:
            self._ended.set_result(None)
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        node = Node(self._settings, self._environment)
        await node.start()
        self._started.set_result(node)
        await self._stop.wait()
        await node.stop(_SHUTDOWN_SECONDS)
