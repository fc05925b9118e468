"""An opener of URLs that limits the time of an answer and follows no redirects."""

import contextlib
import socket
import ssl
import urllib.request
from email.message import Message
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection
from pathlib import Path
from threading import Timer
from typing import IO, Final, final
from urllib.parse import urlsplit

from flintmq.base.addresses import is_loopback
from flintmq.base.errors import ConfigurationError

# The time for a whole answer, from connecting on. A socket's timeout counts anew with each byte.
_ANSWER_SECONDS: Final = 10.0


def check_trusted(place: str, url: str) -> None:
    """Check that the answers of a URL can be trusted: it is https, or plain http on this machine.

    `place` is the name of the setting for the error. Raises ConfigurationError if the URL is neither, or malformed.
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        raise ConfigurationError(f"{place} {url!r} is not a URL, such as https://id.example.org") from None
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(host)):
        raise ConfigurationError(f"{place} {url!r}: answers over http can be changed on the way; use https")
    if host == "" or not (url.isascii() and url.isprintable()) or " " in url:
        raise ConfigurationError(f"{place} {url!r} is not a URL, such as https://id.example.org")


def opener(ca: Path | None) -> urllib.request.OpenerDirector:
    """Return an opener of URLs. `ca` is a file with the authority that signs the certificates of their servers.

    Raises ConfigurationError if the file cannot be used.
    """
    try:
        context = ssl.create_default_context(cafile=ca)
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(f"oauth.jwks_ca {ca} cannot be used: {error}") from error
    return urllib.request.build_opener(_HttpHandler(), _HttpsHandler(context), _NoRedirects())


@final
class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Refuses redirects, because their target was not checked as the URL was."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> None:
        return None


@final
class _HttpHandler(urllib.request.HTTPHandler):
    def http_open(self, req: urllib.request.Request) -> HTTPResponse:
        return self.do_open(_HttpConnection, req)


@final
class _HttpsHandler(urllib.request.HTTPSHandler):
    def __init__(self, context: ssl.SSLContext) -> None:
        super().__init__(context=context)
        self._tls_context = context

    def https_open(self, req: urllib.request.Request) -> HTTPResponse:
        return self.do_open(_HttpsConnection, req, context=self._tls_context)


@final
class _HttpConnection(HTTPConnection):
    def connect(self) -> None:
        super().connect()
        _limit_time(self.sock)


@final
class _HttpsConnection(HTTPSConnection):
    def connect(self) -> None:
        super().connect()
        _limit_time(self.sock)


def _limit_time(sock: socket.socket) -> None:
    timer = Timer(_ANSWER_SECONDS, _hang_up, (sock,))
    timer.daemon = True
    timer.start()


def _hang_up(sock: socket.socket) -> None:
    """Shut a socket, so that the thread that reads from it finds its end. Does nothing if it is closed already."""
    with contextlib.suppress(OSError):
        # The plain shutdown, because that of TLS would change the state that the reading thread uses.
        socket.socket.shutdown(sock, socket.SHUT_RDWR)
