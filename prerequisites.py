"""Says what this machine lacks before make begins: first what FlintMQ cannot be built without, then what is skipped.

    python3 prerequisites.py [test|demo|cluster]

Ends with status 1 if FlintMQ cannot be built, or a demo cannot run. Old versions of Python 3 run it, too.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile

PYTHON = (3, 11)
# What the names below are called by Debian.
PACKAGES = "make gcc libc6-dev python3-venv python3-dev"
JAVA_PACKAGE = "openjdk-17-jre-headless"
ETCD_PACKAGE = "etcd-server"


def missing_to_build() -> list[str]:
    """What FlintMQ cannot be compiled or installed without."""
    missing = []
    if sys.version_info < PYTHON:
        missing.append("Python 3.11 or newer: this is {}.{}".format(*sys.version_info[:2]))
    try:
        import ensurepip  # noqa: F401, PLC0415 - Debian ships Python without it
        import venv  # noqa: F401, PLC0415
    except ImportError:
        missing.append("python3-venv: virtual environments of Python")
    compiler = os.environ.get("CC", "cc")
    if shutil.which(compiler) is None:
        missing.append(f"gcc: a C compiler ({compiler} is not in the PATH)")
    elif not _compiles("#include <limits.h>", compiler):
        missing.append("libc6-dev: the headers of the C library")
    elif not _compiles("#include <Python.h>", compiler):
        missing.append("python3-dev: the C headers of Python (Python.h)")
    return missing


def skipped_tests() -> list[str]:
    """What the tests do not cover here, and how to change that."""
    skipped = []
    if not has_java():
        skipped.append(f"tests of Spark: Java is not installed (apt-get install {JAVA_PACKAGE})")
    if shutil.which("npm") is None:
        skipped.append("tests of Node.js clients: npm is not installed (apt-get install nodejs npm)")
    names = ("chromium", "chromium-browser", "google-chrome")
    if not any(map(shutil.which, names)) and not is_installable():
        skipped.append("tests of the web interface: Chromium is not installed (apt-get install chromium)")
    if lacks_etcd():
        skipped.append(f"tests of clusters: etcd is not installed (apt-get install {ETCD_PACKAGE})")
    return skipped


def is_installable() -> bool:
    """Whether make may install Debian's packages by itself."""
    return shutil.which("apt-get") is not None and os.geteuid() == 0


def lacks_etcd() -> bool:
    """Whether etcd is missing, and make cannot install it."""
    return shutil.which("etcd") is None and not is_installable()


def has_java() -> bool:
    """Whether Spark would find Java: where JAVA_HOME is set, there, and else in the PATH."""
    home = os.environ.get("JAVA_HOME")
    return shutil.which(os.path.join(home, "bin", "java") if home else "java") is not None


def main(what: str) -> int:
    missing = missing_to_build()
    packages = PACKAGES
    if what == "demo" and not has_java():
        missing.append(f"{JAVA_PACKAGE}: Java 17 or newer, for Spark")
        packages += f" {JAVA_PACKAGE}"
    if what == "cluster" and lacks_etcd():
        missing.append(f"{ETCD_PACKAGE}: etcd, which says who leads")
        packages += f" {ETCD_PACKAGE}"
    for each in missing:
        print(f"Missing: {each}", file=sys.stderr)
    if missing:
        print(f"On Debian and Ubuntu: apt-get install {packages}", file=sys.stderr)
        return 1
    for each in skipped_tests() if what == "test" else ():
        print(f"==> Skipped: {each}")
    return 0


def _compiles(line: str, compiler: str) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "probe.c")
        with open(source, "w") as file:
            file.write(line + "\n")
        command = [compiler, "-fsyntax-only", "-I", sysconfig.get_paths()["include"], source]
        return subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else ""))
