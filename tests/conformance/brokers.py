"""Brokers that rules are shown against: one in this process, and processes. The same test can be run on either.

The one in this process is the production server on a loop without a clock: bytes in, bytes out, and no socket, thread
or disk between. Rules of restarts, crashes, TCP and TLS need a process.
"""

import asyncio
import itertools
import random
import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Final, Protocol, Self, final

from flintmq.app.definitions import bring_in, document_in
from flintmq.app.logins import login_policy
from flintmq.app.server_properties import server_properties_091, server_properties_10
from flintmq.broker.access.bearer import Bearer
from flintmq.broker.access.user import User
from flintmq.broker.broker import Broker as Vhosts
from flintmq.broker.ports import UserRecord
from flintmq.protocol.sasl.scram import Keys, derive_keys
from flintmq.server import logs
from flintmq.server.acceptor import StreamProtocol
from flintmq.server.amqp import AmqpServer
from flintmq.server.config import Settings
from tests.servers import BrokerProcess, LogLine
from tests.sim.loop import VirtualLoop
from tests.sockets import Stream, connected
from tests.unit.broker.memory import MemoryStorage
from tests.waiting import WAIT_SECONDS

MEMORY: Final = "memory"
SOCKET: Final = "socket"

# The moment at which every broker in memory begins (Unix time in seconds).
_EPOCH: Final = 1_700_000_000
# What the clock of its loop says then.
_START_SECONDS: Final = 100.0
_SYNC_SECONDS: Final = 0.001
# What the server reads at once, and what is under way before its own buffer fills.
_READ_BYTES: Final = 262_144
_KERNEL_BYTES: Final = 65_536
# A broker that does so much without a word to a client that waits for one does it for ever, and no time passes.
_STEPS_MAX: Final = 100_000


class Broker(Protocol):
    """A broker, wherever it runs. Times are seconds of its own clock."""

    @property
    def log(self) -> list[LogLine]: ...

    def wait_for_log(self, event: str, **facts: Any) -> LogLine:  # noqa: ANN401 - as processes log them
        """The first line of this event that has these facts; waits until there is one."""

    def connect(self) -> Stream: ...

    def time(self) -> float: ...

    def pass_time(self, seconds: float) -> None: ...


class ProcessBroker(BrokerProcess):
    """A process, reached over sockets."""

    def connect(self) -> Stream:
        return connected(self.port)

    def time(self) -> float:
        return time.monotonic()

    def pass_time(self, seconds: float) -> None:
        time.sleep(seconds)


# -- in memory --------------------------------------------------------------------------------------------------------


@final
class _Transport(asyncio.Transport):
    """The server's end of a connection."""

    def __init__(self, loop: VirtualLoop, protocol: StreamProtocol, port: int) -> None:
        super().__init__()
        self.address = ("127.0.0.1", port)
        # What the client has not read, and whether there is an end behind it.
        self.down = bytearray()
        self.has_said_all = False
        self.is_lost = False
        self._loop = loop
        self._protocol = protocol
        self._up = bytearray()
        self._is_reading = True
        self._is_hung_up = False
        self._is_full = False
        self._high = self._low = 0
        protocol.connection_made(self)

    # -- the client's side --------------------------------------------------------------------------------------

    def send(self, data: bytes) -> None:
        self._up += data
        self._loop.call_soon(self._carry)

    def take(self, size: int) -> bytes:
        data = bytes(self.down[:size])
        del self.down[:size]
        if self._is_full and self.get_write_buffer_size() <= self._low and not self.is_lost:
            self._is_full = False
            self._loop.call_soon(self._protocol.resume_writing)
        return data

    def hang_up(self) -> None:
        self._is_hung_up = True
        self._loop.call_soon(self._carry)

    def _carry(self) -> None:
        if not self._is_reading or self.is_lost:
            return
        if self._up:
            data = bytes(self._up[:_READ_BYTES])
            del self._up[:_READ_BYTES]
            self._protocol.data_received(data)
            self._loop.call_soon(self._carry)
        elif self._is_hung_up:
            self.close()

    # -- the server's side --------------------------------------------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview) -> None:
        # uvloop's transports raise, too.
        assert not self.has_said_all or self.is_lost, "written after the end of the stream"
        if self.is_lost:
            return
        self.down += data
        if not self._is_full and self.get_write_buffer_size() > self._high:
            self._is_full = True
            self._protocol.pause_writing()

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.write(b"".join(list_of_data))

    def write_eof(self) -> None:
        self.has_said_all = True

    def can_write_eof(self) -> bool:
        return True

    def get_write_buffer_size(self) -> int:
        return max(len(self.down) - _KERNEL_BYTES, 0)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high, self._low = high or 0, low or 0

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        self._is_reading = True
        self._loop.call_soon(self._carry)

    def is_closing(self) -> bool:
        return self.is_lost

    def close(self) -> None:
        if not self.is_lost:
            self.has_said_all = self.is_lost = True
            self._loop.call_soon(self._protocol.connection_lost, None)

    def abort(self) -> None:
        self.down.clear()
        self.close()

    def get_extra_info(self, name: str, default: object = None) -> object:
        return self.address if name == "peername" else default


@final
class _MemoryStream:
    """The client's end. Reading lets the broker do what there is to do, and time pass where there is nothing."""

    def __init__(self, loop: VirtualLoop, transport: _Transport) -> None:
        self._loop = loop
        self._transport = transport
        self._is_reset = False

    def sendall(self, data: bytes, /) -> None:
        if self._is_reset:
            raise BrokenPipeError
        # The answer to what is sent to a closed socket is a reset, which the next one finds.
        self._is_reset = self._transport.is_lost
        self._transport.send(data)

    def recv(self, size: int, /) -> bytes:
        transport = self._transport
        steps = itertools.count()

        def is_enough() -> bool:
            return bool(transport.down) or transport.has_said_all or next(steps) > _STEPS_MAX

        if not is_enough():
            self._loop.run(self._loop.time() + WAIT_SECONDS, is_enough)
        if not transport.down and not transport.has_said_all:
            raise TimeoutError
        return transport.take(size)

    def getsockname(self) -> tuple[str, int]:
        return self._transport.address

    def close(self) -> None:
        self._transport.hang_up()


@final
class _Storage(MemoryStorage):
    """What is committed is durable a moment later; `on_progress` is called then, if anybody waits for it."""

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self.on_progress: Callable[[], None] = lambda: None
        self._loop = loop
        self._is_syncing = False

    def commit(self) -> int:
        if not self._is_syncing:
            self._is_syncing = True
            self._loop.call_later(_SYNC_SECONDS, self._sync)
        return super().commit()

    def _sync(self) -> None:
        self._is_syncing = False
        self.sync()
        self.on_progress()


@final
class _Logins:
    """The hash of a password is the password."""

    def __init__(self, users: dict[str, User]) -> None:
        self._users = users

    def check(
        self, user: str, password: str, address: str, is_wanted: Callable[[], bool], answer: Callable[[str], None]
    ) -> None:
        wrong = self.refusal(user, address)
        if not wrong and password != self._users[user].record.password_hash:
            wrong = f"wrong password for user '{user}'"
        answer(wrong)

    def check_token(
        self, token: str, address: str, is_wanted: Callable[[], bool], answer: Callable[[str, Bearer | None], None]
    ) -> None:
        answer("tokens are not accepted", None)

    def check_proof(
        self,
        user: str,
        proof: Callable[[], str],
        address: str,
        is_wanted: Callable[[], bool],
        answer: Callable[[str], None],
    ) -> None:
        answer(proof() or self.refusal(user, address))

    def failed(self, user: str, address: str) -> None:
        pass

    def refusal(self, user: str, address: str) -> str:
        return "" if user in self._users else f"there is no user '{user}'"

    def scram_keys(self, user: str, mechanism: str) -> Keys:
        return derive_keys(mechanism, self._users[user].record.password_hash, b"salt" * 4)

    def close(self) -> None:
        pass


@final
class _Log:
    """Instead of a logger: keeps the lines."""

    def __init__(self) -> None:
        self.lines: list[LogLine] = []

    def __getattr__(self, level: str) -> Callable[..., None]:
        def keep(event: str, **facts: object) -> None:
            self.lines.append({"event": event, "level": "error" if level == "exception" else level, **facts})

        return keep


@final
class MemoryBroker:
    """The server in this process, with the definitions of these settings. `alarm` is why publishers wait, if they do.

    Everything that the process logs from `__enter__` to `__exit__` is taken to be this broker's. No internal error may
    be among it.
    """

    def __init__(self, settings: Settings, alarm: str = "") -> None:
        self._loop = VirtualLoop(_START_SECONDS)
        self._storage = _Storage(self._loop)
        self._logger = _Log()
        self._logger_before: object = None
        self._ports = itertools.count(1)
        self._server = self._loop.complete(self._serve(settings), _START_SECONDS)
        self._server.watch(lambda: alarm, str)

    def __enter__(self) -> Self:
        self._logger_before = logs._logger
        logs._logger = self._logger
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            # What follows the clients' last words is the broker's to do, too.
            self.pass_time(0.0)
        logs._logger = self._logger_before
        internal = [line for line in self.log if line["event"].startswith("internal error")]
        assert not internal, internal

    async def _serve(self, settings: Settings) -> AmqpServer:
        chance = random.Random(0)  # noqa: S311 - the same for each run
        broker = Vhosts(self._storage, 0)
        broker.now_ms = self._clock_ms()
        users = [UserRecord(user.name, user.password) for user in settings.users]
        document = document_in(settings.definitions.load)
        for _ in bring_in(broker, settings, users, document, lambda _, password: (password, "argon2id")):
            pass
        server = AmqpServer(
            broker,
            server_properties_091(settings),
            _Logins(broker.users),
            chance.randbytes,
            1_000,
            self._clock_ms,
            login_policy(settings),
            properties_10=server_properties_10(settings),
        )

        def progress() -> None:
            if broker.tick.unsynced or not server.gateway.durability.is_empty:
                server.on_storage_progress()

        self._storage.on_progress = progress
        return server

    def _clock_ms(self) -> int:
        return int((_EPOCH + self._loop.time()) * 1000)

    @property
    def log(self) -> list[LogLine]:
        return self._logger.lines

    def wait_for_log(self, event: str, **facts: Any) -> LogLine:  # noqa: ANN401 - as processes log them
        """The first line of this event that has these facts; what is to be done is done before."""
        self.pass_time(0.0)
        found = [line for line in self.log if line["event"] == event and facts.items() <= line.items()]
        assert found, f"no log line {event!r} with {facts}: {self.log}"
        return found[0]

    def connect(self) -> Stream:
        return _MemoryStream(self._loop, _Transport(self._loop, self._server.protocol(), next(self._ports)))

    def time(self) -> float:
        return self._loop.time()

    def pass_time(self, seconds: float) -> None:
        self._loop.run(self._loop.time() + seconds)

    def stand_still(self, seconds: float) -> None:
        """Time passes, in which nothing is done."""
        self._loop.stand_still(seconds)
