"""The table of channel states, and the engine that follows it."""

import pytest

from flintmq.base.errors import AmqpError, ChannelFault, CommandInvalid, FlintError
from flintmq.protocol.amqp091.channel import Channel, ChannelOwner
from flintmq.protocol.amqp091.reassembly import ReassemblyBudget
from flintmq.protocol.amqp091.states import CHANNEL, CLOSING, OPEN, OPENING, UNUSED
from flintmq.protocol.output import Outbox, Output
from flintmq.protocol.role import Role
from flintmq.wire.amqp091 import methods
from flintmq.wire.amqp091.method_codec import encode_method
from flintmq.wire.amqp091.methods import METHODS, Method


class Owner(ChannelOwner):
    def on_method(self, method: Method) -> None:
        pass

    def on_content(self, method: bytes, properties: bytes, body: bytes) -> None:
        pass

    def on_ack(self, delivery_tag: int, multiple: bool) -> None:
        pass

    def on_closed(self, error: FlintError | None) -> None:
        pass


def channel_in(role: Role, state: int) -> Channel:
    channel = Channel(1, role, Output(Outbox()), ReassemblyBudget(1_000, 1_000))
    if state == OPENING:
        channel.open(Owner())
    elif state != UNUSED:
        channel.attach(Owner())
        if state == CLOSING:
            channel.close()
    assert channel.state == state
    return channel


CASES = [(role, state) for role, table in CHANNEL.items() for state in table]


@pytest.mark.parametrize(("role", "state"), CASES, ids=[f"{role.value}-{state}" for role, state in CASES])
def test_the_engine_follows_the_table(role: Role, state: int) -> None:
    """In each state, each method leads to the state of the table; one without an entry is an error, or dropped."""
    for number, method in METHODS.items():
        if role is Role.SERVER and state == UNUSED and number == methods.CHANNEL_OPEN:
            # The connection does this, because its owner makes the owner of the channel.
            continue
        channel = channel_in(role, state)
        payload = encode_method(method())
        target = CHANNEL[role][state].get(number)
        if target is None and state != CLOSING:
            with pytest.raises(ChannelFault if state != OPEN or number == methods.CHANNEL_OPEN else CommandInvalid):
                channel.receive_method(number, payload, 0, len(payload))
            target = state
        else:
            channel.receive_method(number, payload, 0, len(payload))
        assert channel.state == (state if target is None else target), method.name


def test_each_method_has_a_receiver() -> None:
    """Each method of a channel is legal for one of the peers on an open channel, or opens or closes the channel."""
    of_channels = {number for number, method in METHODS.items() if not method.name.startswith("connection.")}
    legal = {number for table in CHANNEL.values() for moves in table.values() for number in moves}
    assert legal == of_channels


@pytest.mark.parametrize("role", Role)
def test_an_unknown_method_is_refused_unless_the_channel_is_closing(role: Role) -> None:
    """540 not-implemented, as everywhere; but what comes after our channel.close is not looked at."""
    payload = bytes.fromhex("003c 03e7")
    for state in CHANNEL[role]:
        channel = channel_in(role, state)
        if state == CLOSING:
            channel.receive_method(0x003C_03E7, payload, 0, 4)
            continue
        with pytest.raises(AmqpError) as refusal:
            channel.receive_method(0x003C_03E7, payload, 0, 4)
        assert refusal.value.code == 540
