"""Facts about open connections of either protocol, and about their channels and sessions."""

from flintmq.broker.access.user import User
from flintmq.gateway.amqp091.channel import ServerChannel
from flintmq.gateway.amqp091.connection import ServerConnection
from flintmq.gateway.amqp10.connection import ServerConnection as ServerConnection10
from flintmq.gateway.amqp10.session import ServerSession
from flintmq.management.ports import Socket

AnyConnection = ServerConnection | ServerConnection10
AnyChannel = ServerChannel | ServerSession


def name_of(socket: Socket) -> str:
    """The name of a connection, as RabbitMQ forms it."""
    return f"{socket.name} -> {socket.local}"


def connection_of(socket: Socket) -> AnyConnection:
    connection = socket.connection
    assert isinstance(connection, (ServerConnection, ServerConnection10))
    return connection


def user_of(connection: AnyConnection) -> User | None:
    """The user of a connection; None before it has opened a virtual host."""
    return None if connection.access is None else connection.access.user


def channels_of(socket: Socket) -> list[ServerChannel]:
    connection = socket.connection
    if not isinstance(connection, ServerConnection):
        return []
    return [channel for channel in connection.channels.values() if channel.is_open]


def sessions_of(socket: Socket) -> list[ServerSession]:
    connection = socket.connection
    return list(connection.sessions) if isinstance(connection, ServerConnection10) else []


def number_of(channel: AnyChannel) -> int:
    return channel.number if isinstance(channel, ServerChannel) else int(channel.engine.number)


def ends_of(socket: Socket) -> dict[str, object]:
    """RabbitMQ's fields for the two ends of a connection."""
    host, port = _split(socket.local)
    peer_host, peer_port = _split(socket.name)
    return {"host": host, "port": port, "peer_host": peer_host, "peer_port": peer_port}


def _split(end: str) -> tuple[str, int]:
    host, _, port = end.rpartition(":")
    return host.strip("[]"), int(port) if port.isdigit() else 0
