import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import flintmq


def _run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "flintmq.cli", *arguments]
    return subprocess.run(  # noqa: S603 - our own command
        command, env=os.environ | {"COLUMNS": "200", "NO_COLOR": "1"}, capture_output=True, text=True, check=False
    )


def test_version_says_which_build_is_running() -> None:
    """A person who reports a fault can tell whether the broker was compiled."""
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
    """What the command line parser refuses has the same status as what the settings refuse."""
    ran = _run("serve", "--prot", "1")
    assert ran.returncode == 2
    assert "--prot" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_help_names_the_commands() -> None:
    """`flintmq` without arguments shows what it can do."""
    ran = _run()
    assert "serve" in ran.stdout + ran.stderr


def test_a_broker_that_cannot_start_says_why_and_fails(tmp_path: Path) -> None:
    """What is wrong with the machine, and not with the settings, ends with status 1, and without a traceback."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ran = _run("serve", "--data", str(tmp_path / "data"), "--port", str(taken.getsockname()[1]))
    assert ran.returncode == 1
    assert ran.stderr.splitlines()[-1].startswith("flintmq: cannot listen on 127.0.0.1:")
    assert "Traceback" not in ran.stderr


def test_settings_are_shown_without_passwords(tmp_path: Path) -> None:
    """What file and environment come to is printed, for people and as JSON; no password is."""
    file = tmp_path / "flintmq.toml"
    file.write_text('[listen]\nport = 1\n[[users]]\nname = "u"\npassword = "s3cret"\n')
    ran = _run("config", "show", "--config", str(file))
    assert ran.returncode == 0
    assert "listen.port = 1\n" in ran.stdout
    assert 'users[0].password = "(hidden)"\n' in ran.stdout
    as_json = _run("config", "show", "--config", str(file), "--json")
    assert json.loads(as_json.stdout)["users"][0]["name"] == "u"
    assert "s3cret" not in ran.stdout + as_json.stdout
