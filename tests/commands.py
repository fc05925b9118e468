"""Commands of `flintmq`: in a process of their own, as users run them, or in this one, which takes a tenth of the time.

What a process adds, such as its exit code and what it prints of an error, tests/unit/cli and a few others show.
"""

import io
import os
import shlex
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from typing import Any
from unittest.mock import patch

from typer.main import get_command

from flintmq.cli.main import app, main
from tests.servers import command, environment


def run_process(*arguments: str, text: str = "", **settings: str) -> "subprocess.CompletedProcess[str]":
    """Run a command as a process; `settings` are variables, FLINTMQ_... and all."""
    return subprocess.run(  # noqa: S603 - our own command
        command(*arguments), env=environment(**settings), input=text, capture_output=True, text=True, check=False
    )


def run_here(*arguments: str, text: str = "", **settings: str) -> "subprocess.CompletedProcess[str]":
    """The same in this process, for commands that start no threads which outlive them."""
    words = ["flintmq", *arguments]
    given = io.TextIOWrapper(io.BytesIO(text.encode()), encoding="utf-8")
    printed, complained = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    with (
        patch.dict(os.environ, environment(**settings), clear=True),
        patch.object(sys, "argv", words),
        patch.object(sys, "stdin", given),
        redirect_stdout(printed),
        redirect_stderr(complained),
    ):
        try:
            main()
            code = 0
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    return subprocess.CompletedProcess(words, code, _text(printed), _text(complained))


def check_line(line: str) -> None:
    """Raises if a command line, which begins with `flintmq`, has words, flags or arguments that it does not take."""
    words = shlex.split(line)[1:]
    found: Any = get_command(app)
    while words and hasattr(found, "commands") and not words[0].startswith("-"):
        found = found.commands[words.pop(0)]
    if words and words[0] not in ("--help", "--version", "--install-completion"):
        found.make_context(found.name, words)


def _text(stream: io.TextIOWrapper) -> str:
    stream.seek(0)
    return stream.read()
