"""What a machine gets beside the code: a unit for systemd and a Dockerfile, whose words have to be ours."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from flintmq.cli.main import app
from flintmq.server import config

ROOT = Path(__file__).parents[3]
UNIT = ROOT / "deploy" / "flintmq.service"
DOCKERFILE = ROOT / "Dockerfile"


def check_call(words: list[str]) -> None:
    """Whether the command line is one that `flintmq` takes."""
    root: Any = get_command(app)
    command = root.commands[words[0]]
    known = {option for parameter in command.params for option in parameter.opts}
    assert {word for word in words[1:] if word.startswith("--")} <= known


def test_the_unit_calls_the_broker_as_it_is_called() -> None:
    """The command and its flags exist; SIGHUP is what reloads, and a wrong setting is not tried again."""
    unit = UNIT.read_text()
    (start,) = re.findall(r"^ExecStart=(.*)$", unit, re.MULTILINE)
    program, *words = shlex.split(start)
    assert Path(program).name == "flintmq"
    check_call(words)
    assert "ExecReload=/bin/kill -HUP $MAINPID" in unit
    assert "RestartPreventExitStatus=2" in unit


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not here to ask")
def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    """systemd's own check finds nothing, once the program is where the unit has it."""
    unit = tmp_path / "flintmq.service"
    unit.write_text(UNIT.read_text().replace("/opt/flintmq/bin/flintmq", sys.executable))
    command = ["systemd-analyze", "verify", "--man=no", str(unit)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - a unit of ours
    assert "flintmq.service" not in ran.stderr, ran.stderr


def test_the_image_is_set_up_by_settings_that_there_are() -> None:
    """Each variable is a setting; what the image runs and how its health is asked are commands; nobody is root."""
    text = DOCKERFILE.read_text()
    variables = dict(re.findall(r"(FLINTMQ_(?!BUILD|CONFIG)\w+)=(\S+)", text))
    settings = config.load(None, variables, {})
    assert settings.storage.directory == Path("/var/lib/flintmq")
    assert settings.listen.host == settings.management.host == "0.0.0.0"
    check_call(["serve"])
    (health,) = re.findall(r'HEALTHCHECK.*CMD \["flintmq", (.*)\]', text)
    check_call([word.strip('"') for word in health.split(", ")])
    assert text.rindex("USER flintmq") > text.rindex("FROM ")
    assert "VOLUME /var/lib/flintmq" in text
