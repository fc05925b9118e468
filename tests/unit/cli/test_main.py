import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import flintmq


def _run(*arguments: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "flintmq.cli", *arguments]
    return subprocess.run(  # noqa: S603 - our own command
        command,
        env=os.environ | {"COLUMNS": "200", "NO_COLOR": "1"} | variables,
        capture_output=True,
        text=True,
        check=False,
    )


def test_version_says_which_build_is_running() -> None:
    """`--version` prints the version and whether FlintMQ is compiled."""
    ran = _run("--version")
    build = "compiled by mypyc" if flintmq.compiled else "interpreted"
    assert ran.returncode == 0
    assert re.fullmatch(rf"FlintMQ {re.escape(flintmq.__version__)} \({build}; Python 3\.\d+\.\S+\)\n", ran.stdout)


def test_a_wrong_setting_is_one_line_and_a_usage_error(tmp_path: Path) -> None:
    """Configuration errors end with status 2 and one line that says what to do, without a traceback."""
    file = tmp_path / "flintmq.toml"
    file.write_text("[listen]\nprot = 1\n")
    ran = _run("serve", "--config", str(file))
    assert ran.returncode == 2
    assert ran.stdout == ""
    assert ran.stderr == f"flintmq: {file}: there is no setting listen.prot; did you mean listen.port?\n"


def test_an_unknown_flag_is_a_usage_error() -> None:
    """An unknown flag has the same exit code as a wrong setting."""
    ran = _run("serve", "--prot", "1")
    assert ran.returncode == 2
    assert "--prot" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_help_names_the_commands() -> None:
    """`flintmq` without arguments prints the commands."""
    ran = _run()
    assert "serve" in ran.stdout + ran.stderr


def test_a_broker_that_cannot_start_says_why_and_fails(tmp_path: Path) -> None:
    """A fault of the machine, such as a port in use, ends with exit code 1 and without a traceback."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ran = _run("serve", "--data", str(tmp_path / "data"), "--port", str(taken.getsockname()[1]))
    assert ran.returncode == 1
    assert ran.stderr.splitlines()[-1].startswith("flintmq: cannot listen on 127.0.0.1:")
    assert "Traceback" not in ran.stderr


def test_settings_are_shown_without_passwords(tmp_path: Path) -> None:
    """The settings of file and environment are printed as text and as JSON, without passwords."""
    file = tmp_path / "flintmq.toml"
    file.write_text('[listen]\nport = 1\n[[users]]\nname = "u"\npassword = "s3cret"\n')
    ran = _run("config", "show", "--config", str(file))
    assert ran.returncode == 0
    assert "listen.port = 1\n" in ran.stdout
    assert 'users[0].password = "(hidden)"\n' in ran.stdout
    as_json = _run("config", "show", "--config", str(file), "--json")
    assert json.loads(as_json.stdout)["users"][0]["name"] == "u"
    assert "s3cret" not in ran.stdout + as_json.stdout


def test_commands_do_not_load_clusters() -> None:
    """Only commands about a cluster load the client of etcd, which takes longer than a whole command."""
    code = (
        "import sys; from typer.main import get_command; from flintmq.cli.main import app\n"
        "from flintmq.cli.diagnosis import examine; from flintmq.server.config import Settings\n"
        "list(get_command(app).commands); examine(Settings(), None, ())\n"
        "print([name for name in sys.modules if name == 'httpx' or name.startswith('flintmq.cluster')])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603 - ours
    assert ran.stdout == "[]\n"


def test_doctor_looks_at_what_serve_would_use(tmp_path: Path) -> None:
    """`doctor` reads the same file, variables and flags as `serve`, and names them."""
    file = tmp_path / "flintmq.toml"
    file.write_text(f'[storage]\ndirectory = "{tmp_path}/kept"\n[management]\nport = 0\n')
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ran = _run("doctor", "--json", "--port", port, FLINTMQ_CONFIG=str(file), FLINTMQ_ALARMS_DISK_FREE_MIN_BYTES="0")
    assert ran.returncode == 1
    said = [(each["about"], each["text"]) for each in json.loads(ran.stdout)]
    assert any(about == "port" and "listen.port (--port)" in text for about, text in said)
    assert ("data", f"{tmp_path}/kept will be created") in said
    assert f"from {file}; from the environment: FLINTMQ_ALARMS_DISK_FREE_MIN_BYTES" in said[0][1]
