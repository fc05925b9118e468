"""`flintmq redrive`."""

from flintmq.cli.administration import Json, VHost, administrative
from flintmq.cli.amqp import Queue
from flintmq.cli.api import Api, path_of
from flintmq.cli.move import Chosen, Most, in_steps, tell


@administrative
def redrive(
    api: Api, queue: Queue, vhost: VHost = "/", search: Chosen = "", count: Most = None, as_json: Json = False
) -> None:
    """Put dead letters back on the queues they died on. See list-dead-letters for where they lie."""
    tell("redriven", as_json, in_steps(api, path_of("queues", vhost, queue), "redrive", search, count))
