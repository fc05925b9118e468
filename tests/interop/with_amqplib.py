"""amqplib for Node.js."""

# ruff: noqa: ANN401 - what the client gives and takes has no types to name

import re
from typing import Any, Final

from tests.interop.node_agent import Agent
from tests.interop.peer import (
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
