import asyncio

import pytest

from flintmq.base.errors import ConfigurationError
from flintmq.server import config
from flintmq.server.config import (
    AlarmSettings,
    DefaultUserSettings,
    ListenSettings,
    LogSettings,
    Settings,
    UserSettings,
)
from flintmq.server.reload import Apply, Part, SettingsReload


def part(begins: str, applied: list[Settings], is_always: bool = False, fails: bool = False) -> Part:
    async def prepare(settings: Settings) -> Apply:
        if fails:
            raise ConfigurationError("no")
        return lambda: applied.append(settings)

    return Part((begins,), prepare, is_always)


def reloading(before: Settings, after: Settings, *parts: Part) -> SettingsReload:
    made = SettingsReload(before, lambda: after)
    for each in parts:
        made.add(each)
    return made


def test_changes_are_named_and_passwords_are_not() -> None:
    """What is different is said with both values, but where one is secret."""
    after = Settings(
        alarms=AlarmSettings(disk_free_min_bytes=1),
        default_user=DefaultUserSettings(password="secret"),
        users=(UserSettings("u", "secret"),),
    )
    assert config.changes(Settings(), after) == {
        "alarms.disk_free_min_bytes": "50000000 -> 1",
        "default_user.password": "",
        "users": "",
    }
    assert config.changes(after, after) == {}


def test_what_can_change_does_and_the_rest_waits() -> None:
    """A part is told of its settings; those of a restart stay what the broker runs with, and are said again."""
    applied: list[Settings] = []
    after = Settings(log=LogSettings("debug"), listen=ListenSettings(port=1))
    made = reloading(Settings(), after, part("log.", applied), part("limits.", applied))
    for _ in range(2):
        asyncio.run(made.reload())
        assert made.settings == Settings(log=LogSettings("debug"))
    assert applied == [made.settings]


def test_files_are_looked_at_each_time() -> None:
    """A part whose settings name files is asked although nothing of them has changed."""
    applied: list[Settings] = []
    asyncio.run(reloading(Settings(), Settings(), part("tls.", applied, is_always=True)).reload())
    assert applied == [Settings()]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_nothing_changes_where_anything_is_wrong(order: tuple[int, int]) -> None:
    """Whichever part refuses, the others do not see the new settings."""
    applied: list[Settings] = []
    parts = [part("log.", applied), part("tls.", [], is_always=True, fails=True)]
    made = reloading(Settings(), Settings(log=LogSettings("debug")), *(parts[at] for at in order))
    with pytest.raises(ConfigurationError):
        asyncio.run(made.reload())
    assert applied == []
    assert made.settings == Settings()


def test_a_file_that_is_wrong_ends_nothing() -> None:
    """The next order to read is obeyed, whatever became of the last one."""
    applied: list[Settings] = []
    environments = [{"FLINTMQ_WRONG": "1"}, {"FLINTMQ_LOG_LEVEL": "debug"}]
    made = SettingsReload(Settings(), lambda: config.load(None, environments.pop(0), {}))
    made.add(part("log.", applied))

    async def told_twice() -> None:
        wanted = asyncio.Event()
        watching = asyncio.create_task(made.watch(wanted))
        for _ in range(2):
            wanted.set()
            for _ in range(5):
                await asyncio.sleep(0)
        watching.cancel()

    asyncio.run(told_twice())
    assert applied[0].log.level == "debug"


def test_every_key_that_is_taken_up_is_one() -> None:
    """The list of what needs no restart speaks of settings that there are."""
    every = config.changes(Settings(), Settings()).keys() | {
        f"{name}.{setting}" for name in vars(Settings()) for setting in getattr(vars(Settings())[name], "__dict__", ())
    }
    assert every | {"certificates", "users", "vhosts"} >= config.RELOADED
