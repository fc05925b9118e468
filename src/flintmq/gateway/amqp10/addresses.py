"""Addresses of sources and targets: RabbitMQ's second form (v2), its first form (v1), and plain names.

    /queues/:queue   /exchanges/:exchange/:key   /exchanges/:exchange                            the second form
    /queue/:queue   /amq/queue/:queue   /exchange/:exchange/:key   /topic/:key   /queue         the first form
    name                                                                                        a queue, or an exchange

Names are percent-encoded in the second form; in the first, only a slash is (%2F).
"""

from typing import Final, final

from flintmq.base.errors import SCOPE_LINK, InvalidField

MANAGEMENT: Final = "/management"

# Kinds of addresses. A PLAIN name means the queue of that name, or the exchange if there is no such queue.
QUEUE: Final = 0
EXCHANGE: Final = 1
PLAIN: Final = 2

_HEX: Final = "0123456789abcdefABCDEF"


@final
class Place:
    """The node that an address names. `key` is the routing key; None: the subject of each message is its routing key.

    `may_create`: a missing queue is created (RabbitMQ's first form). `is_source`: a source may have this address.
    """

    def __init__(
        self, kind: int, name: str, key: str | None = "", may_create: bool = False, is_source: bool = True
    ) -> None:
        self.kind = kind
        self.name = name
        self.key = key
        self.may_create = may_create
        self.is_source = is_source


def parse(address: str) -> Place:
    """Parse the address of a source or target. Raises InvalidField for an address of no known form."""
    if not address.startswith("/"):
        if address == "":
            raise refused(address)
        return Place(PLAIN, address, None)
    place = _second_form(address)
    if place is None:
        place = _first_form(address)
    if place is None:
        raise refused(address)
    return place


def parse_to(address: str) -> Place | None:
    """Parse the `to` of a message. Only the second form is allowed there (RabbitMQ); None for anything else."""
    return _second_form(address)


def queue_address(name: str) -> str:
    """The address of a queue in the second form."""
    return f"/queues/{percent_encoded(name)}"


def refused(address: str) -> InvalidField:
    return InvalidField(f'Attach refused: {{bad_address_string,<<"{address}">>}}', SCOPE_LINK)


def _second_form(address: str) -> Place | None:
    if address.startswith("/queues/"):
        name = percent_decoded(address[8:])
        return None if not name else Place(QUEUE, name)
    if not address.startswith("/exchanges/"):
        return None
    parts = address[11:].split("/")
    if len(parts) > 2 or parts[0] in ("", "amq.default"):
        return None
    exchange = percent_decoded(parts[0])
    key = percent_decoded(parts[1]) if len(parts) == 2 else ""
    return None if exchange is None or key is None else Place(EXCHANGE, exchange, key, is_source=False)


def _first_form(address: str) -> Place | None:
    parts = address.split("/")[1:]
    names = [part.replace("%2F", "/") for part in parts]
    if parts[0] == "exchange" and 2 <= len(parts) <= 3 and parts[1]:
        return Place(EXCHANGE, names[1], names[2] or None if len(parts) == 3 else None)
    if parts == ["queue"]:
        return Place(EXCHANGE, "", None)
    if len(parts) == 2 and parts[1]:
        if parts[0] == "queue":
            return Place(QUEUE, names[1], "", may_create=True)
        if parts[0] == "topic":
            return Place(EXCHANGE, "amq.topic", names[1])
    if len(parts) == 3 and parts[:2] == ["amq", "queue"] and parts[2]:
        return Place(QUEUE, names[2])
    return None


def percent_decoded(text: str) -> str | None:
    """Decode percent-encoding (RFC 3986 §2.1); "+" stays "+". None for a wrong escape or a result that is not UTF-8."""
    if "%" not in text:
        return text
    parts = text.split("%")
    raw = [parts[0].encode()]
    for part in parts[1:]:
        if len(part) < 2 or part[0] not in _HEX or part[1] not in _HEX:
            return None
        raw.append(bytes([int(part[:2], 16)]))
        raw.append(part[2:].encode())
    try:
        return b"".join(raw).decode()
    except UnicodeDecodeError:
        return None


def percent_encoded(text: str) -> str:
    """Percent-encode every character that RFC 3986 does not list as unreserved."""
    made: list[str] = []
    for character in text:
        if character.isascii() and (character.isalnum() or character in "-._~"):
            made.append(character)
        else:
            made.extend([f"%{byte:02X}" for byte in character.encode(errors="surrogatepass")])
    return "".join(made)
