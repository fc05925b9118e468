"""Policies."""

import json
from typing import Annotated

import typer

from flintmq.base.errors import ConfigurationError
from flintmq.cli.api import Api, path_of
from flintmq.cli.commands import api_command
from flintmq.cli.lists import vhost_list_command
from flintmq.cli.options import VHost
from flintmq.cli.tables import Column

Name = Annotated[str, typer.Argument(metavar="NAME", help="The policy's name.")]
Operator = Annotated[bool, typer.Option("--operator", help="An operator policy: it limits what others ask for.")]


@api_command("policy set")
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
    api.put(path_of(_kind(operator), vhost, name), body)


def _kind(operator: bool) -> str:
    return "operator-policies" if operator else "policies"


@api_command("policy clear")
def clear_policy(api: Api, name: Name, vhost: VHost = "/", operator: Operator = False) -> None:
    """Withdraw a policy."""
    api.delete(path_of(_kind(operator), vhost, name))


vhost_list_command(
    "policies",
    "Policies.",
    Column("vhost", "vhost"),
    Column("name", "name", rank=0),
    Column("pattern", "pattern", rank=0),
    Column("apply to", "apply-to"),
    Column("priority", "priority", "count"),
    Column("definition", "definition", rank=0),
)
