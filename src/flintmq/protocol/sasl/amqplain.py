"""AMQPLAIN: the response is a field table without its length, with LOGIN and PASSWORD (RabbitMQ, AMQP 0-8)."""

from librt.strings import BytesWriter, write_i32_be
from mypy_extensions import i32

from flintmq.base.errors import AuthenticationFailed, SyntaxFault
from flintmq.wire.amqp091.tables import decode_table

NAME = "AMQPLAIN"


def credentials(response: bytes) -> tuple[str, str]:
    """Return user and password of an AMQPLAIN response. Raises AuthenticationFailed if the response is malformed."""
    w = BytesWriter()
    write_i32_be(w, i32(len(response)))
    w.write(response)
    try:
        table, _ = decode_table(w.getvalue(), 0)
    except SyntaxFault as error:
        raise AuthenticationFailed(f"AMQPLAIN: {error.text}") from None
    user, password = table.get("LOGIN"), table.get("PASSWORD")
    if not isinstance(user, str) or not isinstance(password, str):
        raise AuthenticationFailed("AMQPLAIN: LOGIN and PASSWORD have to be strings")
    return user, password
