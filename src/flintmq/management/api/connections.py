"""Connections, which can be closed; channels and sessions; consumers."""

from collections.abc import Callable
from typing import Any, Final

from starlette.responses import Response

from flintmq.base.errors import ConnectionForced
from flintmq.broker.queue.base import Consumer, Queue
from flintmq.broker.vhost import VHost
from flintmq.gateway.amqp091.channel import ServerChannel
from flintmq.gateway.amqp091.connection import ServerConnection
from flintmq.management.api.details import Details
from flintmq.management.errors import Missing, NotAuthorised
from flintmq.management.http.access import Right
from flintmq.management.http.call import Call, answer, no_content
from flintmq.management.http.listing import listed, picked
from flintmq.management.http.routes import Route
from flintmq.management.ports import Socket
from flintmq.management.slices import each, filtered, gathered
from flintmq.management.stats import counts
from flintmq.management.stats.connections import (
    AnyChannel,
    channels_of,
    connection_of,
    ends_of,
    name_of,
    number_of,
    sessions_of,
    user_of,
)
from flintmq.management.stats.counts import message_stats
from flintmq.management.values import table

_ADMINISTRATIVELY: Final = "Closed via management plugin"
_NOT_THEIRS: Final = "User not authorised to access object"


def _vhost_of(socket: Socket) -> str:
    access = connection_of(socket).access
    return "" if access is None else access.vhost.name


def _is_callers(call: Call, socket: Socket) -> bool:
    return call.caller.is_user(user_of(connection_of(socket)))


async def _visible(call: Call, is_wanted: Callable[[Socket], bool] | None = None) -> list[Socket]:
    """The connections that the caller may see: its own, or all with the tag monitoring; of these, the wanted ones."""
    sockets = list(call.node.sockets)
    if not call.caller.is_monitoring:
        sockets = await filtered(sockets, lambda socket: _is_callers(call, socket))
    return sockets if is_wanted is None else await filtered(sockets, is_wanted)


def facts(call: Call, socket: Socket) -> dict[str, object]:
    connection = connection_of(socket)
    received, sent = call.stats.sockets.rates(socket)
    shown: dict[str, object] = {
        "name": name_of(socket),
        **ends_of(socket),
        "type": "network",
        "node": call.node.name,
        "vhost": _vhost_of(socket),
        "user": connection.user,
        "user_who_performed_action": connection.user,
        "state": "blocked" if connection.engine.is_holding else "flow" if socket.is_slowed else "running",
        "ssl": socket.is_encrypted,
        "auth_mechanism": connection.mechanism,
        "connected_at": socket.connected_ms,
        "recv_oct": socket.received_bytes,
        "recv_oct_details": {"rate": received},
        "send_oct": socket.sent_bytes,
        "send_oct_details": {"rate": sent},
        "send_pend": socket.unsent_bytes(),
    }
    tuning = connection.engine.tuning
    shown["frame_max"] = tuning.frame_max
    shown["channel_max"] = tuning.channel_max
    if isinstance(connection, ServerConnection):
        properties = connection.client_properties
        shown |= {
            "protocol": "AMQP 0-9-1",
            "channels": len(channels_of(socket)),
            "timeout": connection.engine.tuning.heartbeat,
        }
    else:
        peer = connection.engine.peer
        properties = {} if peer is None or peer.properties is None else peer.properties
        shown |= {
            "protocol": "AMQP 1-0",
            "channels": len(connection.sessions),
            "container_id": connection.container,
        }
    shown["client_properties"] = table(properties)
    named = properties.get("connection_name")
    if isinstance(named, str):
        shown["user_provided_name"] = named
    return shown


def _channels(socket: Socket) -> list[AnyChannel]:
    return [*channels_of(socket), *sessions_of(socket)]


def channel_facts(call: Call, socket: Socket, channel: AnyChannel, details: Details) -> dict[str, object]:
    number = number_of(channel)
    shown: dict[str, object] = {
        "name": f"{name_of(socket)} ({number})",
        "number": number,
        "node": call.node.name,
        "vhost": channel.vhost.name,
        "user": connection_of(socket).user,
        "user_who_performed_action": connection_of(socket).user,
        "connection_details": details.connection_details(socket.connection),
        "state": "running",
        "reductions": 0,
    }
    rates = call.stats.channels.rates(channel)
    if isinstance(channel, ServerChannel):
        deliveries = channel.deliveries
        confirms = channel.confirms
        shown |= {
            "confirm": confirms.is_confirming,
            "transactional": channel.transaction is not None,
            "consumer_count": len(deliveries.consumers),
            "messages_unacknowledged": deliveries.unacked_count,
            "messages_unconfirmed": int(confirms.published - confirms.confirmed) if confirms.is_confirming else 0,
            "messages_uncommitted": 0 if channel.transaction is None else channel.transaction.publish_count,
            "acks_uncommitted": 0 if channel.transaction is None else channel.transaction.settlement_count,
            "prefetch_count": int(deliveries.consumer_window.messages_max),
            "global_prefetch_count": int(deliveries.window.messages_max),
            "message_stats": message_stats(counts.CHANNEL, counts.of_channel(channel), rates),
        }
    else:
        outflow = channel.outflow
        consumers = [link for link in channel.connection.senders.values() if link.link.session is channel.engine]
        shown |= {
            "confirm": True,
            "transactional": False,
            "consumer_count": len(consumers),
            "messages_unacknowledged": sum([int(link.link.unsettled) for link in consumers]),
            "messages_unconfirmed": 0,
            "messages_uncommitted": 0,
            "acks_uncommitted": 0,
            "prefetch_count": 0,
            "global_prefetch_count": 0,
            "links_in": len(channel.incoming),
            "message_stats": message_stats(counts.CHANNEL, counts.of_session(channel), rates),
            "delivered": int(outflow.delivered),
        }
    return shown


async def _listed(call: Call, sockets: list[Socket]) -> Response:
    return await listed(call, sockets, lambda socket: facts(call, socket), name_of)


async def _all(call: Call) -> Response:
    return await _listed(call, await _visible(call))


async def _of_vhost(call: Call) -> Response:
    return await _listed(call, await _in_vhost(call))


async def _in_vhost(call: Call) -> list[Socket]:
    name = call.vhost().name
    return await _visible(call, lambda socket: _vhost_of(socket) == name)


async def _of_user(call: Call) -> Response:
    return await _listed(call, await _user_has(call))


async def _user_has(call: Call) -> list[Socket]:
    name = call.path("user")
    return await _visible(call, lambda socket: connection_of(socket).user == name)


async def _the_one(call: Call) -> Socket:
    """The connection in the path. Raises Missing."""
    wanted = call.path("name")
    for socket in await _visible(call, lambda socket: name_of(socket) == wanted):
        return socket
    raise Missing


async def _one(call: Call) -> Response:
    return answer(picked(call, facts(call, await _the_one(call))))


def _may_close(call: Call, socket: Socket) -> bool:
    """Tell whether the caller may close a connection: its own, or any as administrator; monitoring is not enough."""
    return call.caller.is_administrator or _is_callers(call, socket)


def _end(call: Call, socket: Socket) -> None:
    # Time has passed since the connection was found, so the broker's clock is set again.
    call.node.now_ms()
    connection_of(socket).fail(ConnectionForced(call.request.headers.get("x-reason") or _ADMINISTRATIVELY))


async def _close(call: Call) -> Response:
    socket = await _the_one(call)
    if not _may_close(call, socket):
        raise NotAuthorised(_NOT_THEIRS)
    _end(call, socket)
    await call.node.durable()
    return no_content()


async def _close_of_user(call: Call) -> Response:
    def end(socket: Socket) -> None:
        _end(call, socket)
        call.audit(name_of(socket))

    if call.path("user") != call.caller.name and not call.caller.is_administrator:
        raise NotAuthorised(_NOT_THEIRS)
    await each(await filtered(await _user_has(call), lambda socket: _may_close(call, socket)), end)
    await call.node.durable()
    return no_content()


# -- channels -----------------------------------------------------------------------------------------------------


async def _list_channels(call: Call, sockets: list[Socket]) -> Response:
    details = Details(call)
    pairs = await gathered((socket, channel) for socket in sockets for channel in _channels(socket))

    def describe(pair: tuple[Socket, AnyChannel]) -> dict[str, object]:
        return channel_facts(call, pair[0], pair[1], details)

    def name(pair: tuple[Socket, AnyChannel]) -> str:
        return f"{name_of(pair[0])} ({number_of(pair[1])})"

    def order(pair: tuple[Socket, AnyChannel]) -> tuple[str, int]:
        return name_of(pair[0]), number_of(pair[1])

    return await listed(call, pairs, describe, name, order)


async def _all_channels(call: Call) -> Response:
    return await _list_channels(call, await _visible(call))


async def _channels_of_vhost(call: Call) -> Response:
    return await _list_channels(call, await _in_vhost(call))


async def _channels_of_connection(call: Call) -> Response:
    return await _list_channels(call, [await _the_one(call)])


async def _channel(call: Call) -> Response:
    wanted = call.path("name")
    details = Details(call)
    for socket in await _visible(call, lambda socket: wanted.startswith(name_of(socket))):
        for channel in _channels(socket):
            if f"{name_of(socket)} ({number_of(channel)})" == wanted:
                shown = channel_facts(call, socket, channel, details)
                if isinstance(channel, ServerChannel):
                    # Anybody who knows the name of a reply queue can publish to it, so these names are not shown.
                    hidden = channel.vhost.replies.values()
                    own = [each for each in channel.deliveries.consumers.values() if each.queue not in hidden]
                    shown["consumer_details"] = [details.consumer(consumer.queue, consumer) for consumer in own]
                shown["publishes"] = []
                shown["deliveries"] = []
                return answer(picked(call, shown))
    raise Missing


# -- consumers ----------------------------------------------------------------------------------------------------


async def _list_consumers(call: Call, vhosts: list[VHost]) -> Response:
    details = Details(call)
    queues: list[Queue] = []
    for vhost in vhosts:
        queues += vhost.queues.values()
    consumed = await filtered(queues, lambda queue: bool(queue.consumers))
    pairs = await gathered((queue, consumer) for queue in consumed for consumer in list(queue.consumers))
    if not call.caller.is_monitoring:
        # Users do not see other users' connections, and so not their consumers either.
        pairs = await filtered(pairs, lambda pair: call.caller.is_user(details.user(pair[1])))

    def describe(pair: tuple[Queue, Consumer]) -> dict[str, object]:
        return details.consumer(*pair)

    def name(pair: tuple[Queue, Consumer]) -> str:
        return pair[1].tag

    def order(pair: tuple[Queue, Consumer]) -> tuple[str, str, str]:
        return pair[0].vhost, pair[0].name, pair[1].tag

    return await listed(call, pairs, describe, name, order)


async def _all_consumers(call: Call) -> Response:
    return await _list_consumers(call, call.visible_vhosts())


async def _consumers_of_vhost(call: Call) -> Response:
    return await _list_consumers(call, [call.vhost()])


_READS: Final = Right.VHOST_VISIBLE
_MANY: Final = list[dict[str, Any]]
_ONE: Final = "/api/connections/{name}"
_USERS: Final = "/api/connections/username/{user}"
ROUTES: Final = (
    Route("GET", "/api/connections", _all, Right.USER, "Open connections that the caller may see.", _MANY),
    Route("GET", _ONE, _one, Right.USER, "A connection.", dict[str, Any]),
    Route(
        "DELETE",
        _ONE,
        _close,
        Right.USER,
        "Close one's own connection, or any as administrator; X-Reason is sent to the client.",
        action="connection.close",
    ),
    Route(
        "GET",
        f"{_ONE}/channels",
        _channels_of_connection,
        Right.USER,
        "The channels or sessions of a connection.",
        _MANY,
    ),
    Route("GET", _USERS, _of_user, Right.USER, "The connections of a user.", _MANY),
    Route("DELETE", _USERS, _close_of_user, Right.USER, "Close all connections of a user.", action="connection.close"),
    Route("GET", "/api/vhosts/{vhost}/connections", _of_vhost, _READS, "The connections of a virtual host.", _MANY),
    Route("GET", "/api/channels", _all_channels, Right.USER, "All channels that the caller may see.", _MANY),
    Route("GET", "/api/channels/{name}", _channel, Right.USER, "A channel, with its consumers.", dict[str, Any]),
    Route("GET", "/api/vhosts/{vhost}/channels", _channels_of_vhost, _READS, "The channels of a virtual host.", _MANY),
    Route("GET", "/api/consumers", _all_consumers, Right.USER, "All consumers that the caller may see.", _MANY),
    Route("GET", "/api/consumers/{vhost}", _consumers_of_vhost, _READS, "The consumers of a virtual host.", _MANY),
)
