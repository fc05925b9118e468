"""Run other projects' own tests against FlintMQ: `python -m tests.interop.suites amqp kombu`."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from tests.interop.suites.docker import Docker
from tests.interop.suites.place import Place, prepare
from tests.interop.suites.plugins.deselection import ONLY, PATTERNS
from tests.interop.suites.suite import Suite, read_suites
from tests.servers import BrokerProcess

# Some of their tests wait half a minute for what must not happen.
_TEST_SECONDS: Final = 120
# Where tests that take no address look for a broker.
_CHECKOUT_PORT: Final = 5672


def main() -> int:
    suites = read_suites()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*suites, []], metavar="SUITE", help=", ".join(suites))
    parser.add_argument("--checkout", type=Path, help="take the tests from this checkout of the project")
    parser.add_argument("--only-deselected", action="store_true", help="run what is deselected instead: may it return?")
    parser.add_argument("--pytest", default="", help="further arguments for pytest, in one string")
    options = parser.parse_args()
    failed = []
    for name in options.names or [name for name, suite in suites.items() if not suite.checkout]:
        suite = suites[name]
        if suite.checkout and options.checkout is None:
            parser.error(f"{name} publishes its tests in its repository only: say --checkout DIR")
        place = prepare(name, suite, options.checkout)
        print(f"==> {name} {suite.version}", flush=True)
        if not run(suite, place, options.pytest.split(), only_deselected=options.only_deselected):
            failed.append(name)
    if failed:
        print(f"failed: {', '.join(failed)}")
    return bool(failed)


def run(suite: Suite, place: Place, arguments: list[str], *, only_deselected: bool) -> bool:
    """Whether the tests passed, and the brokers did, too: they end in order, and meet no error of their own."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="flintmq-interop-")))
        patterns = folder / "deselected.json"
        patterns.write_text(json.dumps(list(suite.patterns())))
        variables = {PATTERNS: str(patterns), "PYTHONPATH": str(Path(__file__).with_name("plugins"))}
        if only_deselected:
            variables[ONLY] = "1"
        if suite.docker:
            docker = stack.enter_context(Docker(folder, suite.settings))
            brokers = docker.brokers
            variables |= docker.variables
        else:
            port = _CHECKOUT_PORT if suite.checkout else 0
            broker = BrokerProcess(folder / "data", wrapper=(), FLINTMQ_LISTEN_PORT=str(port), **suite.settings)
            stack.callback(broker.close)
            broker.start()
            brokers = [broker]
            variables |= {name: text.format(port=broker.port, url=broker.url) for name, text in suite.variables.items()}
        command = [str(place.python), "-m", "pytest", "-p", "no:cacheprovider", "-o", "log_cli=false"]
        command += [f"-p{plugin}" for plugin in ["deselection", *suite.plugins]]
        command += ["-q", "--disable-warnings", f"--timeout={_TEST_SECONDS}", *arguments]
        # Someone who names tests wants these instead of all.
        command += [] if any(argument.startswith(tuple(suite.tests)) for argument in arguments) else suite.tests
        passed = subprocess.run(  # noqa: S603 - our own command
            command, cwd=place.sources, env=os.environ | variables, check=False
        )
        # A list of what is wrong for every broker, before the next one is asked: all of them are to end.
        faults = [fault for broker in brokers for fault in _faults(broker)]
        for fault in faults:
            print(f"the broker: {fault}")
        return passed.returncode == 0 and not faults


def _faults(broker: BrokerProcess) -> list[str]:
    faults = [str(line) for line in broker.faults]
    if broker.is_running and broker.stop() != 0:
        faults.append("it did not end in order")
    return faults


if __name__ == "__main__":
    sys.exit(main())
