"""Compiles the hot path with mypyc while the package is built; everything else is in pyproject.toml.

FLINTMQ_BUILD says what must come of it: `compiled` fails the build when compiling fails (releases, CI, `make`),
`interpreted` does not try, and `auto`, the default, falls back to the interpreted broker with a warning.
"""

import os
import sys
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import cast

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

# Every module of these packages is compiled, all into one group: calls between them are C calls.
COMPILED_PACKAGES = ("base", "wire", "protocol", "broker", "gateway")
# The modules of the client, the server and the storage that run once per message, per read, per tick or per sync. The
# rest of these packages waits for the network and the disk, or is a thread's long work: compiled code gives the
# interpreter lock to no other thread.
COMPILED_MODULES = (
    "client/amqp10/connection.py",
    "client/amqp10/coordinator.py",
    "client/amqp10/errors.py",
    "client/amqp10/message.py",
    "client/amqp10/receiver.py",
    "client/amqp10/sender.py",
    "client/channel.py",
    "client/confirms.py",
    "client/delivery.py",
    "client/errors.py",
    "client/publish.py",
    "client/session.py",
    "client/tags.py",
    "client/waitable.py",
    "server/back_pressure.py",
    "server/connections.py",
    "server/credit.py",
    "server/durability.py",
    "server/intake.py",
    "server/peer.py",
    "server/reassembly.py",
    "server/relay/client.py",
    "server/relay/frames.py",
    "server/relay/link.py",
    "server/relay/transport.py",
    "server/schedule.py",
    "server/send_timeout.py",
    "server/tick.py",
    "storage/block.py",
    "storage/content.py",
    "storage/definitions/store.py",
    "storage/ephemeral.py",
    "storage/files.py",
    "storage/gathering.py",
    "storage/group_commit.py",
    "storage/inspection/live_messages.py",
    "storage/inspection/ranges.py",
    "storage/inspection/records.py",
    "storage/journal/bits.py",
    "storage/journal/checkpoint.py",
    "storage/journal/compaction.py",
    "storage/journal/encoder.py",
    "storage/journal/files.py",
    "storage/journal/merge.py",
    "storage/journal/occupancy.py",
    "storage/journal/records.py",
    "storage/journal/recovery.py",
    "storage/journal/source.py",
    "storage/node.py",
    "storage/stream/cursor.py",
    "storage/pages/packer.py",
    "storage/pages/store.py",
    "storage/replication/disk.py",
    "storage/replication/log.py",
    "storage/replication/operation.py",
    "storage/replication/replica.py",
    "storage/segment.py",
    "storage/stream/encoder.py",
    "storage/stream/log.py",
)

SOURCE = Path("src/flintmq")
MODES = ("auto", "compiled", "interpreted")
MODE = os.environ.get("FLINTMQ_BUILD", "auto")
# A front end runs this file several times for metadata only; mypyc's half minute is spent where something is built.
BUILDS = {"build", "build_ext", "bdist_wheel", "editable_wheel", "install", "develop"}


def compiled_sources() -> list[str]:
    """The files to compile. A package's own `__init__` holds at most a docstring and stays as it is."""
    found = [path for package in COMPILED_PACKAGES for path in (SOURCE / package).rglob("*.py")]
    found += [SOURCE / module for module in COMPILED_MODULES]
    return sorted(str(path) for path in found if path.name != "__init__.py")


def extensions() -> list[Extension]:
    """The compiled group, as C that mypyc wrote; empty where FlintMQ is to run interpreted."""
    if MODE == "interpreted" or BUILDS.isdisjoint(sys.argv):
        return []
    try:
        from mypyc.build import mypycify  # noqa: PLC0415 - an interpreted build must not need mypyc

        # Without our lint settings: whether a release compiles must not depend on them. Level 3 is no faster at what
        # it makes, and line numbers for C debuggers double the time of the compiler: Python's are there either way.
        # All in one C file took twice as long to compile, on one processor only.
        group = mypycify(
            ["--config-file=", "--ignore-missing-imports", *compiled_sources()],
            opt_level="2",
            debug_level="0",
            multi_file=True,
            group_name="flintmq",
        )
    except (Exception, SystemExit) as error:  # noqa: BLE001 - mypyc ends with SystemExit, or whatever broke it
        fall_back(error)
        return []
    # With setuptools loaded, mypyc makes its kind of extensions and not those of distutils.
    compiled = cast("list[Extension]", group)
    for extension in compiled:
        # What a newer compiler warns of in generated C is no reason to go without it.
        extension.extra_compile_args = [flag for flag in extension.extra_compile_args if flag != "-Werror"]
        if os.name == "posix":
            # Nobody replaces our functions at load time: so they can be inlined, and called without a detour.
            extension.extra_compile_args += ["-fvisibility=hidden", "-fno-semantic-interposition"]
    return compiled


def fall_back(error: BaseException) -> None:
    """Go on without a compiled broker where that is allowed; called while `error` is handled."""
    if MODE == "compiled":
        raise error
    reason = "mypyc refused a file, see above" if isinstance(error, SystemExit) else error
    warnings.warn(f"FlintMQ was not compiled and will run interpreted: {reason}", stacklevel=2)


def side_by_side(compile_files: Callable[..., list[str]]) -> Callable[..., list[str]]:
    """The same, with as many C compilers at a time as there are processors."""

    def compile_all(sources: list[str], **options: object) -> list[str]:
        with ThreadPoolExecutor(os.cpu_count()) as compilers:
            made = compilers.map(lambda source: compile_files([source], **options), sources)
            return [output for outputs in made for output in outputs]

    return compile_all


class CompileBroker(build_ext):
    def build_extensions(self) -> None:
        # A C file for each module, and a shim of a few lines, which is an extension of its own.
        compiler = self.compiler
        compiler.compile = side_by_side(compiler.compile)
        if "gcc" in Path(getattr(compiler, "compiler_so", [""])[0]).name:
            # What is small is inlined across files as it is within one: worth a tenth. By all processors, too.
            for extension in self.extensions:
                extension.extra_compile_args += ["-flto"]
                extension.extra_link_args += ["-flto=auto", "-O2"]
        super().build_extensions()

    def run(self) -> None:
        self.parallel = os.cpu_count()
        try:
            super().run()
        except Exception as error:  # noqa: BLE001 - a missing compiler and missing headers have many types
            fall_back(error)
            # No part of the group may stay: a shim without the group cannot be imported.
            for output in self.get_outputs():
                Path(output).unlink(missing_ok=True)
            self.extensions = []


if MODE not in MODES:
    sys.exit(f"FLINTMQ_BUILD={MODE}: expected one of {', '.join(MODES)}")
setup(ext_modules=extensions(), cmdclass={"build_ext": CompileBroker})
