"""The exchange of SASL frames, from either side (amqp-1.0 part 5 §5.3). What a mechanism says is its owner's affair."""

from typing import TYPE_CHECKING, final

from flintmq.base.errors import IllegalState
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

if TYPE_CHECKING:
    from flintmq.protocol.amqp10.connection import ConnectionOwner


@final
class SaslExchange:
    """What is said in each state follows from the table; who says it out of turn is not heard."""

    def __init__(self, role: Role, output: Output) -> None:
        self.state = Login.MECHANISMS if role is Role.CLIENT else Login.INIT
        self._role = role
        self._output = output

    def offer(self, mechanisms: list[str]) -> None:
        self._send(SaslMechanisms(sasl_server_mechanisms=mechanisms))

    def receive(self, performative: SaslPerformative, owner: "ConnectionOwner") -> SaslOutcome | None:
        """Tell the owner what came; an outcome is returned instead."""
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
        return self._say(Role.SERVER, Login.RESPONSE, SaslChallenge(challenge=challenge))

    def accept(self, additional: bytes | None) -> bool:
        return self._say(Role.SERVER, Login.DONE, SaslOutcome(code=spec.SASL_OK, additional_data=additional))

    def refuse(self, code: int) -> bool:
        return self._say(Role.SERVER, Login.DONE, SaslOutcome(code=code))

    def init(self, mechanism: str, response: bytes | None, hostname: str | None) -> None:
        performative = SaslInit(mechanism=mechanism, initial_response=response, hostname=hostname)
        self._say(Role.CLIENT, Login.OUTCOME, performative)

    def respond(self, response: bytes) -> None:
        self._say(Role.CLIENT, Login.OUTCOME, SaslResponse(response=response))

    def _say(self, role: Role, state: Login, performative: SaslPerformative) -> bool:
        """False if it is not the time to say this."""
        if self.state is not Login.DECIDING or self._role is not role:
            return False
        self.state = state
        self._send(performative)
        return True

    def _send(self, performative: SaslPerformative) -> None:
        write_sasl_frame(self._output.writer, performative)
        self._output.touch()
