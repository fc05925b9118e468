"""Disks of brokers that stall or fail on request."""

import subprocess
from pathlib import Path


class StallingDisks:
    """The disks of nodes, by their names. Files in `directory` say which ones are broken. Needs a C compiler."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._library = directory / "stalling_disk.so"
        source = Path(__file__).with_suffix(".c")
        command = ["cc", "-shared", "-fPIC", "-o", str(self._library), str(source), "-ldl"]
        subprocess.run(command, check=True)  # noqa: S603 - the system's compiler

    def settings(self, node: str) -> dict[str, str]:
        """The variables of the node's process."""
        return {"LD_PRELOAD": str(self._library), "STALLING_DISK": str(self._file(node))}

    def stall(self, node: str) -> None:
        """Every sync waits from now on."""
        self._file(node).write_text("")

    def fail(self, node: str) -> None:
        """Every sync fails from now on."""
        self._file(node).write_text("fails")

    def mend(self, node: str) -> None:
        self._file(node).unlink(missing_ok=True)

    def _file(self, node: str) -> Path:
        return self._directory / f"{node}.broken"
