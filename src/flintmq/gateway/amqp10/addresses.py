"""What addresses mean: RabbitMQ's second form, its first form, and plain names.

    /queues/:queue   /exchanges/:exchange/:key   /exchanges/:exchange                            the second form
    /queue/:queue   /amq/queue/:queue   /exchange/:exchange/:key   /topic/:key   /queue         the first form
    name                                                                                        a queue, or an exchange

Names are percent-encoded in the second form; in the first, only a slash is (%2F).
"""

from typing import Final, final

from flintmq.base.errors import SCOPE_LINK, InvalidField

MANAGEMENT: Final = "/management"

# What an address names. A plain name is a queue's, or else an exchange's.
QUEUE: Final = 0
EXCHANGE: Final = 1
PLAIN: Final = 2

_HEX: Final = "0123456789abcdefABCDEF"


@final
class Place:
    """A node by its name. `key` is an exchange's routing key, None where each message's subject is meant.

    `may_create`: a queue is made where there is none (RabbitMQ's first form). `is_source`: it may be a source's.
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
    """What a source's or a target's address names. Raises InvalidField for one that names nothing."""
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
    """What a message's own `to` names: the second form and no other (RabbitMQ); None where it is none of that."""
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
    """The text that was percent-encoded (RFC 3986 §2.1), a plus being a plus; None where it was not."""
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
    """All but RFC 3986's unreserved characters are encoded."""
    made: list[str] = []
    for character in text:
        if character.isascii() and (character.isalnum() or character in "-._~"):
            made.append(character)
        else:
            made.extend([f"%{byte:02X}" for byte in character.encode(errors="surrogatepass")])
    return "".join(made)
