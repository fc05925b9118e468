"""`flintmq forget-resumable-link`."""

from typing import Annotated

import typer

from flintmq.cli.administration import VHost, administrative
from flintmq.cli.api import Api, path_of
from flintmq.cli.confirmation import Yes, confirm


@administrative
def forget_resumable_link(
    api: Api,
    link_id: Annotated[str, typer.Argument(metavar="ID", help="As list-resumable-links shows it.")],
    vhost: VHost = "/",
    yes: Yes = False,
) -> None:
    """Forget what is kept for a link that nobody resumes: what it holds goes back, parts of messages are dropped."""
    confirm(f"Forget the resumable link {link_id}, with the parts of messages that it has?", yes)
    api.delete(path_of("resumable-links", vhost, link_id))
