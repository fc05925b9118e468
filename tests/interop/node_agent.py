"""A process of Node.js, for amqplib or rhea: it does what its script is told, one JSON line at a time."""

# ruff: noqa: ANN401 - what these clients give and take has no types to name
import json
import shutil
import subprocess
from base64 import b64decode, b64encode
from collections import deque
from datetime import UTC, datetime
from decimal import Decimal
from itertools import count
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import Any, Final

from tests.interop.peer import WAIT_SECONDS, Refused

NODE_FOLDER: Final = Path(__file__).parent / "node"


def missing(client: str = "amqplib") -> str:
    """Why this client cannot be run here, or ""."""
    if shutil.which("node") is None:
        return "Node.js is not installed"
    if not (NODE_FOLDER / "node_modules" / client).is_dir():
        return f"{client} is not installed: npm ci --prefix tests/interop/node"
    return ""


class Agent:
    """The process: commands go in, answers come out, and events that came before an answer are known by then."""

    def __init__(self, script: str = "agent.mjs") -> None:
        node = shutil.which("node")
        assert node is not None
        self._process = subprocess.Popen(  # noqa: S603 - our own scripts
            [node, str(NODE_FOLDER / script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._ids = count()
        self._lines: Queue[dict[str, Any] | None] = Queue()
        self.events: deque[dict[str, Any]] = deque()
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self._lines.put(json.loads(line))
        self._lines.put(None)

    def command(self, name: str, channel: int, *arguments: Any) -> Any:
        """What the command returned; raises Refused, with code 0 where the client gives none."""
        id = next(self._ids)
        assert self._process.stdin is not None
        self._process.stdin.write(
            json.dumps({"id": id, "command": name, "channel": channel, "args": _packed(list(arguments))}) + "\n"
        )
        self._process.stdin.flush()
        while True:
            line = self._lines.get(timeout=WAIT_SECONDS)
            assert line is not None, "node ended"
            if "event" in line:
                self.events.append(_unpacked(line))
            elif line["id"] == id:
                if "failed" in line:
                    raise Refused(line["code"], line["text"])
                return _unpacked(line["value"])

    def wait(self, seconds: float) -> bool:
        """Wait for an event; whether one came."""
        try:
            line = self._lines.get(timeout=seconds) if seconds else self._lines.get_nowait()
        except Empty:
            return False
        assert line is not None, "node ended"
        self.events.append(_unpacked(line))
        return True

    def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(WAIT_SECONDS)
        self._reader.join(WAIT_SECONDS)


def _packed(value: Any) -> Any:
    """As JSON can carry it, in amqplib's own notation for what JavaScript has no type for."""
    if isinstance(value, bytes):
        return {"$bytes": b64encode(value).decode()}
    if isinstance(value, datetime):
        return {"!": "timestamp", "value": int(value.timestamp())}
    if isinstance(value, Decimal):
        places = -int(value.as_tuple().exponent)
        return {"!": "decimal", "value": {"places": places, "digits": int(value.scaleb(places))}}
    if isinstance(value, dict):
        return {key: _packed(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_packed(item) for item in value]
    return value


def _unpacked(value: Any) -> Any:
    if isinstance(value, list):
        return [_unpacked(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "$bytes" in value:
        return b64decode(value["$bytes"])
    if value.get("!") == "timestamp":
        return datetime.fromtimestamp(value["value"], UTC)
    if value.get("!") == "decimal":
        return Decimal(value["value"]["digits"]).scaleb(-value["value"]["places"])
    return {key: _unpacked(item) for key, item in value.items()}
