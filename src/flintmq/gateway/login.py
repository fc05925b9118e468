"""Logins, whatever protocol they come by: a SASL conversation that ends with a user's name, or with a refusal."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Final, final

from mypy_extensions import trait

from flintmq.base.errors import AuthenticationFailed
from flintmq.gateway.gateway import Gateway
from flintmq.protocol.sasl import amqplain, anonymous, external, plain, scram

# All there are. Those that cannot be, for want of a certificate or a user, are not offered.
MECHANISMS: Final = (plain.NAME, amqplain.NAME, external.NAME, anonymous.NAME, *scram.NAMES)
# Responses that a stranger may need for a login; SCRAM takes two, and some clients begin with none.
_RESPONSES_MAX: Final = 4
_NONCE_BYTES: Final = 18


@dataclass(frozen=True)
class Security:
    """What is known of a client by what is below its protocol. `identity` is what its certificate says it is."""

    is_encrypted: bool = False
    identity: str = ""


OPEN: Final = Security()


@trait
class Applicant(ABC):
    """A connection whose client wants to log in."""

    @abstractmethod
    def challenge(self, data: bytes) -> None:
        """Ask the client for one more response."""

    @abstractmethod
    def admit(self, user: str, last: bytes) -> None:
        """The client is this user; `last` proves us to it, where the mechanism does that."""

    @abstractmethod
    def turn_away(self, mechanism: str) -> None:
        """The login is refused. The log has the reason; the client is told no more than that."""

    @abstractmethod
    def is_wanted(self) -> bool:
        """Whether somebody still waits for the answer."""


@final
class Login:
    """One connection's login, by one of the `mechanisms` that are offered to it."""

    def __init__(self, gateway: Gateway, applicant: Applicant, peer: str, security: Security) -> None:
        self.mechanisms = [name for name in gateway.policy.mechanisms if _is_possible(name, gateway, security)]
        self._gateway = gateway
        self._applicant = applicant
        self._peer = peer
        self._security = security
        self._mechanism = ""
        self._user = ""
        self._responses = 0
        self._scram: scram.ServerExchange | None = None

    def begin(self, mechanism: str, response: bytes | None) -> None:
        """The client chose a mechanism, and may have sent a first response with that."""
        self._mechanism = mechanism
        if mechanism not in self.mechanisms:
            self._refuse(f"mechanism '{mechanism}' is not offered")
        elif response is None and mechanism != anonymous.NAME:
            self._applicant.challenge(b"")
        else:
            self.respond(response or b"")

    def respond(self, response: bytes) -> None:
        """A response of the client, to what it was asked."""
        self._responses += 1
        mechanism = self._mechanism
        try:
            if self._responses > _RESPONSES_MAX:
                raise AuthenticationFailed(f"{mechanism}: more than {_RESPONSES_MAX} responses")
            if mechanism == plain.NAME:
                self._check(*plain.credentials(response))
            elif mechanism == amqplain.NAME:
                self._check(*amqplain.credentials(response))
            elif mechanism == external.NAME:
                identity = self._security.identity
                wished = external.identity(response)
                if wished not in ("", identity):
                    raise AuthenticationFailed(f"EXTERNAL: '{identity}' cannot act as '{wished}'")
                self._enter(identity, b"")
            elif mechanism == anonymous.NAME:
                self._enter(self._gateway.policy.anonymous_user, b"")
            else:
                self._go_on_with_scram(response)
        except AuthenticationFailed as error:
            self._refuse(error.text)

    def _check(self, user: str, password: str) -> None:
        self._user = user
        applicant = self._applicant
        self._gateway.host.authenticate(self._peer, user, password, applicant.is_wanted, self._checked)

    def _checked(self, why: str) -> None:
        if why:
            self._applicant.turn_away(self._mechanism)
        else:
            self._applicant.admit(self._user, b"")

    def _go_on_with_scram(self, response: bytes) -> None:
        host = self._gateway.host
        exchange = self._scram
        if exchange is None:
            nonce = self._gateway.random_bytes(_NONCE_BYTES).hex()
            exchange = scram.ServerExchange(self._mechanism, host.scram_keys, nonce)
            challenge = exchange.challenge(response)
            self._scram = exchange
            self._applicant.challenge(challenge)
        else:
            last = exchange.finish(response)
            self._enter(exchange.user, last)

    def _enter(self, user: str, last: bytes) -> None:
        """The client has proved to be this user."""
        why = self._gateway.host.refusal(self._peer, user)
        if why:
            self._refuse(why)
        else:
            self._applicant.admit(user, last)

    def _refuse(self, why: str) -> None:
        self._gateway.host.login_refused(self._peer, why)
        self._applicant.turn_away(self._mechanism)


def _is_possible(mechanism: str, gateway: Gateway, security: Security) -> bool:
    if mechanism == external.NAME:
        return security.identity != ""
    if mechanism == anonymous.NAME:
        return gateway.policy.anonymous_user != ""
    return True
