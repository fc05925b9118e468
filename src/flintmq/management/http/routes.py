"""A route: one row that says what a path does, who may have it done, and what goes in and comes out."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, get_origin

from starlette.responses import Response

from flintmq.management.http.access import Right
from flintmq.management.http.call import Call
from flintmq.management.http.concurrency import LISTS

Handler = Callable[[Call], Awaitable[Response]]


# For the audit log: a route of a method that changes something, but nothing that is defined.
NOT_AUDITED: Final = "-"


@dataclass(frozen=True)
class Route:
    """`path` names its variables in braces; `{vhost}` has to be there for the handler to be called.

    `takes` and `gives` are the types of the bodies, for the API's document: structs, or lists of them. `act` is what
    the audit log calls it, method and path if it has no name; looking at something is none. `whole` is LISTS or METRICS
    where an answer that is no list is about all there is as well.
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
        """Among which answers it has to wait for its turn; empty where it has not."""
        is_list = self.method == "GET" and get_origin(self.gives) is list
        return self.group or (LISTS if is_list else "")
