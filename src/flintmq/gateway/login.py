"""Logins of all protocols: a SASL exchange that ends with the name of a user, or with a refusal."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Final, final

from mypy_extensions import trait

from flintmq.base.errors import AuthenticationFailed, CommandInvalid, NotAllowed
from flintmq.broker.access.bearer import Bearer
from flintmq.broker.access.user import User
from flintmq.gateway.gateway import Gateway, LoginPolicy
from flintmq.protocol.sasl import amqplain, anonymous, external, oauthbearer, plain, scram

# All mechanisms. One that cannot work is not offered: without a certificate, a user, or an issuer of tokens.
MECHANISMS: Final = (
    plain.NAME,
    amqplain.NAME,
    external.NAME,
    anonymous.NAME,
    *scram.NAMES,
    oauthbearer.NAME,
)
# Mechanisms that send the secret in clear text.
_REVEALING: Final = (plain.NAME, amqplain.NAME, oauthbearer.NAME)
# The name and password of the user of a new broker. Both are well known, so it may only log in from this machine.
GUEST: Final = "guest"
# The maximum number of responses in a login; SCRAM needs two, and some clients begin with an empty one.
_RESPONSES_MAX: Final = 4
_NONCE_BYTES: Final = 18


@dataclass(frozen=True)
class Security:
    """Facts about a client from the layers below its protocol. `identity` is the user name in its certificate.

    `is_local`: the connection does not leave this machine.
    """

    is_encrypted: bool = False
    identity: str = ""
    is_local: bool = False


# A client on the same machine, without TLS.
OPEN: Final = Security(is_local=True)


@trait
class Applicant:
    """A connection whose client wants to log in."""

    @abstractmethod
    def challenge(self, data: bytes) -> None:
        """Ask the client for one more response."""

    @abstractmethod
    def admit(self, user: str, last: bytes) -> None:
        """Accept the login of this user. `last` proves the server to the client, if the mechanism has that."""

    @abstractmethod
    def turn_away(self, mechanism: str) -> None:
        """Refuse the login. The client is not told the reason, which is in the log."""

    @abstractmethod
    def renewed(self, why: str) -> None:
        """Answer a newer token: `why` is the reason of its refusal, empty if it is accepted."""

    @abstractmethod
    def is_wanted(self) -> bool:
        """Whether the connection still waits for the answer."""


@final
class Login:
    """The login of one connection, by one of the `mechanisms` that it is offered."""

    def __init__(self, gateway: Gateway, applicant: Applicant, peer: str, security: Security) -> None:
        # The token that the client logged in with, if any.
        self.bearer: Bearer | None = None
        policy, has_guest = gateway.policy, GUEST in gateway.broker.users
        self.mechanisms = [name for name in policy.mechanisms if not _obstacle(name, policy, security, has_guest)]
        self._gateway = gateway
        self._applicant = applicant
        self._peer = peer
        self._security = security
        self._mechanism = ""
        self._user = ""
        self._responses = 0
        self._scram: scram.ServerExchange | None = None
        # The data that proves the server to the client, if the mechanism has that.
        self._last = b""
        # Whether the client was told that its token is invalid, and has yet to answer.
        self._was_told = False
        # Whether a newer token is being checked.
        self.is_renewing = False

    def begin(self, mechanism: str, response: bytes | None) -> None:
        """Begin a login by a mechanism, with the first response if the client sent one."""
        self._mechanism = mechanism
        if mechanism not in self.mechanisms:
            policy = self._gateway.policy
            has_guest = GUEST in self._gateway.broker.users
            why = _obstacle(mechanism, policy, self._security, has_guest) if mechanism in policy.mechanisms else ""
            self._refuse(f"mechanism '{mechanism}' is not offered{why}")
        elif response is None and mechanism != anonymous.NAME:
            self._applicant.challenge(b"")
        else:
            self.respond(response or b"")

    def respond(self, response: bytes) -> None:
        """Handle a response of the client to the last challenge."""
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
            elif mechanism == anonymous.NAME and self._gateway.policy.anonymous_user == "":
                # An anonymous client is the user guest, whose password is checked as usual (RabbitMQ).
                self._check(GUEST, GUEST)
            elif mechanism == anonymous.NAME:
                self._enter(self._gateway.policy.anonymous_user, b"")
            elif mechanism == oauthbearer.NAME:
                if self._was_told:
                    self._applicant.turn_away(mechanism)
                else:
                    self._check_token(oauthbearer.token(response))
            else:
                self._go_on_with_scram(response)
        except AuthenticationFailed as error:
            self._refuse(error.text)

    def _check(self, user: str, password: str) -> None:
        if self._gateway.policy.takes_tokens and is_token(password):
            # Clients without support for tokens send a token as password, with any user name (RabbitMQ).
            self._check_token(password)
            return
        self._user = user
        applicant = self._applicant
        self._gateway.host.authenticate(self._peer, user, password, applicant.is_wanted, self._checked)

    def _check_token(self, token: str) -> None:
        self._gateway.host.check_token(self._peer, token, self._applicant.is_wanted, self._token_checked)

    def _token_checked(self, why: str, bearer: Bearer | None) -> None:
        if bearer is not None:
            self.bearer = bearer
            self._applicant.admit(bearer.user.name, b"")
        elif self._mechanism == oauthbearer.NAME:
            self._was_told = True
            self._applicant.challenge(oauthbearer.REFUSAL)
        else:
            self._applicant.turn_away(self._mechanism)

    def account(self, vhost: str) -> User | None:
        """The account of the client in a virtual host; None if the user was deleted meanwhile."""
        bearer = self.bearer
        if bearer is None:
            return self._gateway.broker.users.get(self._user)
        bearer.rights(vhost)
        return bearer.user

    def renew(self, token: bytes) -> None:
        """Check a newer token of the client. Raises CommandInvalid while another one is being checked."""
        if self.is_renewing:
            raise CommandInvalid("a new secret came before the answer to the last one")
        self.is_renewing = True
        host = self._gateway.host
        host.check_token(self._peer, token.decode("latin-1"), self._applicant.is_wanted, self._newer_checked)

    def _newer_checked(self, why: str, newer: Bearer | None) -> None:
        self.is_renewing = False
        if newer is not None:
            assert self.bearer is not None
            try:
                self.bearer.renew(newer)
            except NotAllowed as error:
                why = error.text
                self._gateway.host.login_refused(self._peer, self._user, why)
        self._applicant.renewed(why)

    def _checked(self, why: str) -> None:
        if why:
            self._applicant.turn_away(self._mechanism)
        else:
            self._applicant.admit(self._user, self._last)

    def _go_on_with_scram(self, response: bytes) -> None:
        host = self._gateway.host
        exchange = self._scram
        if exchange is None:
            nonce = self._gateway.random_bytes(_NONCE_BYTES).hex()
            exchange = scram.ServerExchange(self._mechanism, host.scram_keys, nonce)
            challenge = exchange.challenge(response)
            self._user = exchange.user
            self._scram = exchange
            self._applicant.challenge(challenge)
            return

        def proof() -> str:
            try:
                self._last = exchange.finish(response)
            except AuthenticationFailed as error:
                return error.text
            return ""

        host.check_proof(self._peer, exchange.user, proof, self._applicant.is_wanted, self._checked)

    def _enter(self, user: str, last: bytes) -> None:
        """Accept a client that has proved to be this user, unless the host refuses that user."""
        why = self._gateway.host.refusal(self._peer, user)
        if why:
            self._refuse(why)
        else:
            self._user = user
            self._applicant.admit(user, last)

    def _refuse(self, why: str) -> None:
        self._gateway.host.login_refused(self._peer, self._user, why)
        self._applicant.turn_away(self._mechanism)


def is_token(password: str) -> bool:
    """Whether a password looks like a JSON web token: three parts, the first of which is an object in base64."""
    return password.startswith("eyJ") and password.count(".") == 2


def _obstacle(mechanism: str, policy: LoginPolicy, security: Security, has_guest: bool) -> str:
    """The reason why a client may not use an allowed mechanism, as the end of a sentence; empty if it may."""
    if mechanism in _REVEALING and not (security.is_encrypted or security.is_local or policy.allows_clear_text):
        return " in clear text to clients on other machines: use TLS, or set auth.allow_clear_text"
    if mechanism == external.NAME and security.identity == "":
        return " to clients without a certificate that names them"
    if mechanism == anonymous.NAME and policy.anonymous_user == "" and not (security.is_local and has_guest):
        return " without auth.anonymous_user, but to clients on this machine where there is a user guest"
    if mechanism == oauthbearer.NAME and not policy.takes_tokens:
        return " without oauth.issuer or oauth.jwks"
    return ""
