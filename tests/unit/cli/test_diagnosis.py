import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme

from flintmq.cli.diagnosis import examine
from flintmq.cli.finding import Finding
from flintmq.server.config import (
    AlarmSettings,
    ClusterSettings,
    ListenSettings,
    ManagementSettings,
    OAuthSettings,
    Settings,
    StorageSettings,
    TlsSettings,
)
from tests.servers import BrokerProcess, free_port
from tests.tokens import Issuer


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Settings of a broker that can start."""
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
    """Return the only finding with this subject and verdict."""
    (finding,) = [each for each in examine(settings, None, ()) if each.about == about and each.verdict == verdict]
    return finding


def test_nothing_is_in_the_way(settings: Settings) -> None:
    """On a machine without faults nothing is wrong, and the checks change nothing."""
    assert [each for each in examine(settings, None, ()) if each.verdict == "wrong"] == []
    assert not settings.storage.directory.exists()


def test_a_port_that_is_taken(settings: Settings, taken: int) -> None:
    """A port in use is wrong, and the finding names the setting to change."""
    assert "listen.port" in found(replace(settings, listen=ListenSettings(port=taken)), "port", "wrong").text


def test_a_port_for_other_nodes_that_is_taken(settings: Settings, taken: int) -> None:
    """The port at which other nodes of a cluster connect is one of those that have to be free."""
    cluster = ClusterSettings(name="c", node="a", port=taken, etcd=f"http://127.0.0.1:{free_port()}")
    assert "cluster.port" in found(replace(settings, cluster=cluster), "port", "wrong").text


def test_a_broker_that_runs(settings: Settings) -> None:
    """Ports and data that are in use by a broker with these settings are fine."""
    with BrokerProcess(settings.storage.directory) as broker:
        ours = replace(settings, listen=ListenSettings(port=broker.port))
        assert "by the running broker" in "".join(each.text for each in examine(ours, None, ()) if each.about == "port")
        assert f"process {broker.process.pid}" in found(ours, "data", "fine").text
    assert "no broker is using it" in found(settings, "data", "fine").text


def test_data_in_the_place_of_a_file(settings: Settings) -> None:
    """A data directory that is a file is wrong."""
    settings.storage.directory.write_text("")
    assert "storage.directory" in found(settings, "data", "wrong").text


def test_a_disk_without_room(settings: Settings) -> None:
    """Less free space than the limit of the disk alarm is wrong."""
    found(replace(settings, alarms=AlarmSettings(disk_free_min_bytes=1 << 60)), "disk", "wrong")


@pytest.mark.parametrize(("limit", "verdict"), [(100, "wrong"), (1_000, "doubtful"), (20_000, "fine")])
def test_open_files(settings: Settings, limit: int, verdict: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hard limit of open files counts, because the broker raises its soft limit to it."""
    monkeypatch.setattr("resource.getrlimit", lambda _: (100, limit))
    found(settings, "open files", verdict)


def test_memory_that_is_not_there(settings: Settings) -> None:
    """A watermark above the memory of the machine is wrong, because it would never be reached."""
    found(replace(settings, alarms=AlarmSettings(memory_high_watermark=1e15)), "memory", "wrong")


@pytest.mark.parametrize(("days", "verdict"), [(-2, "wrong"), (3, "doubtful"), (100, "fine")])
def test_certificates_expire(settings: Settings, tmp_path: Path, days: int, verdict: str) -> None:
    """A certificate that expires soon is doubtful, and an expired one is wrong."""
    until = datetime.now(UTC) + timedelta(days=days)
    file = tmp_path / "server.pem"
    trustme.CA().issue_cert("localhost", not_after=until).private_key_and_cert_chain_pem.write_to_path(str(file))
    found(replace(settings, tls=TlsSettings(certificate=file, port=0)), "TLS", verdict)


def test_a_certificate_that_is_none(settings: Settings, tmp_path: Path) -> None:
    """A certificate that the broker could not load is wrong."""
    file = tmp_path / "server.pem"
    file.write_text("no PEM")
    assert "cannot be used" in found(replace(settings, tls=TlsSettings(certificate=file, port=0)), "TLS", "wrong").text


def test_in_the_clear_to_everybody(settings: Settings) -> None:
    """Listening for other machines is doubtful without TLS, and without a user who can log in from there."""
    public = replace(settings, listen=ListenSettings("0.0.0.0", 0))
    found(public, "TLS", "doubtful")
    found(public, "users", "doubtful")


def test_a_clock_that_went_back(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files with a time in the future mean that the clock is wrong."""
    settings.storage.directory.mkdir()
    (settings.storage.directory / "journal").write_text("")
    now = time.time()
    monkeypatch.setattr("time.time", lambda: now - 3600)
    assert "behind" in found(settings, "clock", "wrong").text


def test_where_settings_come_from(settings: Settings, tmp_path: Path) -> None:
    """The finding names the file by its absolute path and the variables; without a file, it says how to set one."""
    file = tmp_path / "flintmq.toml"
    assert examine(settings, file, ["FLINTMQ_LISTEN_PORT"])[0].text.startswith(
        f"from {file}; from the environment: FLINTMQ_LISTEN_PORT; "
    )
    assert "FLINTMQ_CONFIG" in examine(settings, None, ())[0].text


def test_data_of_a_broker_beside(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new data directory beside the data of another broker is doubtful; both absolute paths are named."""
    monkeypatch.chdir(tmp_path)
    relative = replace(settings, storage=StorageSettings(Path("flintmq-data")))
    assert found(relative, "data", "fine").text == f"{tmp_path / 'flintmq-data'} will be created"
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "definitions.sqlite").write_text("")
    text = found(relative, "data", "doubtful").text
    assert f"{tmp_path / 'data'} has messages of another broker (--data data serves them)" in text


def test_keys_of_tokens(settings: Settings, tmp_path: Path) -> None:
    """Settings with which no broker starts are wrong; keys that cannot be fetched now are doubtful."""
    assert "tokens" not in [each.about for each in examine(settings, None, ())]
    issuer = OAuthSettings(issuer="uaa", resource_server_id="flintmq")
    assert "oauth.issuer" in found(replace(settings, oauth=issuer), "tokens", "wrong").text
    issuer = replace(issuer, issuer=f"http://127.0.0.1:{free_port()}")
    assert "cannot be fetched" in found(replace(settings, oauth=issuer), "tokens", "doubtful").text
    file = Issuer().publish(tmp_path / "jwks.json")
    keys = OAuthSettings(jwks=str(file), resource_server_id="flintmq")
    assert str(file) in found(replace(settings, oauth=keys), "tokens", "fine").text
