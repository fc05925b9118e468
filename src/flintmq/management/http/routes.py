"""A route: a row with path and handler, the right that it requires, and the types of its bodies."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, get_origin

from starlette.responses import Response

from flintmq.management.http.access import Right
from flintmq.management.http.call import Call
from flintmq.management.http.concurrency import LISTS

Handler = Callable[[Call], Awaitable[Response]]


# The action of a route that is not audited although its method changes something: it changes no definitions.
NOT_AUDITED: Final = "-"


@dataclass(frozen=True)
class Route:
    """A row of the route table.

    `path` has variables in braces; the handler is called only if the virtual host `{vhost}` exists. `takes` and `gives`
    are the types of the bodies for the API's document: structs, or lists of them. `action` is the name in the audit
    log, by default method and path; GET routes have none. `group` is LISTS or METRICS for a large answer that is not a
    list.
    """

    method: str
    path: str
    handler: Handler
    right: Right
    summary: str
    gives: Any = None
    takes: Any = None
    action: str = ""
    group: str = ""

    @property
    def limit_group(self) -> str:
        """The group whose limit of concurrent answers applies; empty if there is none."""
        is_list = self.method == "GET" and get_origin(self.gives) is list
        return self.group or (LISTS if is_list else "")
