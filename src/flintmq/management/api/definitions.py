"""Export and import of definitions in RabbitMQ's format, while the broker runs."""

import asyncio
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from starlette.responses import Response

from flintmq.broker.ports import UserRecord
from flintmq.management.api.parameters import cluster_name
from flintmq.management.definitions.document import Document, UserEntry
from flintmq.management.definitions.exporter import Fields, metadata_of, sections_of, sections_of_vhost
from flintmq.management.definitions.importer import import_in_steps
from flintmq.management.errors import BadRequest
from flintmq.management.http.access import Right
from flintmq.management.http.call import Call, no_content
from flintmq.management.http.concurrency import LISTS
from flintmq.management.http.listing import encoded_object
from flintmq.management.http.routes import Route
from flintmq.management.ports import Secret
from flintmq.management.slices import gathered

# Errors name the body by this word.
_PLACE: Final = "definitions"
# File names that need no quoting in a header.
_FILE_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+\-.^_`|~]{1,255}")


async def _export(call: Call) -> Response:
    name = cluster_name(call)
    head: Fields = {
        **_versions(call),
        "rabbitmq_definition_format": "cluster",
        "original_cluster_name": name,
        "explanation": f"Definitions of cluster '{name}'",
    }
    return await _exported(call, head, sections_of(call.broker))


async def _export_vhost(call: Call) -> Response:
    vhost = call.vhost()
    head: Fields = {
        **_versions(call),
        "rabbitmq_definition_format": "single_virtual_host",
        "original_vhost_name": vhost.name,
        "explanation": f"Definitions of virtual host '{vhost.name}'",
        "description": vhost.record.description,
        "metadata": metadata_of(vhost),
        "limits": vhost.limits.values,
    }
    return await _exported(call, head, sections_of_vhost(call.broker, vhost))


def _versions(call: Call) -> Fields:
    version = call.node.rabbitmq_version
    return {
        "rabbit_version": version,
        "rabbitmq_version": version,
        "product_name": "FlintMQ",
        "product_version": call.node.version,
    }


async def _exported(call: Call, head: Fields, sections: dict[str, Iterator[Fields]]) -> Response:
    response = await encoded_object(head, sections)
    if name := call.query("download"):
        if not _FILE_NAME.fullmatch(name):
            raise BadRequest("download must be a file name")
        response.headers["content-disposition"] = f"attachment; filename={name}"
    return response


async def _import(call: Call) -> Response:
    return await _imported(call, None)


async def _import_vhost(call: Call) -> Response:
    return await _imported(call, call.vhost().name)


async def _imported(call: Call, vhost: str | None) -> Response:
    """Import definitions. The file is checked before anything is changed; existing objects may still refuse a part of
    it.
    """
    call.check_alarms()
    # Parsing a large file takes tens of milliseconds, so a thread does it while the event loop continues.
    document = await asyncio.to_thread(Document, await call.data(), _PLACE, vhost)
    secrets = iter(await _secrets(call, document))

    def hasher(_known: UserRecord | None, _password: str) -> tuple[str, str]:
        secret = next(secrets)
        return secret.hash, secret.algorithm

    call.node.now_ms()
    remarks = await gathered(import_in_steps(document, call.broker, hasher))
    for remark in remarks:
        if remark is not None:
            call.node.log.warning("no effect", what=remark)
    await call.node.durable()
    return no_content()


async def _secrets(call: Call, document: Document) -> Sequence[Secret]:
    """The hashes for users with a plain-text password, in the order of the users."""
    wanted = [
        (_known(call, entry), entry.password)
        for entry in document.users
        if entry.password is not None and entry.password_hash is None
    ]
    return await call.node.hash_passwords(wanted) if wanted else []


def _known(call: Call, entry: UserEntry) -> UserRecord | None:
    user = call.broker.users.get(entry.name)
    return None if user is None else user.record


_GIVES: Any = dict[str, Any]
_OF_VHOST: Final = "/api/definitions/{vhost}"
_ADMIN: Final = Right.ADMINISTRATOR

ROUTES: Final = (
    Route("GET", "/api/definitions", _export, _ADMIN, "Export all definitions.", _GIVES, group=LISTS),
    Route("GET", "/api/all-configuration", _export, _ADMIN, "Export all definitions (old path).", _GIVES, group=LISTS),
    Route("POST", "/api/definitions", _import, _ADMIN, "Import definitions.", None, _GIVES, "definitions.import"),
    Route(
        "POST",
        "/api/all-configuration",
        _import,
        _ADMIN,
        "Import definitions (old path).",
        None,
        _GIVES,
        "definitions.import",
    ),
    Route("GET", _OF_VHOST, _export_vhost, _ADMIN, "Export the definitions of a virtual host.", _GIVES, group=LISTS),
    Route(
        "POST",
        _OF_VHOST,
        _import_vhost,
        _ADMIN,
        "Import definitions into a virtual host.",
        None,
        _GIVES,
        "definitions.import",
    ),
)
