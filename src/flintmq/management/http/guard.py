"""The outermost layer of the application, which handles every request and answer.

Requests that browsers send on behalf of other sites change nothing. Answers have headers against framing, caching,
content sniffing and foreign scripts. The path is matched as it was sent, so that `%2F` is part of a name.
"""

from email.utils import formatdate
from typing import Final, final
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from flintmq.management.errors import HttpError

# Key in the scope of a request whose sender has logged in.
AUTHENTICATED: Final = "flintmq.known"

_SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
# Values of Sec-Fetch-Site for requests that were not sent by another site.
_OURSELVES: Final = frozenset({"same-origin", "none"})
_CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
_HEADERS: Final[tuple[tuple[bytes, bytes], ...]] = (
    (b"content-security-policy", _CONTENT_SECURITY_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
)
# Two years. Browsers use this header over TLS only.
_STRICT_TRANSPORT: Final = (b"strict-transport-security", b"max-age=63072000")
_DO_NOT_KEEP: Final = (b"cache-control", b"no-cache, no-store")


@final
class Guard:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        path = scope["raw_path"].decode("latin-1")
        # An additional slash at the end is ignored. Two slashes mean an empty name, or a / that was not encoded.
        if path.endswith("/") and not path.endswith("//"):
            path = path[:-1] or "/"
        scope = {**scope, "path": path}

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = [*message["headers"], *_added(scope, message["headers"])]
                if not _may_stay(scope, message["status"]):
                    headers.append((b"connection", b"close"))
                message["headers"] = headers
            await send(message)

        if is_forged(scope["method"], Headers(scope=scope)):
            refusal = HttpError(403, "forbidden", "cross-site requests from browsers are refused")
            await refusal.response()(scope, receive, guarded)
        else:
            await self._app(scope, receive, guarded)


def is_forged(method: str, headers: Headers) -> bool:
    """Tell whether a browser sent this request for another site, as a form can.

    Without a CORS preflight, which is never granted, another site can send neither JSON nor a header of its own.
    """
    if method in _SAFE_METHODS:
        return False
    site = headers.get("sec-fetch-site")
    origin = headers.get("origin")
    if site is not None:
        is_foreign = site not in _OURSELVES
    else:
        is_foreign = origin is not None and urlsplit(origin).netloc != headers.get("host")
    content_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    return is_foreign and content_type != "application/json" and "x-requested-with" not in headers


def _may_stay(scope: Scope, status: int) -> bool:
    """Tell whether the connection may be kept. An unauthenticated client keeps it only after a success without a
    request body.
    """
    if AUTHENTICATED in scope:
        return True
    headers = Headers(scope=scope)
    return status < 400 and "content-length" not in headers and "transfer-encoding" not in headers


def _added(scope: Scope, given: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    names = {name.lower() for name, _ in given}
    added = [(b"date", formatdate(usegmt=True).encode()), *(each for each in _HEADERS if each[0] not in names)]
    if b"cache-control" not in names:
        added.append(_DO_NOT_KEEP)
    if scope["scheme"] == "https":
        added.append(_STRICT_TRANSPORT)
    return added
