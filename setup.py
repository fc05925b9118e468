"""Compiles the hot path with mypyc while the package is built; everything else is in pyproject.toml.

FLINTMQ_BUILD says what must come of it: `compiled` fails the build when compiling fails (releases, CI, `make`),
`interpreted` does not try, and `auto`, the default, falls back to the interpreted broker with a warning.
"""

import os
import sys
import warnings
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.build_ext import build_ext

# Every module of these packages is compiled, all into one group: calls between them are C calls.
COMPILED_PACKAGES = ("base", "wire", "protocol", "broker", "gateway")
# The part of the storage that runs once per message; the rest of it waits for the disk.
COMPILED_MODULES = ("storage/journal/encoder.py", "storage/journal/record.py", "storage/journal/recovery.py")

SOURCE = Path("src/flintmq")
MODES = ("auto", "compiled", "interpreted")
MODE = os.environ.get("FLINTMQ_BUILD", "auto")
if MODE not in MODES:
    sys.exit(f"FLINTMQ_BUILD={MODE}: expected one of {', '.join(MODES)}")


def compiled_sources() -> list[str]:
    """The files to compile. A package's own `__init__` holds at most a docstring and stays as it is."""
    found = [path for package in COMPILED_PACKAGES for path in (SOURCE / package).rglob("*.py")]
    found += [SOURCE / module for module in COMPILED_MODULES if (SOURCE / module).exists()]
    return sorted(str(path) for path in found if path.name != "__init__.py")


class Broker(Distribution):
    """Known to hold compiled modules before they are made, so that a wheel is tagged for its platform."""

    def has_ext_modules(self) -> bool:
        return MODE != "interpreted"


class CompileBroker(build_ext):
    """Runs mypyc only when extensions are really built: a front end asks for metadata several times before."""

    def run(self) -> None:
        try:
            self._compile()
        # mypyc ends with SystemExit, a missing compiler or header with errors of several libraries.
        except (Exception, SystemExit) as error:
            if MODE == "compiled":
                raise
            self._discard()
            warnings.warn(f"FlintMQ was not compiled and will run interpreted: {error}", stacklevel=1)

    def _compile(self) -> None:
        from mypyc.build import mypycify  # noqa: PLC0415 - an interpreted build must not need mypyc

        # Without our lint settings: whether a release compiles must not depend on them.
        self.distribution.ext_modules = mypycify(
            ["--config-file=", *compiled_sources()], opt_level="3", group_name="flintmq"
        )
        # One large C file, and one shim of a few lines per module: the shims are compiled beside it.
        self.parallel = os.cpu_count()
        self.finalize_options()
        super().run()

    def _discard(self) -> None:
        """Leave no part of the group behind: a shim without its group cannot be imported."""
        for output in self.get_outputs():
            Path(output).unlink(missing_ok=True)
        self.distribution.ext_modules = []
        self.extensions = []


setup(distclass=Broker, cmdclass={"build_ext": CompileBroker})
