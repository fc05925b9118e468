"""Converts message-id, correlation-id and reply-to between the protocols (RabbitMQ's rules)."""

import re
from typing import Final
from urllib.parse import quote, unquote_to_bytes

from flintmq.base.limits import SHORTSTR_MAX_BYTES
from flintmq.wire.amqp10.values import ULong, Uuid

_URN: Final = re.compile("urn:uuid:([0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})")
_QUEUES: Final = "/queues/"


def fits_shortstr(text: str) -> bool:
    if len(text) > SHORTSTR_MAX_BYTES:
        return False
    try:
        return len(text.encode()) <= SHORTSTR_MAX_BYTES
    except UnicodeEncodeError:
        return False


def id_to_10(text: str) -> object:
    """Convert an id to AMQP 1.0: "urn:uuid:..." becomes a UUID, any other text stays a string."""
    found = _URN.fullmatch(text)
    return text if found is None else Uuid(bytes.fromhex(found[1].replace("-", "")))


def id_to_091(value: object) -> str | None:
    """Convert an id to the short string of AMQP 0-9-1. None for binary ids, and for texts that are too long."""
    if isinstance(value, str):
        return value if fits_shortstr(value) else None
    if isinstance(value, ULong):
        return str(value.value)
    return f"urn:uuid:{value}" if isinstance(value, Uuid) else None


def reply_to_10(queue: str) -> str:
    return _QUEUES + quote(queue, safe="-._~")


def reply_to_091(address: str) -> str | None:
    """Convert a reply-to: the address of a queue becomes its name, any other stays. None if it is too long."""
    if address.startswith(_QUEUES):
        try:
            address = unquote_to_bytes(address[len(_QUEUES) :]).decode()
        except UnicodeDecodeError:
            return None
    return address if fits_shortstr(address) else None
