"""The exchange of SASL frames, for either role (amqp-1.0 part 5 §5.3). The connection's owner does the mechanisms."""

from typing import final

from mypy_extensions import mypyc_attr

from flintmq.base.errors import IllegalState, LocalProtocolError
from flintmq.protocol.amqp10.states import SASL, Login
from flintmq.protocol.output import Output
from flintmq.protocol.role import Role
from flintmq.wire.amqp10 import spec
from flintmq.wire.amqp10.frames import write_sasl_frame
from flintmq.wire.amqp10.performatives import (
    SaslChallenge,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    SaslPerformative,
    SaslResponse,
)


@mypyc_attr(allow_interpreted_subclasses=True)
class SaslOwner:
    """Receives the frames of the exchange, and answers them through its connection, now or later."""

    def on_sasl_init(self, mechanism: str, response: bytes | None, hostname: str | None) -> None:
        """Server: handle sasl-init. The owner calls `sasl_challenge`, `sasl_accept` or `sasl_refuse`, now or later."""
        raise LocalProtocolError("this side offers no mechanisms")

    def on_sasl_response(self, response: bytes) -> None:
        """Server: handle the client's answer to a challenge. The owner answers it as it answers `on_sasl_init`."""
        raise LocalProtocolError("this side sends no challenges")

    def on_sasl_mechanisms(self, mechanisms: list[str]) -> None:
        """Client: handle the server's mechanisms. The owner calls `sasl_init`, or `lost` if it can use none of them."""
        raise LocalProtocolError("this side does not log in")

    def on_sasl_challenge(self, challenge: bytes) -> None:
        """Client: handle a challenge of the server. The owner calls `sasl_respond`."""
        raise LocalProtocolError("this side does not answer challenges")

    def on_sasl_outcome(self, additional: bytes | None) -> None:
        """Client: the server accepted the login. `additional` is the last message of the mechanism, if it has one."""
        return


@final
class SaslExchange:
    """The state of the exchange. A frame of the peer out of turn is an error; a call out of turn does nothing."""

    def __init__(self, role: Role, output: Output) -> None:
        self.state = Login.MECHANISMS if role is Role.CLIENT else Login.INIT
        self._role = role
        self._output = output

    def offer(self, mechanisms: list[str]) -> None:
        """Server: send the mechanisms that it accepts."""
        self._send(SaslMechanisms(sasl_server_mechanisms=mechanisms))

    def receive(self, performative: SaslPerformative, owner: SaslOwner) -> SaslOutcome | None:
        """Pass a frame to the owner, and return None; an outcome is returned instead.

        Raises IllegalState if the frame is out of turn.
        """
        target = SASL[self._role].get(self.state, {}).get(performative.descriptor)
        if target is None:
            raise IllegalState(f"{performative.type_name} while {self.state.value}")
        self.state = target
        if isinstance(performative, SaslInit):
            owner.on_sasl_init(performative.mechanism, performative.initial_response, performative.hostname)
        elif isinstance(performative, SaslResponse):
            owner.on_sasl_response(performative.response)
        elif isinstance(performative, SaslMechanisms):
            owner.on_sasl_mechanisms(performative.sasl_server_mechanisms)
        elif isinstance(performative, SaslChallenge):
            owner.on_sasl_challenge(performative.challenge)
        else:
            assert isinstance(performative, SaslOutcome)
            return performative
        return None

    def challenge(self, challenge: bytes) -> bool:
        """Server: send a challenge. Returns False, with nothing done, if it is not this side's turn."""
        return self._answer(Role.SERVER, Login.RESPONSE, SaslChallenge(challenge=challenge))

    def accept(self, additional: bytes | None) -> bool:
        """Server: send the outcome ok. Returns False, with nothing done, if it is not this side's turn."""
        return self._answer(Role.SERVER, Login.DONE, SaslOutcome(code=spec.SASL_OK, additional_data=additional))

    def refuse(self, code: int) -> bool:
        """Server: send a refusal. Returns False, with nothing done, if it is not this side's turn."""
        return self._answer(Role.SERVER, Login.DONE, SaslOutcome(code=code))

    def init(self, mechanism: str, response: bytes | None, hostname: str | None) -> None:
        performative = SaslInit(mechanism=mechanism, initial_response=response, hostname=hostname)
        self._answer(Role.CLIENT, Login.OUTCOME, performative)

    def respond(self, response: bytes) -> None:
        self._answer(Role.CLIENT, Login.OUTCOME, SaslResponse(response=response))

    def _answer(self, role: Role, state: Login, performative: SaslPerformative) -> bool:
        """Send a frame and enter `state`. Returns False, with nothing done, if it is not this side's turn."""
        if self.state is not Login.DECIDING or self._role is not role:
            return False
        self.state = state
        self._send(performative)
        return True

    def _send(self, performative: SaslPerformative) -> None:
        write_sasl_frame(self._output.writer, performative)
        self._output.touch()
