"""All routes of the API, each from the file of its resource."""

from typing import Final

from flintmq.management.api import (
    auth_attempts,
    bindings,
    connections,
    definitions,
    exchanges,
    health,
    leases,
    limits,
    messages,
    nodes,
    overview,
    parameters,
    permissions,
    pipelines,
    policies,
    queues,
    resumable_links,
    streams,
    topic_permissions,
    users,
    vhosts,
    whoami,
)
from flintmq.management.http import manual, openapi
from flintmq.management.http.routes import Route
from flintmq.management.metrics import endpoint

_RESOURCES: Final[tuple[Route, ...]] = (
    *auth_attempts.ROUTES,
    *bindings.ROUTES,
    *connections.ROUTES,
    *definitions.ROUTES,
    *exchanges.ROUTES,
    *health.ROUTES,
    *leases.ROUTES,
    *limits.ROUTES,
    *messages.ROUTES,
    *nodes.ROUTES,
    *overview.ROUTES,
    *parameters.ROUTES,
    *permissions.ROUTES,
    *pipelines.ROUTES,
    *policies.ROUTES,
    *queues.ROUTES,
    *resumable_links.ROUTES,
    *streams.ROUTES,
    *topic_permissions.ROUTES,
    *users.ROUTES,
    *vhosts.ROUTES,
    *whoami.ROUTES,
    *endpoint.ROUTES,
)
# HTML pages for people.
PAGES: Final = manual.routes(_RESOURCES)
ROUTES: Final[tuple[Route, ...]] = (*_RESOURCES, openapi.route(_RESOURCES), *PAGES)
