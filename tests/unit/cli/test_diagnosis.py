import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme

from flintmq.cli.diagnosis import Finding, examine
from flintmq.server.config import (
    AlarmSettings,
    ListenSettings,
    ManagementSettings,
    OAuthSettings,
    Settings,
    StorageSettings,
    TlsSettings,
)
from tests.servers import BrokerProcess
from tests.tokens import Issuer


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Of a broker that nothing is in the way of."""
    return Settings(
        listen=ListenSettings(port=0),
        management=ManagementSettings(port=0),
        storage=StorageSettings(tmp_path / "data"),
        alarms=AlarmSettings(disk_free_min_bytes=0),
    )


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as other:
        yield other.getsockname()[1]


def found(settings: Settings, about: str, verdict: str) -> Finding:
    """The one finding of this kind."""
    (finding,) = [each for each in examine(settings, None, ()) if each.about == about and each.verdict == verdict]
    return finding


def test_nothing_is_in_the_way(settings: Settings) -> None:
    """On a machine that is as it should be nothing is wrong, and nothing is changed."""
    assert [each for each in examine(settings, None, ()) if each.verdict == "wrong"] == []
    assert not settings.storage.directory.exists()


def test_a_port_that_is_taken(settings: Settings, taken: int) -> None:
    """It says which setting to change."""
    assert "listen.port" in found(replace(settings, listen=ListenSettings(port=taken)), "port", "wrong").text


def test_a_broker_that_runs(settings: Settings) -> None:
    """Its own ports and its own data are no fault of the settings."""
    with BrokerProcess(settings.storage.directory) as broker:
        ours = replace(settings, listen=ListenSettings(port=broker.port))
        assert "by the running broker" in "".join(each.text for each in examine(ours, None, ()) if each.about == "port")
        assert f"process {broker.process.pid}" in found(ours, "data", "fine").text
    assert "no broker is using it" in found(settings, "data", "fine").text


def test_data_in_the_place_of_a_file(settings: Settings) -> None:
    """A path that is a file cannot be a directory."""
    settings.storage.directory.write_text("")
    assert "storage.directory" in found(settings, "data", "wrong").text


def test_a_disk_without_room(settings: Settings) -> None:
    """Where publishers would have to wait at once, that is said before they do."""
    found(replace(settings, alarms=AlarmSettings(disk_free_min_bytes=1 << 60)), "disk", "wrong")


@pytest.mark.parametrize(("limit", "verdict"), [(100, "wrong"), (1_000, "doubtful"), (20_000, "fine")])
def test_open_files(settings: Settings, limit: int, verdict: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit counts that the broker can raise its own to."""
    monkeypatch.setattr("resource.getrlimit", lambda _: (100, limit))
    found(settings, "open files", verdict)


def test_memory_that_is_not_there(settings: Settings) -> None:
    """A watermark above what the machine has would never be reached."""
    found(replace(settings, alarms=AlarmSettings(memory_high_watermark=1e15)), "memory", "wrong")


@pytest.mark.parametrize(("days", "verdict"), [(-2, "wrong"), (3, "doubtful"), (100, "fine")])
def test_certificates_expire(settings: Settings, tmp_path: Path, days: int, verdict: str) -> None:
    """Days left are counted before it is too late."""
    until = datetime.now(UTC) + timedelta(days=days)
    file = tmp_path / "server.pem"
    trustme.CA().issue_cert("localhost", not_after=until).private_key_and_cert_chain_pem.write_to_path(str(file))
    found(replace(settings, tls=TlsSettings(certificate=file, port=0)), "TLS", verdict)


def test_a_certificate_that_is_none(settings: Settings, tmp_path: Path) -> None:
    """What the broker would say at its start is said here."""
    file = tmp_path / "server.pem"
    file.write_text("no PEM")
    assert "cannot be used" in found(replace(settings, tls=TlsSettings(certificate=file, port=0)), "TLS", "wrong").text


def test_in_the_clear_to_everybody(settings: Settings) -> None:
    """Listening for other machines without TLS, and with nobody who may log in from there, are doubtful."""
    public = replace(settings, listen=ListenSettings("0.0.0.0", 0))
    found(public, "TLS", "doubtful")
    found(public, "users", "doubtful")


def test_a_clock_that_went_back(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files from the future say that the clock is wrong now."""
    settings.storage.directory.mkdir()
    (settings.storage.directory / "journal").write_text("")
    now = time.time()
    monkeypatch.setattr("time.time", lambda: now - 3600)
    assert "behind" in found(settings, "clock", "wrong").text


def test_where_settings_come_from(settings: Settings, tmp_path: Path) -> None:
    """The file is named by its whole path, and so are variables that count; where there is no file, how to name one."""
    file = tmp_path / "flintmq.toml"
    assert examine(settings, file, ["FLINTMQ_LISTEN_PORT"])[0].text.startswith(
        f"from {file}; from the environment: FLINTMQ_LISTEN_PORT; "
    )
    assert "FLINTMQ_CONFIG" in examine(settings, None, ())[0].text


def test_data_of_a_broker_beside(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a broker would begin with nothing, beside the messages of another one, that is said, with whole paths."""
    monkeypatch.chdir(tmp_path)
    relative = replace(settings, storage=StorageSettings(Path("flintmq-data")))
    assert found(relative, "data", "fine").text == f"{tmp_path / 'flintmq-data'} will be created"
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "definitions.sqlite").write_text("")
    text = found(relative, "data", "doubtful").text
    assert f"{tmp_path / 'data'} has messages of another broker (--data data serves them)" in text


def test_keys_of_tokens(settings: Settings, tmp_path: Path) -> None:
    """Settings that no broker starts with are wrong; keys that are not there may be in a moment."""
    assert "tokens" not in [each.about for each in examine(settings, None, ())]
    issuer = OAuthSettings(issuer="uaa", resource_server_id="flintmq")
    assert "oauth.issuer" in found(replace(settings, oauth=issuer), "tokens", "wrong").text
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        issuer = replace(issuer, issuer=f"http://127.0.0.1:{nobody.getsockname()[1]}")
    assert "cannot be fetched" in found(replace(settings, oauth=issuer), "tokens", "doubtful").text
    file = Issuer().publish(tmp_path / "jwks.json")
    keys = OAuthSettings(jwks=str(file), resource_server_id="flintmq")
    assert str(file) in found(replace(settings, oauth=keys), "tokens", "fine").text
