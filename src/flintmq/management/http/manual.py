"""HTML pages that RabbitMQ has beside its API: a reference of the API, and where to get the command line."""

from collections.abc import Iterable
from html import escape
from typing import Final

from starlette.responses import HTMLResponse, Response

from flintmq.management.errors import Missing
from flintmq.management.http.access import Right
from flintmq.management.http.call import Call
from flintmq.management.http.routes import Route

_PAGE: Final = """<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>{title}</title></head>
<body>
<h1>{title}</h1>
{content}
</body>
</html>
"""
_API: Final = """<p>Requests carry a name and a password (Basic) or a token (Bearer); bodies are JSON. A slash in a
name is written %2F. <a href="/api/openapi.json">/api/openapi.json</a> is the same as an OpenAPI document,
with all bodies.</p>
<table>
<thead><tr><th align="left">Method</th><th align="left">Path</th><th align="left">What it does</th>
<th align="left">Needs</th></tr></thead>
<tbody>
{rows}
</tbody>
</table>"""
_ROW: Final = "<tr><td>{}</td><td><code>{}</code></td><td>{}</td><td>{}</td></tr>"
_CLI: Final = """<p>FlintMQ's own command line is <code>flintmq</code>, which is where the broker is installed:
<code>flintmq --help</code> lists its commands.</p>
<p><code>rabbitmqadmin</code>, of either version, works with this broker's API; it is a program of RabbitMQ's, to be had
where RabbitMQ is.</p>"""
_NO_SCRIPT: Final = (
    "rabbitmqadmin is a program of RabbitMQ's and is not here: one that you have works with this API, and the command "
    "flintmq does the same"
)


def routes(rows: Iterable[Route]) -> tuple[Route, ...]:
    """The routes of the pages; `rows` are the documented routes."""
    described = "\n".join(
        _ROW.format(*map(escape, (row.method, row.path, row.summary, row.right.value)))
        for row in sorted(rows, key=lambda row: (row.path, row.method))
        if "//" not in row.path
    )
    api = _PAGE.format(title="FlintMQ's HTTP API", content=_API.format(rows=described))
    cli = _PAGE.format(title="Command line", content=_CLI)

    async def about_api(_call: Call) -> Response:
        return HTMLResponse(api)

    async def about_cli(_call: Call) -> Response:
        return HTMLResponse(cli)

    async def script(_call: Call) -> Response:
        raise Missing("not_found", _NO_SCRIPT)

    return (
        Route("GET", "/api", about_api, Right.ANYBODY, "What this API can do, as a page."),
        Route("GET", "/api/index.html", about_api, Right.ANYBODY, "The same."),
        Route("GET", "/cli", about_cli, Right.ANYBODY, "Where a command line is to be had, as a page."),
        Route("GET", "/cli/index.html", about_cli, Right.ANYBODY, "The same."),
        Route("GET", "/cli/rabbitmqadmin", script, Right.ANYBODY, "RabbitMQ's script, which is not here."),
    )
