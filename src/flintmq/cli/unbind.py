"""`flintmq unbind`."""

from flintmq.cli.amqp import DEFAULT_URL, Arguments, PasswordFile, Url, arguments_of, channel
from flintmq.cli.bind import Destination, RoutingKey, Source, ToExchange


def unbind(
    source: Source,
    destination: Destination,
    routing_key: RoutingKey = "",
    to_exchange: ToExchange = False,
    arguments: Arguments = None,
    url: Url = DEFAULT_URL,
    password_file: PasswordFile = None,
) -> None:
    """Undo a binding: key and arguments have to be those that it was made with."""
    with channel(url, password_file) as opened:
        how = opened.unbind_exchange if to_exchange else opened.unbind
        how(destination, source, routing_key, arguments_of(arguments))
