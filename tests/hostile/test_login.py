"""From the protocol header to connection.open: who is let in, who is told why not, and who is made to hurry."""

import time

import pytest

from flintmq.base.limits import CHANNEL_MAX, FRAME_MAX_BYTES, HANDSHAKE_SECONDS
from flintmq.wire.amqp091.frames import PROTOCOL_HEADER
from flintmq.wire.amqp091.methods import (
    ChannelOpen,
    ConnectionClose,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    Method,
)
from flintmq.wire.amqp091.tables import Table
from tests.hostile.conftest import Bystander
from tests.servers import BrokerProcess
from tests.sockets import AmqpSocket, method_frame

SAYS_WHY: Table = {"capabilities": {"authentication_failure_close": True}}
REFUSED = "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. For details see the broker log."
CREDENTIALS = {
    "wrong password": (b"\0guest\0wr0ng-secret", "wrong password for user 'guest'"),
    "empty password": (b"\0guest\0", "wrong password for user 'guest'"),
    "unknown user": (b"\0mallory\0guest", "there is no user 'mallory'"),
}


def _drip(client: AmqpSocket, drops: bytes, seconds: float) -> None:
    for octet in drops:
        client.send(bytes([octet]))
        time.sleep(seconds)


@pytest.mark.parametrize(("response", "why"), CREDENTIALS.values(), ids=CREDENTIALS.keys())
def test_bad_credentials_are_refused_with_403(
    broker: BrokerProcess, attacker: AmqpSocket, response: bytes, why: str
) -> None:
    """A client that understands it is told 403 and no more; the log says why, and keeps the password to itself."""
    attacker.begin()
    attacker.send_method(0, ConnectionStartOk(client_properties=SAYS_WHY, response=response))
    close = attacker.expect_close(403)
    assert close.reply_text == REFUSED
    assert (close.class_id, close.method_id) == (10, 11)
    line = broker.wait_for_log("login refused", peer=attacker.name)
    assert (line["level"], line["reason"]) == ("warning", why)
    assert "wr0ng-secret" not in str(broker.log)


@pytest.mark.parametrize("response", [response for response, _ in CREDENTIALS.values()], ids=CREDENTIALS.keys())
def test_bad_credentials_end_an_old_client_without_a_word(
    broker: BrokerProcess, attacker: AmqpSocket, response: bytes
) -> None:
    """A client without authentication_failure_close is just hung up on, as amqp-0-9-1 has it."""
    attacker.begin()
    attacker.send_method(0, ConnectionStartOk(response=response))
    assert attacker.rest() == b""
    broker.wait_for_log("login refused", peer=attacker.name)


BROKEN_LOGINS = {
    "no zero octets": ConnectionStartOk(response=b"guest"),
    "too many zero octets": ConnectionStartOk(response=b"\0guest\0guest\0guest"),
    "not UTF-8": ConnectionStartOk(response=b"\0guest\0\xff\xfe"),
    "empty": ConnectionStartOk(response=b""),
    "unknown mechanism": ConnectionStartOk(mechanism="GSSAPI", response=b"\0guest\0guest"),
    "AMQPLAIN that is no table": ConnectionStartOk(mechanism="AMQPLAIN", response=b"\x05LOGINS\xff\xff\xff\xff"),
    "AMQPLAIN without a password": ConnectionStartOk(mechanism="AMQPLAIN", response=b"\x05LOGINS\0\0\0\x05guest"),
}


@pytest.mark.parametrize("start_ok", BROKEN_LOGINS.values(), ids=BROKEN_LOGINS.keys())
def test_a_malformed_login_is_refused_with_403(
    broker: BrokerProcess, attacker: AmqpSocket, start_ok: ConnectionStartOk
) -> None:
    """A login that cannot be read is refused like one that is wrong."""
    attacker.begin()
    attacker.send_method(
        0, ConnectionStartOk(client_properties=SAYS_WHY, mechanism=start_ok.mechanism, response=start_ok.response)
    )
    close = attacker.expect_close(403)
    assert close.reply_text.startswith("ACCESS_REFUSED - ")
    assert broker.wait_for_log("connection ended", peer=attacker.name)["reason"]


def test_an_unknown_virtual_host_is_refused_with_530(broker: BrokerProcess, attacker: AmqpSocket) -> None:
    """connection.open of a virtual host that is not there is 530, in RabbitMQ's words."""
    attacker.log_in()
    attacker.send_method(0, ConnectionTuneOk(channel_max=1, frame_max=4096), ConnectionOpen(virtual_host="nowhere"))
    close = attacker.expect_close(530)
    assert close.reply_text == "NOT_ALLOWED - vhost nowhere not found"
    assert (close.class_id, close.method_id) == (10, 40)
    assert "vhost nowhere not found" in broker.wait_for_log("connection ended", peer=attacker.name)["reason"]


EXCESS = {
    "channel_max": (ConnectionTuneOk(channel_max=CHANNEL_MAX + 1, frame_max=4096), "channel_max = 2048"),
    "frame_max": (ConnectionTuneOk(channel_max=1, frame_max=FRAME_MAX_BYTES + 1), "frame_max = 131073"),
}


@pytest.mark.parametrize(("tune_ok", "text"), EXCESS.values(), ids=EXCESS.keys())
def test_tuning_beyond_the_offer_ends_the_connection(
    broker: BrokerProcess, attacker: AmqpSocket, tune_ok: ConnectionTuneOk, text: str
) -> None:
    """What a client agrees to may be less than was offered, never more; only the log says so."""
    attacker.log_in()
    attacker.send_method(0, tune_ok)
    attacker.expect_end()
    assert text in broker.wait_for_log("connection ended", peer=attacker.name)["reason"]


OUT_OF_TURN: dict[str, tuple[Method, int]] = {
    "open before the login": (ConnectionOpen(), 503),
    "tune-ok before the login": (ConnectionTuneOk(), 503),
    "tune": (ConnectionTune(), 503),
    "open-ok": (ConnectionOpenOk(), 503),
}


@pytest.mark.parametrize(("method", "code"), OUT_OF_TURN.values(), ids=OUT_OF_TURN.keys())
def test_steps_out_of_turn(broker: BrokerProcess, attacker: AmqpSocket, method: Method, code: int) -> None:
    """A step of the handshake that is not the next one is 503: nobody skips the login."""
    attacker.begin()
    attacker.send_method(0, method)
    attacker.expect_close(code)
    broker.wait_for_log("connection ended", peer=attacker.name)


def test_a_client_may_leave_during_the_handshake(attacker: AmqpSocket) -> None:
    """connection.close is answered also before connection.open."""
    attacker.log_in()
    attacker.send_method(0, ConnectionClose(reply_code=200, reply_text="changed my mind"))
    assert attacker.read_frame().method.name == "connection.close-ok"
    assert attacker.rest() == b""


def test_the_handshake_has_a_time_limit(broker: BrokerProcess, bystander: Bystander) -> None:
    """Whoever falls silent before connection.open, or drips its bytes to seem busy, is cut off and named in the log."""
    silent = AmqpSocket(broker.port)
    greeted = AmqpSocket(broker.port)
    logged_in = AmqpSocket(broker.port)
    dripping = AmqpSocket(broker.port)
    refused = AmqpSocket(broker.port)
    with silent, greeted, logged_in, dripping, refused:
        greeted.begin()
        logged_in.log_in()
        refused.begin()
        refused.send_method(1, ChannelOpen())
        # One byte in a while would keep it open for a minute and more.
        drops = PROTOCOL_HEADER + method_frame(0, ConnectionStartOk(response=b"\0guest\0guest"))
        with pytest.raises(OSError, match=r"reset|[Bb]roken pipe"):
            _drip(dripping, drops, HANDSHAKE_SECONDS / 10)
        for late in (silent, greeted, logged_in, dripping):
            line = broker.wait_for_log("handshake timed out", peer=late.name)
            assert line["seconds"] == HANDSHAKE_SECONDS
        # Its close was never answered: the log says what it was closed for.
        assert "channel 1" in broker.wait_for_log("connection ended", peer=refused.name)["reason"]
        for late in (silent, greeted, logged_in):
            assert late.rest() == b""
    bystander.is_served()
