"""A connection of a client: its login, its virtual host, its sessions, and its end."""

from typing import Final, final

from flintmq.base.errors import (
    AmqpError,
    AuthenticationFailed,
    ConnectionForced,
    FlintError,
    NotAllowed,
    ResourceError,
)
from flintmq.broker.vhost import VHost
from flintmq.broker.vhost_access import Access, enter
from flintmq.gateway.amqp10.confirms import Confirms
from flintmq.gateway.amqp10.ports import ClientConnection
from flintmq.gateway.amqp10.service import Service
from flintmq.gateway.amqp10.session import ServerSession
from flintmq.gateway.expiry import Expiry
from flintmq.gateway.login import OPEN, Applicant, Login, Security
from flintmq.protocol.amqp10.connection import Connection
from flintmq.protocol.amqp10.session import Session, SessionOwner
from flintmq.protocol.output import Output
from flintmq.protocol.role import Role
from flintmq.protocol.sasl import amqplain
from flintmq.wire.amqp10.performatives import Begin, Open

# Capabilities of a connection as RabbitMQ names them: management by a pair of links, and targets without an address.
_CAPABILITIES: Final = ["LINK_PAIR_V1_0", "ANONYMOUS-RELAY"]
_VHOST_PREFIX: Final = "vhost:"


@final
class ServerConnection(ClientConnection, Applicant):
    """The connection of a client. `closed` is why it ended."""

    def __init__(self, service: Service, output: Output, peer: str, security: Security = OPEN) -> None:
        super().__init__(service, peer)
        self.mechanism = ""
        self.access: Access | None = None
        self.is_closed = False
        self.closed: FlintError | None = None
        properties = service.properties
        opening = Open(
            container_id=properties.container_id,
            offered_capabilities=_CAPABILITIES,
            properties=properties.table,
        )
        self._login = Login(service.gateway, self, peer, security)
        # A token that came while an earlier one was being checked.
        self._next_token: bytes | None = None
        self._expiry = Expiry(self._login, service.gateway.tick.timers, self.fail)
        mechanisms = [name for name in self._login.mechanisms if name != amqplain.NAME]
        self.engine = Connection(
            Role.SERVER,
            self,
            output,
            properties.tuning,
            opening,
            mechanisms,
            node_reassembly=service.gateway.reassembly,
        )
        self.confirms = Confirms(service.gateway.durability, self.engine, self.fail, self._end_drains)
        self.sessions: dict[ServerSession, None] = {}

    # -- login --------------------------------------------------------------------------------------------------

    def on_sasl_init(self, mechanism: str, response: bytes | None, hostname: str | None) -> None:
        self.mechanism = mechanism
        self._login.begin(mechanism, response)

    def on_sasl_response(self, response: bytes) -> None:
        self._login.respond(response)

    def is_wanted(self) -> bool:
        return not self.is_closed

    def challenge(self, data: bytes) -> None:
        self.engine.sasl_challenge(data)

    def admit(self, user: str, last: bytes) -> None:
        self.user = user
        self.engine.sasl_accept(last or None)

    def turn_away(self, mechanism: str) -> None:
        self.engine.sasl_refuse(
            AuthenticationFailed(
                f"Login was refused using authentication mechanism {mechanism}. For details see the broker log."
            )
        )

    def renew(self, token: bytes) -> None:
        # After a login by password any new secret is accepted (RabbitMQ), because passwords do not expire.
        if self._login.bearer is None:
            return
        if self._login.is_renewing:
            # The token is checked next, unless a still newer one comes.
            self._next_token = token
        else:
            self._login.renew(token)

    def renewed(self, why: str) -> None:
        if why:
            self.fail(AuthenticationFailed("New secret was refused by one of the backends"))
            return
        self._expiry.wait()
        token, self._next_token = self._next_token, None
        if token is not None:
            self._login.renew(token)

    def on_open(self, opening: Open) -> None:
        hostname = opening.hostname or ""
        name = self.service.properties.default_vhost
        if hostname.startswith(_VHOST_PREFIX):
            name = hostname[len(_VHOST_PREFIX) :]
        vhosts = self.gateway.broker.vhosts
        vhost = vhosts.get(name)
        try:
            self._enter(name, vhost)
        except AmqpError as error:
            # The default virtual host decides on the dialect if the named one does not exist.
            decides = vhost or vhosts.get(self.service.properties.default_vhost)
            if decides is not None and decides.dialect.opens_to_refuse:
                raise
            self.engine.lost(error)
            return
        self.container = opening.container_id
        self.engine.accept_open()
        self._expiry.wait()

    def _enter(self, name: str, vhost: VHost | None) -> None:
        """Enter a virtual host. Raises AuthenticationFailed without access, ResourceError at a connection limit."""
        if vhost is None:
            raise AuthenticationFailed(f"AMQP 1.0 connection failed: virtual host '{name}' does not exist")
        user = self._login.account(name)
        if user is None or user.rights(name).permission is None:
            raise AuthenticationFailed(f"access to vhost '{name}' refused for user '{self.user}'")
        try:
            self.access = enter(user, vhost, self.disconnect)
        except NotAllowed as error:
            raise ResourceError(error.text) from None
        self.confirms.traffic = vhost.traffic
        self.engine.is_lenient = not vhost.dialect.checks_frames

    # -- sessions -----------------------------------------------------------------------------------------------

    def on_session(self, session: Session, begin: Begin) -> SessionOwner:
        access = self.access
        assert access is not None
        access.open_channel()
        made = ServerSession(self, session, access, self._session_ended)
        self.sessions[made] = None
        return made

    def _session_ended(self, session: ServerSession) -> None:
        if self.access is not None and session in self.sessions:
            del self.sessions[session]
            self.access.close_channel()

    def resume(self) -> None:
        """Continue sending: the socket has room again."""
        self.engine.resume()

    # -- the tick -----------------------------------------------------------------------------------------------

    def _end_drains(self) -> None:
        if self._draining:
            draining = self._draining
            self._draining = {}
            for link in draining:
                if not link.end_drain():
                    self._draining[link] = None
            if self._draining:
                self.confirms.touch()

    # -- alarms -------------------------------------------------------------------------------------------------

    def block(self) -> None:
        """An alarm is on: take credit back from publishers. Messages that are under way are still accepted."""
        if not self.is_closed:
            self._grant()

    def unblock(self) -> None:
        """All alarms are off: read publishes, and grant credit again."""
        if self.is_closed:
            return
        self.engine.take_publishes()
        self._grant()

    def _grant(self) -> None:
        for session in self.sessions:
            session.grant()
        self.engine.flush()

    # -- the end ------------------------------------------------------------------------------------------------

    def fail(self, error: AmqpError) -> None:
        if isinstance(error, ConnectionForced):
            # Clients of RabbitMQ reconnect if the description begins with these words.
            error = ConnectionForced(f"Connection forced: {error.text}")
        self.engine.close(error)

    def disconnect(self, reason: str) -> None:
        """Close the connection because its user or virtual host is gone; `reason` says which."""
        self.fail(ConnectionForced(reason))

    def on_closed(self, error: FlintError | None) -> None:
        self.is_closed = True
        self.closed = error
        self._expiry.cancel()
        self._draining = {}
        self.confirms.close()
        access = self.access
        if access is not None:
            access.vhost.termini.connection_closed(self)
            access.vhost.remove_queues_of(self)
            access.leave()
            self.gateway.targets.left(access)
