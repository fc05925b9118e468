"""A node's lease at the coordinator: it lasts as long as the node's event loop turns and its disk takes writes."""

import asyncio
from collections.abc import Callable
from contextlib import closing
from typing import Final, final

from flintmq.cluster.coordinator import Coordinator, CoordinatorError, LeaseLost
from flintmq.cluster.ports import Directory, Machine
from flintmq.server import logs

log = logs.get_logger()

# A leader that does not renew its lease can be replaced after this time, in seconds.
LEASE_SECONDS: Final = 3
# So often that most restarts of a coordinator, which take it one to two seconds, cost nothing.
RENEW_SECONDS: Final = 0.5
# A leader steps down if it could not renew its lease for so long: before the lease has ended.
STEP_DOWN_SECONDS: Final = 2.5
_RETRY_SECONDS: Final = 0.1
PROBE_SECONDS: Final = 0.5
# A disk stands still if no write of the probe became durable within this time.
_STALL_SECONDS: Final = 1.5
_STALLS: Final = "the disk takes no writes"
_PROBE: Final = ".cluster.probe"


@final
class DiskProbe:
    """Writes to the disk at intervals. A disk that stalls makes no progress, and raises no error either."""

    def __init__(self, machine: Machine, directory: Directory) -> None:
        # How many writes are durable, and why the last one failed; "" if it did not.
        self.count = 0
        self.failure = ""
        self._directory = directory
        self._ends = machine.event()
        self._start = machine.start

    def start(self) -> None:
        self._start(self._run)

    def _run(self) -> None:
        while not self._ends.wait(PROBE_SECONDS):
            try:
                self._write()
                self.failure = ""
            except OSError as error:
                self.failure = str(error)
            else:
                self.count += 1

    def _write(self) -> None:
        disk, root = self._directory.disk, self._directory.root
        with closing(disk.create(root / _PROBE)) as file:
            file.write_at(0, [self.count.to_bytes(8, "big")])
            file.sync()

    def close(self) -> None:
        self._ends.set()


@final
class Lease:
    """The lease of `node`. `on_end` is called with the reason when it has ended, or could have ended by now."""

    def __init__(self, coordinator: Coordinator, node: str, probe: DiskProbe, on_end: Callable[[str], None]) -> None:
        # 0 while there is none.
        self.id = 0
        self._coordinator = coordinator
        self._node = node
        self._probe = probe
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        self._renewed_at = 0.0
        # The writes that were durable at the last look, and when there were more than before.
        self._probed = -1
        self._probed_at = 0.0
        # Why it was not renewed the last time.
        self._trouble = ""
        self._renewing: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Get a lease, and renew it from now on; it may be called again. Raises CoordinatorError."""
        await self._renew()
        if self._renewing is None:
            self._renewing = self._loop.create_task(self._keep())

    async def _renew(self) -> None:
        asked_at = self._loop.time()
        if self.id:
            try:
                await self._coordinator.renew(self.id)
            except LeaseLost:
                self.id = 0
                self._on_end("the lease has ended")
        if not self.id:
            lease = await self._coordinator.grant(LEASE_SECONDS)
            await self._coordinator.announce(self._node, lease)
            self.id = lease
        self._renewed_at = asked_at

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(_RETRY_SECONDS if self._trouble else RENEW_SECONDS)
            trouble = await self._try()
            if trouble and trouble != self._trouble:
                log.warning("the lease is not renewed", reason=trouble)
            self._trouble = trouble
            # By the next try, the lease could have ended. A disk that stalls has been waited for, and nothing can be
            # confirmed without it.
            is_over = self._left() <= _RETRY_SECONDS or trouble == _STALLS
            if self.id and trouble and is_over:
                self.id = 0
                self._on_end(trouble)

    def _left(self) -> float:
        """How long the lease can still be renewed, in seconds."""
        return self._renewed_at + STEP_DOWN_SECONDS - self._loop.time()

    async def _try(self) -> str:
        """Renew the lease, unless the disk stands still. Returns why it was not renewed."""
        if self._probe.failure:
            return f"the disk fails: {self._probe.failure}"
        if self._probed != self._probe.count:
            self._probed = self._probe.count
            self._probed_at = self._loop.time()
        if self._loop.time() - self._probed_at > _STALL_SECONDS:
            return _STALLS
        try:
            async with asyncio.timeout(max(self._left(), 0.0) if self.id else STEP_DOWN_SECONDS):
                await self._renew()
        except (CoordinatorError, TimeoutError) as error:
            return str(error) or "the coordinator does not answer"
        return ""

    async def close(self) -> None:
        """End the lease, and what is bound to it. Raises CoordinatorError."""
        if self._renewing is not None:
            self._renewing.cancel()
        if self.id:
            lease, self.id = self.id, 0
            await self._coordinator.revoke(lease)
