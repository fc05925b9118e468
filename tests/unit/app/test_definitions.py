"""What a broker has when it starts: by itself, by its settings, and by what was there before."""

import json
from pathlib import Path
from typing import Any

import pytest

from flintmq.app import offline
from flintmq.base.errors import ConfigurationError
from flintmq.server.config import DefinitionSettings, Settings, StorageSettings, UserSettings, VHostSettings

USER = {"name": "u", "password": "p"}
ALL = {"configure": ".*", "write": ".*", "read": ".*"}


def started(
    directory: Path,
    document: object = None,
    vhosts: tuple[VHostSettings, ...] = (),
    users: tuple[UserSettings, ...] = (),
) -> dict[str, Any]:
    """The definitions there are once a broker of these settings has started."""
    load = None
    if document is not None:
        load = directory / "definitions.json"
        load.write_text(json.dumps(document))
    settings = Settings(
        storage=StorageSettings(directory / "data"),
        definitions=DefinitionSettings(load),
        vhosts=vhosts,
        users=users,
    )
    offline.import_definitions_into(settings)
    return offline.export_definitions_from(settings)


def names(definitions: dict[str, Any]) -> tuple[list[str], list[str]]:
    return tuple([each["name"] for each in definitions[section]] for section in ("vhosts", "users"))  # type: ignore[return-value]


def test_a_new_broker(tmp_path: Path) -> None:
    """It has the virtual host / and the user guest, who may do everything there."""
    definitions = started(tmp_path)
    assert names(definitions) == (["/"], ["guest"])
    assert definitions["permissions"] == [{"user": "guest", "vhost": "/"} | ALL]


@pytest.mark.parametrize(
    ("document", "found"),
    [
        ({"vhosts": [{"name": "v"}]}, (["/", "v"], ["guest"])),
        ({"users": [USER]}, (["/"], ["u"])),
        ({"users": [USER], "vhosts": [{"name": "v"}]}, (["v"], ["u"])),
        ({}, (["/"], ["guest"])),
    ],
)
def test_a_new_broker_with_a_file(tmp_path: Path, document: object, found: object) -> None:
    """Who brings users needs no guest, and who brings virtual hosts as well needs no /."""
    assert names(started(tmp_path, document)) == found


def test_a_file_may_speak_of_the_default_user(tmp_path: Path) -> None:
    """Permissions in a file may be those of guest, where it has no users of its own."""
    definitions = started(
        tmp_path,
        {
            "vhosts": [{"name": "strict", "dialect": "strict"}],
            "permissions": [{"user": "guest", "vhost": "strict"} | ALL],
        },
    )
    assert {given["vhost"] for given in definitions["permissions"]} == {"/", "strict"}


def test_users_and_vhosts_of_the_settings(tmp_path: Path) -> None:
    """They are there as they are said, with full permissions where they are said; starting again changes nothing."""
    vhosts = (VHostSettings("v", "strict", description="words", tags=("t",)), VHostSettings("w"))
    users = (UserSettings("u", "p", ("management",), ("v", "w")),)
    definitions = started(tmp_path, None, vhosts, users)
    assert names(definitions) == (["v", "w"], ["u"])
    assert definitions["vhosts"][0]["dialect"] == "strict"
    assert definitions["users"][0]["tags"] == ["management"]
    assert definitions["permissions"] == [{"user": "u", "vhost": vhost} | ALL for vhost in ("v", "w")]
    assert started(tmp_path, None, vhosts, users) == definitions


def test_what_was_deleted_stays_deleted(tmp_path: Path) -> None:
    """Defaults are for new brokers: nobody finds guest again after deleting it."""
    started(tmp_path)
    settings = Settings(storage=StorageSettings(tmp_path / "data"))
    with offline.stopped(settings) as broker:
        broker.delete_user("guest")
    assert names(started(tmp_path)) == (["/"], [])


def test_a_user_of_a_vhost_there_is_not(tmp_path: Path) -> None:
    """Settings that cannot be met change nothing."""
    with pytest.raises(ConfigurationError, match="there is no vhost 'missing'"):
        started(tmp_path, users=(UserSettings("u", "p", vhosts=("missing",)),))
    assert names(offline.export_definitions_from(Settings(storage=StorageSettings(tmp_path / "data")))) == ([], [])


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """It is named."""
    settings = Settings(
        storage=StorageSettings(tmp_path / "data"), definitions=DefinitionSettings(tmp_path / "no.json")
    )
    with pytest.raises(ConfigurationError, match="cannot read the definitions in .*no.json: No such file"):
        offline.import_definitions_into(settings)
