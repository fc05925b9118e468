"""Pages of the documentation as their readers follow them: every block of code in its turn, against one broker."""

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

import flintmq
from flintmq.embedded import Broker

K = TypeVar("K")
V = TypeVar("V")

DOCS = Path(__file__).parents[1] / "docs"
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NAME = re.compile(r"# ([\w.-]+)\n")
_URL = re.compile(r"amqp://guest:guest@127\.0\.0\.1:5672/%2f")
_ANY_URL = re.compile(r"amqp://[^\"]*")
_PORT = re.compile(r"\b1?56\d\d\b")
# Printed after each block of a shell.
_END = "== end of block =="
_PATIENCE_SECONDS = 190
_WAIT = re.compile(r"\b((?:inactivity_)?timeout)=([\d.]+)")
# What readers see after a second may take longer where other tests run, and its end must not be taken for silence.
_SILENCE_SECONDS = 10
# Examples wait for most of their time. More of them would begin so slowly that a wait for silence ends too early.
_AT_ONCE: Final = 4


@dataclass(frozen=True)
class Block:
    """What a page shows in one place; `line` is where."""

    language: str
    text: str
    line: int


def blocks(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    for found in _BLOCK.finditer(text):
        yield Block(found[1], found[2], text.count("\n", 0, found.start()) + 1)


def patient(source: str) -> str:
    """The same for a machine that may stand still for a while: what ends by silence waits longer for it, and what is
    delayed comes long before that.
    """
    longer = _WAIT.sub(lambda found: f"{found[1]}={max(float(found[2]), _SILENCE_SECONDS):g}", source)
    return longer.replace('"x-delay": 1500', '"x-delay": 3000')


@contextmanager
def side_by_side(run: Callable[[K], V], names: Iterable[K]) -> Iterator[dict[K, Future[V]]]:
    """Some of these are run at a time; each has its outcome when it is there."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        yield {name: pool.submit(run, name) for name in names}
        pool.shutdown(cancel_futures=True)


def run_example(source: str) -> "subprocess.CompletedProcess[str]":
    """Run a script as a page shows it, but for its waits, with a broker of its own."""
    with Broker() as broker:
        source = patient(_ANY_URL.sub(broker.url, source))
        return subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=False)  # noqa: S603


def follow(page: Path, url: str, directory: Path) -> int:
    """Do all that a page says, in this directory, with the broker at `url`. Returns the number of blocks that ran.

    Python is run, as tests where it has some; `sh` is run line by line; a file whose first line is its name is saved;
    and `text` is what the block before it has printed.
    """
    ran = 0
    printed: str | None = None
    for block in blocks(page):
        place = f"{page.name}:{block.line}"
        source = patient(_URL.sub(url, block.text))
        name = _NAME.match(source)
        if name:
            (directory / name[1]).write_text(source, encoding="utf-8")
        if block.language == "python":
            printed = _run(_python(source, directory), url, directory, place)
            ran += 1
        elif block.language == "sh":
            for line in source.splitlines():
                printed = _run(_command(line), url, directory, place)
                ran += 1
        elif block.language == "text":
            assert printed is not None, f"{place}: nothing was run before"
            assert _lines(printed) == _lines(block.text), f"{place}: this is not what was printed"
        else:
            assert name, f"{place}: what is to be done with {block.language}? A file says its name in the first line"
    return ran


def follow_in_shell(page: Path, directory: Path, ports: Callable[[], int], **settings: str) -> int:
    """Do all that a page says in one shell, in this directory, and end what it leaves running. Returns the number of
    blocks.

    Each port of the page stands for one that `ports` gives. `settings` are variables of the shell.
    """
    given: dict[str, str] = {}

    def port(found: "re.Match[str]") -> str:
        return given.setdefault(found[0], str(ports()))

    program = directory / "bin" / "flintmq"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m flintmq.cli "$@"\n')
    program.chmod(0o755)
    environment = _environment()
    environment["PATH"] = f"{program.parent}:{environment['PATH']}"
    script = ["set -e"]
    wanted: list[tuple[str, str]] = []
    for block in blocks(page):
        place = f"{page.name}:{block.line}"
        if block.language == "sh":
            script += [_PORT.sub(port, block.text), f"echo {_END}"]
            wanted.append((place, ""))
        else:
            assert block.language == "text", f"{place}: a shell has nothing to do with {block.language}"
            assert wanted, f"{place}: nothing was run before"
            wanted[-1] = (place, block.text)
    (directory / "page.sh").write_text("\n".join(script), encoding="utf-8")
    shell = subprocess.Popen(
        ["bash", "page.sh"],  # noqa: S607 - wherever it is
        cwd=directory,
        env=environment | settings,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        printed, complaints = shell.communicate(timeout=_PATIENCE_SECONDS)
    finally:
        # The group outlives the shell if something runs in the background.
        with suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)
        shell.wait()
    assert shell.returncode == 0, f"{page.name}: {printed}{complaints}"
    for (place, text), found in zip(wanted, printed.split(f"{_END}\n")[:-1], strict=True):
        assert not text or _lines(found) == _lines(text), f"{place}: this is not what was printed: {found}"
    return len(wanted)


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines()]


def _python(source: str, directory: Path) -> list[str]:
    if re.search(r"^def test_", source, re.MULTILINE):
        (directory / "test_page.py").write_text(source, encoding="utf-8")
        return [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_page.py"]
    return [sys.executable, "-c", source]


def _command(line: str) -> list[str]:
    program, *arguments = shlex.split(line)
    assert program == "flintmq", f"a command of another program: {line}"
    return [sys.executable, "-m", "flintmq.cli", *arguments]


def _run(command: list[str], url: str, directory: Path, place: str) -> str:
    """What it prints. The plugin for pytest is there once, whether it was installed or not."""
    environment = _environment() | {
        "FLINTMQ_URL": url,
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTEST_PLUGINS": "flintmq.pytest_plugin",
    }
    result = subprocess.run(  # noqa: S603 - what our own pages say
        command, cwd=directory, env=environment, capture_output=True, text=True, check=False, timeout=_PATIENCE_SECONDS
    )
    assert result.returncode == 0, f"{place}: {result.stdout}{result.stderr}"
    return result.stdout


def _environment() -> dict[str, str]:
    """This process's environment without settings of a broker and of pytest, with the same FlintMQ."""
    rest = {name: value for name, value in os.environ.items() if not name.startswith(("FLINTMQ_", "PYTEST_"))}
    return rest | {"PYTHONPATH": str(Path(flintmq.__file__).parents[1])}
