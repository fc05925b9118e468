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

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the policy.")]
Operator = Annotated[
    bool, typer.Option("--operator", help="An operator policy, which limits what arguments and policies set.")
]


@api_command("policy set")
def set_policy(
    api: Api,
    name: Name,
    pattern: Annotated[
        str, typer.Argument(metavar="PATTERN", help="Regular expression for names of queues or exchanges.")
    ],
    definition: Annotated[str, typer.Argument(metavar="JSON", help="""Definition such as '{"max-length": 1000}'.""")],
    vhost: VHost = "/",
    apply_to: Annotated[
        str,
        typer.Option(
            metavar="KIND", help="What it applies to: all, queues, classic_queues, quorum_queues, streams or exchanges."
        ),
    ] = "all",
    priority: Annotated[
        int, typer.Option(metavar="N", help="Of several matching policies, the one with the highest priority applies.")
    ] = 0,
    operator: Operator = False,
) -> None:
    """Add or change a policy for queues and exchanges with matching names."""
    try:
        keys = json.loads(definition)
    except ValueError as error:
        raise ConfigurationError(f"the definition is not valid JSON: {error}") from error
    if operator and apply_to == "all":
        # Operator policies do not apply to exchanges.
        apply_to = "queues"
    body = {"pattern": pattern, "definition": keys, "apply-to": apply_to, "priority": priority}
    api.put(path_of(_kind(operator), vhost, name), body)


def _kind(operator: bool) -> str:
    return "operator-policies" if operator else "policies"


@api_command("policy clear")
def clear_policy(api: Api, name: Name, vhost: VHost = "/", operator: Operator = False) -> None:
    """Delete a policy."""
    api.delete(path_of(_kind(operator), vhost, name))


vhost_list_command(
    "policies",
    "List policies.",
    Column("vhost", "vhost"),
    Column("name", "name", rank=0),
    Column("pattern", "pattern", rank=0),
    Column("apply to", "apply-to"),
    Column("priority", "priority", "count"),
    Column("definition", "definition", rank=0),
)
