"""Starts that cannot succeed: one clear line on standard error, the right exit code, and never a traceback."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import flintmq.client as fc
from tests.commands import run_here
from tests.hostile.disks import mounted_tmpfs
from tests.servers import START_SECONDS, BrokerProcess, command, environment

# A setting that is wrong, and a start that failed.
USAGE = 2
FAILURE = 1


def _fails_to_start(*arguments: str, **settings: str) -> tuple[int, str]:
    """Runs `flintmq serve`, which has to end by itself; returns its exit code and the one line it complains with."""
    ended = subprocess.run(  # noqa: S603 - our own command
        command("serve", "--port", "0", *arguments),
        env=environment(**settings),
        capture_output=True,
        text=True,
        timeout=START_SECONDS,
        check=False,
    )
    assert "Traceback" not in ended.stderr
    complaints = [line for line in ended.stderr.splitlines() if line.startswith("flintmq: ")]
    assert len(complaints) == 1, ended.stderr
    assert ended.stdout == ""
    return ended.returncode, complaints[0].removeprefix("flintmq: ")


def test_a_data_directory_in_use(tmp_path: Path) -> None:
    """A second broker on the same data leaves at once, naming the process that has it; the first one goes on."""
    with BrokerProcess(tmp_path / "data") as first:
        code, complaint = _fails_to_start("--data", str(first.data))
        assert code == FAILURE
        assert complaint.startswith(f"{first.data} is in use by another broker (process {first.process.pid}): ")
        assert first.stop() == 0


def test_the_lock_ends_with_its_process(tmp_path: Path) -> None:
    """A broker that was killed leaves no lock behind that somebody would have to remove."""
    with BrokerProcess(tmp_path / "data") as broker:
        broker.kill()
        broker.start()
        assert broker.stop() == 0


def test_a_port_in_use(tmp_path: Path) -> None:
    """A port that is taken is named, with the way out, before anything is recovered."""
    with BrokerProcess(tmp_path / "first") as first:
        code, complaint = _fails_to_start("--data", str(tmp_path / "second"), "--port", str(first.port))
    assert code == FAILURE
    assert complaint.startswith(f"cannot listen on 127.0.0.1:{first.port} (")
    assert complaint.endswith("Stop it, or choose another port with listen.port (--port)")


def test_an_address_that_is_not_ours(tmp_path: Path) -> None:
    """An address of another machine cannot be listened on."""
    code, complaint = _fails_to_start("--data", str(tmp_path / "data"), "--host", "192.0.2.1")
    assert code == FAILURE
    assert complaint.startswith("cannot listen on 192.0.2.1:0 (")
    assert complaint.endswith("choose an address of this machine with listen.host (--host)")


def test_a_data_directory_that_is_a_file(tmp_path: Path) -> None:
    """A file where the directory should be is left as it is."""
    file = tmp_path / "data"
    file.write_text("precious")
    code, complaint = _fails_to_start("--data", str(file))
    assert code == FAILURE
    assert complaint == f"{file} is not a directory: choose one for the data"
    assert file.read_text() == "precious"


def test_a_data_directory_that_cannot_be_written(tmp_path: Path, read_only: Path) -> None:
    """A directory without write permission is found out at the start, not at the first message."""
    code, complaint = _fails_to_start("--data", str(read_only))
    assert code == FAILURE
    assert complaint.startswith(f"the data directory {read_only} cannot be used (")
    assert "choose a directory that this user may write to" in complaint


def test_definitions_that_are_not_ours(tmp_path: Path) -> None:
    """A file that is no database of definitions is neither used nor overwritten."""
    data = tmp_path / "data"
    data.mkdir()
    (data / "definitions.sqlite").write_bytes(b"garbage" * 1000)
    code, complaint = _fails_to_start("--data", str(data))
    assert code == FAILURE
    assert "definitions.sqlite cannot be read" in complaint
    assert (data / "definitions.sqlite").read_bytes() == b"garbage" * 1000


def _files(data: Path) -> dict[str, bytes]:
    """What is in the journal and the streams."""
    return {str(path): path.read_bytes() for name in ("journal", "streams") for path in (data / name).rglob("*.*")}


@pytest.mark.parametrize("what", ["missing", "empty", "empty with its log", "without its log"])
def test_messages_without_definitions(tmp_path: Path, what: str) -> None:
    """Messages whose definitions are lost stop the start, and stay; `verify` says so. Put back, all is as it was."""
    with BrokerProcess(tmp_path / "data") as broker:
        with fc.connect(broker.url) as connection:
            channel = connection.channel(confirms=True)
            for queue, kind in (("orders", "classic"), ("log", "stream")):
                channel.declare_queue(queue, arguments={"x-queue-type": kind})
                channel.publish(b"precious", "", queue, fc.Properties(delivery_mode=2))
            channel.wait_for_confirms()
        broker.kill()
        before = _files(broker.data)
        kept = {path: path.read_bytes() for path in broker.data.glob("definitions.sqlite*")}
        for path in kept:
            if (what == "empty with its log" and path.suffix != ".sqlite") or (
                what == "without its log" and path.suffix == ".sqlite"
            ):
                continue
            path.unlink()
        if what.startswith("empty"):
            (broker.data / "definitions.sqlite").touch()
        for _ in range(2):
            code, complaint = _fails_to_start("--data", str(broker.data))
            assert code == FAILURE
            assert complaint.startswith(f"{broker.data}/definitions.sqlite ")
            assert "restore it from a backup" in complaint
            assert f"flintmq storage rebuild {broker.data}" in complaint
        assert _files(broker.data) == before
        verified = run_here("storage", "verify", str(broker.data))
        assert verified.returncode == 1
        assert "definitions.sqlite at byte 0:" in verified.stdout
        for path, content in kept.items():
            path.write_bytes(content)
        broker.start()
        with fc.connect(broker.url) as connection:
            channel = connection.channel()
            assert channel.declare_queue("orders", passive=True).message_count == 1
            assert channel.declare_queue("log", passive=True).message_count == 1


BAD_SETTINGS = {
    "not TOML": ("[listen]\nport = \n", "not valid TOML: ", "(at line 2"),
    "unknown section": ("[lisen]\nport = 1\n", "there is no section [lisen]", "did you mean listen?"),
    "unknown key": ("[listen]\nprot = 1\n", "there is no setting listen.prot", "did you mean listen.port?"),
    "wrong type": ('[limits]\nchannel_max = "many"\n', "limits.channel_max: expected `int`, got `str`", ""),
    "out of bounds": ("[limits]\nheartbeat_seconds = 65536\n", "limits.heartbeat_seconds: expected `int` <= 65535", ""),
    "wrong choice": ('[log]\nlevel = "loud"\n', "log.level: invalid enum value 'loud'", ""),
    "key without a section": ("listen = 1\n", "listen is a section; write [listen]", ""),
}


@pytest.mark.parametrize(("text", "what", "hint"), BAD_SETTINGS.values(), ids=BAD_SETTINGS.keys())
def test_settings_that_are_wrong(tmp_path: Path, text: str, what: str, hint: str) -> None:
    """A settings file that is not right is named, with the place in it, and what was probably meant."""
    file = tmp_path / "flintmq.toml"
    file.write_text(text)
    code, complaint = _fails_to_start("--data", str(tmp_path / "data"), "--config", str(file))
    assert code == USAGE
    assert complaint.startswith(str(file))
    assert what in complaint
    assert hint in complaint
    assert not (tmp_path / "data").exists()


def test_settings_that_are_not_there(tmp_path: Path) -> None:
    """A settings file that was named and is missing is an error, not a default."""
    code, complaint = _fails_to_start("--config", str(tmp_path / "missing.toml"))
    assert code == USAGE
    assert complaint == f"cannot read the settings in {tmp_path}/missing.toml: No such file or directory"


def test_a_variable_that_is_wrong(tmp_path: Path) -> None:
    """Variables are held to the same: a wrong value names the variable, a wrong name the nearest one."""
    assert _fails_to_start(FLINTMQ_LOG_LEVEL="loud")[1].startswith("FLINTMQ_LOG_LEVEL in the environment: ")
    code, complaint = _fails_to_start("--data", str(tmp_path), FLINTMQ_LISTEN_PROT="1")
    assert code == USAGE
    assert complaint == "the variable FLINTMQ_LISTEN_PROT is no setting; did you mean FLINTMQ_LISTEN_PORT?"


def test_a_flag_that_is_wrong(tmp_path: Path) -> None:
    """Flags are held to the same."""
    code, complaint = _fails_to_start("--data", str(tmp_path), "--port", "70000")
    assert code == USAGE
    assert complaint.startswith("listen.port, as given on the command line: ")


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[Path]:
    directory = tmp_path / "read-only"
    directory.mkdir(0o500)
    if os.access(directory, os.W_OK):
        # Permissions are nothing to root; a read-only disk is.
        with mounted_tmpfs(directory, "ro,size=1m"):
            yield directory
    else:
        yield directory


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("FLINTMQ_TLS_KEY", "tls.key has no effect without tls.certificate"),
        ("FLINTMQ_TLS_CERTIFICATE", "nowhere.pem and tls.key in it cannot be used"),
        ("FLINTMQ_AUTH_MECHANISMS", "is unknown; known are"),
    ],
)
def test_settings_of_logins(tmp_path: Path, setting: str, words: str) -> None:
    """What cannot work is said at the start, with the name of the setting."""
    code, complaint = _fails_to_start("--data", str(tmp_path / "data"), **{setting: str(tmp_path / "nowhere.pem")})
    assert code == USAGE
    assert words in complaint
