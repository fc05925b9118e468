"""`flintmq policy set`."""

import json
from typing import Annotated

import typer

from flintmq.base.errors import ConfigurationError
from flintmq.cli.administration import VHost, administrative
from flintmq.cli.api import Api, path_of

Name = Annotated[str, typer.Argument(metavar="NAME", help="The policy's name.")]
Operator = Annotated[bool, typer.Option("--operator", help="An operator policy: it limits what others ask for.")]


@administrative
def set_policy(
    api: Api,
    name: Name,
    pattern: Annotated[str, typer.Argument(metavar="PATTERN", help="A regular expression for names.")],
    definition: Annotated[str, typer.Argument(metavar="JSON", help="""Such as '{"max-length": 1000}'.""")],
    vhost: VHost = "/",
    apply_to: Annotated[
        str, typer.Option(metavar="KIND", help="all, queues, classic_queues, quorum_queues, streams or exchanges.")
    ] = "all",
    priority: Annotated[int, typer.Option(metavar="N", help="Of several policies, the highest counts.")] = 0,
    operator: Operator = False,
) -> None:
    """Lay down a policy for queues and exchanges by their names."""
    try:
        keys = json.loads(definition)
    except ValueError as error:
        raise ConfigurationError(f"the definition is not JSON: {error}") from error
    if operator and apply_to == "all":
        # Exchanges have no operator policies.
        apply_to = "queues"
    body = {"pattern": pattern, "definition": keys, "apply-to": apply_to, "priority": priority}
    api.put(path_of(kind(operator), vhost, name), body)


def kind(operator: bool) -> str:
    return "operator-policies" if operator else "policies"
