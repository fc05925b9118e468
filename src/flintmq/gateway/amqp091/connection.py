"""A connection of a client: its login, its virtual host, its channels, and its end."""

from typing import Final, final

from mypy_extensions import i64

from flintmq.base.errors import (
    AmqpError,
    AuthenticationFailed,
    ConnectionForced,
    FlintError,
    LocalProtocolError,
    NotAllowed,
)
from flintmq.base.rotation import behind
from flintmq.broker.message import Table
from flintmq.broker.vhost_access import Access, enter
from flintmq.gateway.amqp091 import (
    basic_methods,
    exchange_methods,
    lease_methods,
    queue_methods,
    stage_methods,
    stream_methods,
    tx_methods,
)
from flintmq.gateway.amqp091.channel import MethodHandler, ServerChannel
from flintmq.gateway.amqp091.deliveries import Deliveries
from flintmq.gateway.amqp091.ports import ClientConnection
from flintmq.gateway.amqp091.service import Service
from flintmq.gateway.expiry import Expiry
from flintmq.gateway.login import OPEN, Applicant, Login, Security
from flintmq.protocol.amqp091.channel import Channel, ChannelOwner
from flintmq.protocol.amqp091.connection import Connection
from flintmq.protocol.output import Output
from flintmq.protocol.role import Role

# The handlers of methods by number; a legal method without a handler is answered with 540 not-implemented.
_HANDLERS: Final[dict[int, MethodHandler]] = {
    **basic_methods.METHODS.by_method,
    **exchange_methods.METHODS.by_method,
    **lease_methods.METHODS.by_method,
    **queue_methods.METHODS.by_method,
    **stage_methods.METHODS.by_method,
    **stream_methods.METHODS.by_method,
    **tx_methods.METHODS.by_method,
}
# A client that needs the specification's meaning of basic.qos: workers of Celery raise the limit of their existing
# consumers for each task that is not due yet, and would otherwise get no more tasks.
_LIMITS_CHANNEL: Final = "py-amqp"


@final
class ServerConnection(ClientConnection, Applicant):
    """The connection of a client. `peer` names the other side in logs and errors; `closed` is why it ended."""

    def __init__(self, service: Service, output: Output, peer: str, security: Security = OPEN) -> None:
        gateway = service.gateway
        super().__init__(peer, gateway.next_number())
        self.mechanism = ""
        self.access: Access | None = None
        self.is_closed = False
        self.closed: FlintError | None = None
        self._login = Login(gateway, self, peer, security)
        self._expiry = Expiry(self._login, gateway.tick.timers, self.fail)
        self.engine = Connection(
            Role.SERVER,
            self,
            output,
            service.properties.tuning,
            service.properties.table,
            " ".join(self._login.mechanisms),
            node_reassembly=gateway.reassembly,
        )
        # If an alarm is on already, publishes are held from the beginning.
        self.engine.holds_publishes = gateway.alarm != ""
        self._gateway = gateway
        self._service = service
        self._output = output
        # The last channel opened with each number.
        self.channels: dict[int, ServerChannel] = {}
        self._notify_cancel = False
        # Whether the client understands connection.blocked, and whether it was told.
        self._notify_blocked = False
        self._is_blocked = False
        # Whether the last challenge, which proves the server to the client, was sent and is not answered yet.
        self._last_challenge_is_out = False

    @property
    def client_properties(self) -> Table:
        """The client properties. They are empty before the login, because they take ten times their bytes decoded."""
        return self.engine.peer_properties

    # -- login --------------------------------------------------------------------------------------------------

    def on_login(self, mechanism: str, response: bytes, client_properties: Table) -> None:
        self.mechanism = mechanism
        capabilities = client_properties.get("capabilities")
        if isinstance(capabilities, dict):
            self._notify_cancel = capabilities.get("consumer_cancel_notify") is True
            self._notify_blocked = capabilities.get("connection.blocked") is True
        self.limits_channel = client_properties.get("product") == _LIMITS_CHANNEL
        self._login.begin(mechanism, response)

    def on_response(self, response: bytes) -> None:
        if self._last_challenge_is_out:
            self.engine.accept_login()
        else:
            self._login.respond(response)

    def is_wanted(self) -> bool:
        return not self.is_closed

    def challenge(self, data: bytes) -> None:
        self.engine.challenge(data)

    def admit(self, user: str, last: bytes) -> None:
        self.user = user
        if last:
            # The outcome has no room for this data, so it is sent as a further challenge (as in RFC 4422 §3.6).
            self._last_challenge_is_out = True
            self.engine.challenge(last)
        else:
            self.engine.accept_login()

    def turn_away(self, mechanism: str) -> None:
        self.engine.refuse_login(
            AuthenticationFailed(
                f"Login was refused using authentication mechanism {mechanism}. For details see the broker log."
            )
        )

    def on_secret(self, secret: bytes) -> None:
        """Check a newer token. After a login by password any new secret is accepted (RabbitMQ): none expires."""
        if self._login.bearer is None:
            self.engine.accept_secret()
        else:
            self._login.renew(secret)

    def renewed(self, why: str) -> None:
        if why:
            self.fail(NotAllowed("New secret was refused by one of the backends"))
        else:
            self._expiry.wait()
            self.engine.accept_secret()

    def on_open(self, virtual_host: str) -> None:
        broker = self._gateway.broker
        vhost = broker.vhosts.get(virtual_host)
        if vhost is None:
            raise NotAllowed(f"vhost {virtual_host} not found")
        user = self._login.account(virtual_host)
        if user is None:
            raise NotAllowed(f"access to vhost '{virtual_host}' refused for user '{self.user}'")
        self.access = enter(user, vhost, self.disconnect)
        self.engine.accept_open(takes_overhang=not vhost.dialect.frame_max_is_whole)
        self._expiry.wait()

    def on_blocked(self, reason: str | None) -> None:
        raise LocalProtocolError("a server is not told to block")

    # -- channels -----------------------------------------------------------------------------------------------

    def on_channel(self, channel: Channel) -> ChannelOwner:
        access = self.access
        assert access is not None
        access.open_channel()
        made = ServerChannel(channel, self._output, self._service, access, self, self._notify_cancel, _HANDLERS)
        self.channels[int(channel.number)] = made
        return made

    def measure(self) -> None:
        """Have consumers check whether a limit of bytes applies to them, because one was set or lifted."""
        for channel in self.channels.values():
            for consumer in channel.deliveries.consumers.values():
                consumer.measure()

    def resume(self) -> None:
        """Let the consumers of all channels go on, in turn: the socket, or a window, has room again."""
        last = self.last if isinstance(self.last, Deliveries) else None
        for deliveries in behind([channel.deliveries for channel in self.channels.values()], last):
            deliveries.resume()

    # -- alarms -------------------------------------------------------------------------------------------------

    def block(self) -> None:
        """An alarm is on: hold the next publish. Clients that do not understand connection.blocked are told to stop."""
        if self.is_closed:
            return
        self.engine.holds_publishes = True
        if not self._notify_blocked:
            for channel in self.channels.values():
                if channel.has_published:
                    channel.stop_flow()

    def on_publish_held(self, channel: i64) -> None:
        if not self._notify_blocked:
            self.channels[channel].stop_flow()
        elif not self._is_blocked:
            self._is_blocked = True
            self.engine.blocked(self._gateway.alarm)

    def unblock(self) -> None:
        """All alarms are off: read publishes again, and tell the client."""
        if self.is_closed:
            return
        self.engine.take_publishes()
        for channel in self.channels.values():
            channel.resume_flow()
        if self._is_blocked:
            self._is_blocked = False
            self.engine.blocked(None)

    # -- the end ------------------------------------------------------------------------------------------------

    def fail(self, error: AmqpError) -> None:
        """Close the connection with an error that the client did not cause."""
        self.engine.close(error.code, error.reply_text, error)

    def disconnect(self, reason: str) -> None:
        """Close the connection because its user or virtual host is gone; `reason` says which."""
        self.fail(ConnectionForced(reason))

    def on_closed(self, error: FlintError | None) -> None:
        self.is_closed = True
        self.closed = error
        self._expiry.cancel()
        access = self.access
        if access is not None:
            access.vhost.remove_queues_of(self)
            access.leave()
            self._gateway.targets.left(access)
