"""The refusal of a management request, and checks and conversions that its resources share."""

from typing import final

from flintmq.base.errors import FlintError
from flintmq.broker.message import Table
from flintmq.gateway.conversion.plain import argument_value
from flintmq.wire.amqp10.values import MapKey, Symbol, Wrapped


@final
class Refusal(FlintError):
    """A request is refused. `status` is an HTTP status such as "404"; `why` is the body of the response."""

    def __init__(self, status: str, why: str) -> None:
        super().__init__(f"{status} {why}")
        self.status = status
        self.why = why


def check_line(name: str) -> None:
    if "\n" in name or "\r" in name:
        raise Refusal("400", f"Bad name '{name}': line feed and carriage return characters not allowed")


def check_not_default(exchange: str) -> None:
    if exchange == "":
        raise Refusal("403", "operation not permitted on the default exchange")


def check_not_reserved(kind: str, name: str, vhost: str) -> None:
    if name.startswith("amq."):
        raise Refusal("403", f"{kind} '{name}' in vhost '{vhost}' starts with reserved prefix 'amq.'")


def entries(body: object, what: str) -> dict[object, object]:
    """The entries of a map. Raises Refusal for any other value; `what` names the map in the error."""
    if not isinstance(body, dict):
        raise Refusal("400", f"a map is due as the body that says what the {what} is")
    return body


def arguments(value: object) -> Table:
    """Convert arguments to the broker's types. Raises Refusal for a type that arguments cannot have."""
    found: Table = {}
    for key, argument in entries(value, "arguments").items():
        name = key.name if isinstance(key, Symbol) else key
        known = argument_value(argument)
        if not isinstance(name, str) or (known is None and argument is not None):
            raise Refusal("400", f"unsupported argument {{{term(key)},{term(argument)}}}")
        found[name] = known
    return found


def term(value: object) -> str:
    """Format a value as an Erlang term, as RabbitMQ's error texts do."""
    if isinstance(value, MapKey):
        return term(value.value)
    if isinstance(value, str):
        return f'{{utf8,<<"{value}">>}}'
    if isinstance(value, Symbol):
        return f'{{symbol,<<"{value.name}">>}}'
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"{{long,{value}}}"
    if value is None:
        return "null"
    return f"{value!r:.200}" if isinstance(value, (Wrapped, bytes, float)) else type(value).__name__
