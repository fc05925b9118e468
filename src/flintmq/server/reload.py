"""Reading of the settings while the broker runs: some are applied, the others wait for the next start."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from flintmq.base.errors import FlintError
from flintmq.server import config, logs
from flintmq.server.config import Settings

log = logs.get_logger()

# Applies a prepared change, at once or in a coroutine. It cannot fail.
Apply = Callable[[], Awaitable[None] | None]
# Checks that settings can be applied, and changes nothing. Raises FlintError if they cannot.
Prepare = Callable[[Settings], Awaitable[Apply]]


@dataclass(frozen=True)
class Part:
    """Some of the settings, by the beginnings of their keys.

    With `is_always`, they are applied even if they are unchanged, because they name files that may have changed.
    """

    begins: tuple[str, ...]
    prepare: Prepare
    is_always: bool = False

    def is_about(self, key: str) -> bool:
        return key.startswith(self.begins)


class SettingsReload:
    """Applies changed settings. `load` reads them again from their sources."""

    def __init__(self, settings: Settings, load: Callable[[], Settings]) -> None:
        self.settings: Settings = settings
        self._load: Final = load
        self._parts: Final[list[Part]] = []

    def add(self, part: Part) -> None:
        self._parts.append(part)

    def remove(self, part: Part) -> None:
        self._parts.remove(part)

    async def watch(self, wanted: asyncio.Event) -> None:
        """Reload the settings each time that `wanted` is set."""
        while True:
            await wanted.wait()
            wanted.clear()
            try:
                await self.reload()
            except FlintError as error:
                log.warning("settings stay as they were", reason=str(error))
            except Exception:
                log.exception("internal error while settings were read again")

    async def reload(self) -> None:
        """Apply all settings that can be applied, or none if one is wrong. Raises FlintError in that case."""
        wanted = self._load()
        found = config.changes(self.settings, wanted)
        later = {key: change for key, change in found.items() if key not in config.RELOADED}
        now = {key: change for key, change in found.items() if key not in later}
        settings = config.take_up(self.settings, wanted, now.keys())
        concerned = [part for part in self._parts if part.is_always or any(map(part.is_about, now))]
        for apply in [await part.prepare(settings) for part in concerned]:
            unfinished = apply()
            if unfinished is not None:
                await unfinished
        self.settings = settings
        log.info("settings read again", changed=_words(now))
        if later:
            log.warning("settings that need a restart", changed=_words(later))


def _words(changes: dict[str, str]) -> str:
    return ", ".join(f"{key}: {change}" if change else key for key, change in changes.items()) or "nothing"
