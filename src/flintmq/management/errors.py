"""Refusals, as RabbitMQ's management API words them: a status, and a body of `error` and `reason`."""

from typing import Final

from msgspec import json
from starlette.responses import Response

from flintmq.base.errors import AccessRefused, AmqpError, FlintError, NotAllowed, NotFound, StorageError

JSON_TYPE: Final = "application/json"


class HttpError(FlintError):
    """`error` is the word that programs look at, `reason` is for people. `headers` go along."""

    def __init__(self, status: int, error: str, reason: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(reason)
        self.status = status
        self.error = error
        self.reason = reason
        self.headers = headers

    def response(self) -> Response:
        body = json.encode({"error": self.error, "reason": self.reason})
        return Response(body, self.status, self.headers, JSON_TYPE)


class BadRequest(HttpError):
    def __init__(self, reason: str, error: str = "bad_request") -> None:
        super().__init__(400, error, reason)


class NotAuthenticated(HttpError):
    """Nobody we know; a browser asks its user for a name and a password if it is `challenged`."""

    def __init__(self, reason: str = "Not_Authorized", *, challenged: bool = True) -> None:
        headers = {"www-authenticate": 'Basic realm="FlintMQ Management"'} if challenged else None
        super().__init__(401, "not_authorized", reason, headers)


class NotAuthorised(HttpError):
    """Somebody we know, who may not do that. RabbitMQ says so by 401, too."""

    def __init__(self, reason: str) -> None:
        super().__init__(401, "not_authorised", reason)


class Missing(HttpError):
    """There is no such thing, or no such path."""

    def __init__(self, error: str = "Object Not Found", reason: str = "Not Found") -> None:
        super().__init__(404, error, reason)


class MethodNotAllowed(HttpError):
    def __init__(self, allowed: str) -> None:
        super().__init__(405, "method_not_allowed", f"Method Not Allowed: there are {allowed}", {"allow": allowed})


class PreconditionFailed(HttpError):
    def __init__(self, reason: str) -> None:
        super().__init__(412, "precondition_failed", reason)


class BodyTooLarge(HttpError):
    def __init__(self, most: int) -> None:
        super().__init__(413, "payload_too_large", f"Exceeded HTTP request body size limit of {most} bytes")


class ServiceUnavailable(HttpError):
    def __init__(self, reason: str) -> None:
        super().__init__(503, "service_unavailable", reason)


def refusal_of(error: FlintError) -> HttpError:
    """What the broker refuses, as the API says it."""
    if isinstance(error, HttpError):
        return error
    if isinstance(error, NotFound):
        return Missing("not_found", error.text)
    if isinstance(error, (AccessRefused, NotAllowed)):
        return NotAuthorised(error.text)
    if isinstance(error, StorageError):
        return ServiceUnavailable(str(error))
    return BadRequest(error.text if isinstance(error, AmqpError) else str(error))
