"""HTTP errors in the format of RabbitMQ's management API: a status, and a body with `error` and `reason`."""

from typing import Final

from msgspec import json
from starlette.responses import Response

from flintmq.base.errors import AccessRefused, AmqpError, FlintError, NotAllowed, NotFound, StorageError

JSON_TYPE: Final = "application/json"


class HttpError(FlintError):
    """An error answer: `error` is a word for programs, `reason` a text for people, `headers` are added."""

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
    """The login is missing or wrong. If `challenged`, a browser asks its user for a name and a password."""

    def __init__(self, reason: str = "Not_Authorized", *, challenged: bool = True) -> None:
        headers = {"www-authenticate": 'Basic realm="FlintMQ Management"'} if challenged else None
        super().__init__(401, "not_authorized", reason, headers)


class NotAuthorised(HttpError):
    """The user is known, but not permitted to do this. RabbitMQ answers with 401, too."""

    def __init__(self, reason: str) -> None:
        super().__init__(401, "not_authorised", reason)


class Missing(HttpError):
    """The object or the path does not exist."""

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
    """The HTTP error for an error of the broker."""
    if isinstance(error, HttpError):
        return error
    if isinstance(error, NotFound):
        return Missing("not_found", error.text)
    if isinstance(error, (AccessRefused, NotAllowed)):
        return NotAuthorised(error.text)
    if isinstance(error, StorageError):
        return ServiceUnavailable(str(error))
    return BadRequest(error.text if isinstance(error, AmqpError) else str(error))
