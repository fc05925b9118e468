"""amqplib for Node.js, in a process of its own that does what node/agent.mjs is told."""

# ruff: noqa: ANN401 - what the client gives and takes has no types to name

import json
import re
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

from tests.interop.peer import (
    WAIT_SECONDS,
    Arguments,
    Declared,
    Flag,
    Message,
    Peer,
    PeerChannel,
    Properties,
    Refused,
    Returned,
)

NODE_FOLDER: Final = Path(__file__).parent / "node"
_SPELLED: Final = {
    "content_type": "contentType",
    "content_encoding": "contentEncoding",
    "headers": "headers",
    "delivery_mode": "deliveryMode",
    "priority": "priority",
    "correlation_id": "correlationId",
    "reply_to": "replyTo",
    "expiration": "expiration",
    "message_id": "messageId",
    "timestamp": "timestamp",
    "type": "type",
    "user_id": "userId",
    "app_id": "appId",
}


def missing() -> str:
    """Why amqplib cannot be run here, or ""."""
    if shutil.which("node") is None:
        return "Node.js is not installed"
    if not (NODE_FOLDER / "node_modules" / "amqplib").is_dir():
        return "amqplib is not installed: npm ci --prefix tests/interop/node"
    return ""


class Agent:
    """The process: commands go in, answers come out, and events that came before an answer are known by then."""

    def __init__(self) -> None:
        node = shutil.which("node")
        assert node is not None
        self._process = subprocess.Popen(  # noqa: S603 - our own script
            [node, str(NODE_FOLDER / "agent.mjs")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
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
        """What the command returned; raises Refused, with code 0 for what amqplib itself refuses."""
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


class AmqplibChannel(PeerChannel):
    def __init__(self, peer: "AmqplibPeer", number: int, confirms: bool) -> None:
        super().__init__()
        self._peer = peer
        self._number = number
        self._refused: Refused | None = None
        peer.channels[number] = self
        peer.command("open", number, confirms)

    def on_event(self, event: dict[str, Any]) -> None:
        kind = event["event"]
        if kind == "delivery":
            self.deliveries.append(_message(event["message"]))
        elif kind == "cancel":
            self.cancelled.append(event["tag"])
        elif kind == "return":
            fields = event["message"]["fields"]
            self.returned.append(
                Returned(
                    fields["replyCode"],
                    fields["replyText"],
                    fields["exchange"],
                    fields["routingKey"],
                    event["message"]["content"],
                )
            )
        elif kind == "error":
            self._refused = Refused(event["code"], event["text"])

    def _command(self, name: str, *arguments: Any) -> Any:
        try:
            return self._peer.command(name, self._number, *arguments)
        except Refused as error:
            # amqplib says only that the channel is closed; why, its events said.
            why = self._refused or self._peer.refused
            if error.code == 0 and why is not None:
                raise why from None
            raise

    def call(self, method: str, *arguments: Any) -> Any:
        """A method of amqplib's channel, by its own name."""
        return self._command("call", method, *arguments)

    def declare_exchange(self, name: str, type: str = "direct", *, passive: bool = False, **flags: Flag) -> None:
        if passive:
            self.call("checkExchange", name)
        else:
            self.call("assertExchange", name, type, _options({"durable": False, **flags}))

    def delete_exchange(self, name: str, *, if_unused: bool = False) -> None:
        self.call("deleteExchange", name, {"ifUnused": if_unused})

    def declare_queue(self, name: str = "", **flags: Flag) -> Declared:
        if flags.pop("passive", False):
            ok = self.call("checkQueue", name)
        else:
            ok = self.call("assertQueue", name, _options({"durable": False, **flags}))
        return Declared(ok["queue"], ok["messageCount"], ok["consumerCount"])

    def delete_queue(self, name: str, *, if_unused: bool = False, if_empty: bool = False) -> int:
        return int(self.call("deleteQueue", name, {"ifUnused": if_unused, "ifEmpty": if_empty})["messageCount"])

    def purge(self, name: str) -> int:
        return int(self.call("purgeQueue", name)["messageCount"])

    def bind(self, queue: str, exchange: str, key: str = "", arguments: Arguments | None = None) -> None:
        self.call("bindQueue", queue, exchange, key, arguments or {})

    def unbind(self, queue: str, exchange: str, key: str = "", arguments: Arguments | None = None) -> None:
        self.call("unbindQueue", queue, exchange, key, arguments or {})

    def publish(
        self, exchange: str, key: str, body: bytes, properties: Properties | None = None, *, mandatory: bool = False
    ) -> None:
        options = {_SPELLED[name]: value for name, value in (properties or {}).items()}
        self._command("publish", exchange, key, body, {**options, "mandatory": mandatory})

    def publish_all(self, queue: str, bodies: list[bytes]) -> None:
        """Publish persistent messages together; returns once all are confirmed."""
        self._command("publishAll", queue, bodies, {"persistent": True})

    def get(self, queue: str, *, no_ack: bool = False) -> Message | None:
        message = self.call("get", queue, {"noAck": no_ack})
        return _message(message) if message else None

    def consume(self, queue: str, *, no_ack: bool = False, exclusive: bool = False) -> str:
        return str(self._command("consume", queue, {"noAck": no_ack, "exclusive": exclusive}))

    def cancel(self, consumer_tag: str) -> None:
        self.call("cancel", consumer_tag)

    def ack(self, tag: int, *, multiple: bool = False) -> None:
        self.call("ack", _tagged(tag), multiple)

    def nack(self, tag: int, *, multiple: bool = False, requeue: bool = True) -> None:
        self.call("nack", _tagged(tag), multiple, requeue)

    def reject(self, tag: int, *, requeue: bool) -> None:
        self.call("reject", _tagged(tag), requeue)

    def qos(self, count: int, *, whole_channel: bool = False) -> None:
        self.call("prefetch", count, whole_channel)

    def recover(self) -> None:
        self.call("recover")

    def close(self) -> None:
        self.call("close")

    def wait(self, seconds: float) -> None:
        self._peer.wait(seconds)


class AmqplibPeer(Peer):
    name = "amqplib"

    def __init__(self, url: str) -> None:
        self._agent = Agent()
        self.channels: dict[int, AmqplibChannel] = {}
        self.refused: Refused | None = None
        self._is_closed = False
        try:
            self.server_properties = self.command("connect", 0, url, {})
        except Refused as error:
            self._agent.end()
            # amqplib keeps the code of a refused login in its text only.
            found = re.search(r"terminated by server: (\d+)", error.text)
            raise Refused(int(found[1]) if found else error.code, error.text) from None

    def command(self, name: str, channel: int, *arguments: Any) -> Any:
        try:
            return self._agent.command(name, channel, *arguments)
        finally:
            self._hand_out()

    def wait(self, seconds: float) -> None:
        while self._agent.wait(seconds):
            seconds = 0
        self._hand_out()

    def _hand_out(self) -> None:
        while self._agent.events:
            event = self._agent.events.popleft()
            if event["channel"]:
                self.channels[event["channel"]].on_event(event)
            elif event["event"] == "close":
                self._is_closed = True
                if "code" in event:
                    self.refused = self.refused or Refused(event["code"], event["text"])
            else:
                self.refused = Refused(event["code"], event["text"])

    def channel(self, *, confirms: bool = False) -> AmqplibChannel:
        return AmqplibChannel(self, len(self.channels) + 1, confirms)

    def close(self) -> None:
        if not self._is_closed:
            self.command("close", 0)
            self._is_closed = True
        self._agent.end()


def _tagged(tag: int) -> dict[str, Any]:
    return {"fields": {"deliveryTag": tag}}


def _options(flags: dict[str, Any]) -> dict[str, Any]:
    if "auto_delete" in flags:
        flags["autoDelete"] = flags.pop("auto_delete")
    return flags


def _message(message: dict[str, Any]) -> Message:
    fields, given = message["fields"], message["properties"]
    properties = {ours: given[theirs] for ours, theirs in _SPELLED.items() if given.get(theirs) is not None}
    tag = fields["deliveryTag"]
    return Message(message["content"], properties, fields["exchange"], fields["routingKey"], fields["redelivered"], tag)


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
