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
_API: Final = """<p>A request has a user name and a password (Basic) or a token (Bearer); bodies are JSON. A slash in a
name is written %2F. <a href="/api/openapi.json">/api/openapi.json</a> is the same reference as an OpenAPI document,
with the types of all bodies.</p>
<table>
<thead><tr><th align="left">Method</th><th align="left">Path</th><th align="left">What it does</th>
<th align="left">Needs</th></tr></thead>
<tbody>
{rows}
</tbody>
</table>"""
_ROW: Final = "<tr><td>{}</td><td><code>{}</code></td><td>{}</td><td>{}</td></tr>"
_CLI: Final = """<p>FlintMQ's command line is <code>flintmq</code>, which is installed together with the broker:
<code>flintmq --help</code> lists its commands.</p>
<p>Both versions of RabbitMQ's <code>rabbitmqadmin</code> work with this API, too; they come with RabbitMQ.</p>"""
_NO_SCRIPT: Final = (
    "rabbitmqadmin is part of RabbitMQ and is not served here: a copy of it works with this API, "
    "and so does the command flintmq"
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
        Route("GET", "/api", about_api, Right.ANYBODY, "Reference of this API, as a page."),
        Route("GET", "/api/index.html", about_api, Right.ANYBODY, "Reference of this API, as a page."),
        Route("GET", "/cli", about_cli, Right.ANYBODY, "How to get the command line, as a page."),
        Route("GET", "/cli/index.html", about_cli, Right.ANYBODY, "How to get the command line, as a page."),
        Route("GET", "/cli/rabbitmqadmin", script, Right.ANYBODY, "RabbitMQ's script: not available here."),
    )
