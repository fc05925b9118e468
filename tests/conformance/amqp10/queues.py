"""Queues for the tests of AMQP 1.0, made and looked at by AMQP 0-9-1."""

from types import TracebackType
from typing import Self

from flintmq.wire.amqp091.methods import (
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    ExchangeDelete,
    ExchangeDeleteOk,
    QueueDeclare,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
    QueueUnbind,
    QueueUnbindOk,
)
from tests.conformance.amqp091.peer import Peer, fresh
from tests.sockets import NO_PROPERTIES, Stream


class Queues:
    def __init__(self, to: int | Stream, vhost: str = "/") -> None:
        self._peer = Peer(to).start(vhost)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._peer.close()

    def new(self, name: str = "", /, **arguments: object) -> str:
        """A durable queue; x- before the names of arguments is ours to add."""
        named = {"x-" + key.replace("_", "-"): value for key, value in arguments.items()}
        name = name or fresh("conformance")
        return self._peer.queue(name, exclusive=False, durable=True, arguments=named)

    def transient(self) -> str:
        """A queue that is gone after a restart."""
        return self._peer.queue(fresh("transient"), exclusive=True, durable=False)

    def address(self, **arguments: object) -> str:
        """The address of a new queue; its name has no letter to be escaped."""
        return f"/queues/{self.new(**arguments)}"

    def exchange(self, type: str = "direct", name: str = "") -> str:
        return self._peer.exchange(type, name or fresh("exchange"), durable=True)

    def bind(self, queue: str, exchange: str, key: str = "") -> None:
        self._peer.bind(queue, exchange, key)

    def unbind(self, queue: str, exchange: str, key: str = "") -> None:
        self._peer.ask(QueueUnbind(queue=queue, exchange=exchange, routing_key=key), QueueUnbindOk)

    def count(self, address: str) -> int:
        """How many messages are ready."""
        return self._peer.count(address.removeprefix("/queues/"))

    def publish(self, address: str, body: bytes, properties: bytes = NO_PROPERTIES) -> None:
        """A message of the older protocol, and wait until it is there."""
        self._peer.publish(body, address.removeprefix("/queues/"), properties=properties)
        self._peer.sync()

    def exists(self, address: str) -> bool:
        """Whether there is such a queue."""
        self._peer.send_method(1, QueueDeclare(queue=address.removeprefix("/queues/"), passive=True))
        _, answer = self._peer.answer()
        if isinstance(answer, ChannelClose):
            assert answer.reply_code == 404, answer
            self._peer.send_method(1, ChannelCloseOk())
            self._peer.ask(ChannelOpen(), ChannelOpenOk)
            return False
        return True

    def purge(self, address: str) -> None:
        self._peer.ask(QueuePurge(queue=address.removeprefix("/queues/")), QueuePurgeOk)

    def delete(self, address: str) -> None:
        self._peer.ask(QueueDelete(queue=address.removeprefix("/queues/")), QueueDeleteOk)

    def delete_exchange(self, name: str) -> None:
        self._peer.ask(ExchangeDelete(exchange=name), ExchangeDeleteOk)
