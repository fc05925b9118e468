"""What is fetched from an URL: in a bounded time, from nowhere else than where it says."""

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

# For all of an answer, from the connection on: a timeout counts from byte to byte, and a server may have many of them.
_ANSWER_SECONDS: Final = 10.0


def check_trusted(place: str, url: str) -> None:
    """`place` is where the URL stands. Raises ConfigurationError for one whose answers anybody could have given."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        raise ConfigurationError(f"{place} {url!r} is no URL, such as https://id.example.org") from None
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(host)):
        raise ConfigurationError(f"{place} {url!r}: whoever can change what comes from there is anybody; use https")
    if host == "" or not (url.isascii() and url.isprintable()) or " " in url:
        raise ConfigurationError(f"{place} {url!r} is no URL, such as https://id.example.org")


def opener(ca: Path | None) -> urllib.request.OpenerDirector:
    """Opens URLs. `ca` is a file that says whose certificates their servers may have.

    Raises ConfigurationError for one that cannot be used.
    """
    try:
        context = ssl.create_default_context(cafile=ca)
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(f"oauth.jwks_ca {ca} cannot be used: {error}") from error
    return urllib.request.build_opener(_Plain(), _Secure(context), _NoRedirects())


@final
class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """What was checked about an URL is not true of where it leads on to."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> None:
        return None


@final
class _Plain(urllib.request.HTTPHandler):
    def http_open(self, req: urllib.request.Request) -> HTTPResponse:
        return self.do_open(_PlainConnection, req)


@final
class _Secure(urllib.request.HTTPSHandler):
    def __init__(self, context: ssl.SSLContext) -> None:
        super().__init__(context=context)
        self._trust = context

    def https_open(self, req: urllib.request.Request) -> HTTPResponse:
        return self.do_open(_SecureConnection, req, context=self._trust)


@final
class _PlainConnection(HTTPConnection):
    def connect(self) -> None:
        super().connect()
        _end_in_time(self.sock)


@final
class _SecureConnection(HTTPSConnection):
    def connect(self) -> None:
        super().connect()
        _end_in_time(self.sock)


def _end_in_time(sock: socket.socket) -> None:
    timer = Timer(_ANSWER_SECONDS, _hang_up, (sock,))
    timer.daemon = True
    timer.start()


def _hang_up(sock: socket.socket) -> None:
    """Whoever reads from it finds its end. Where all was read long ago, there is nothing to be done."""
    with contextlib.suppress(OSError):
        # Not TLS's own way, which changes what the reading thread is at.
        socket.socket.shutdown(sock, socket.SHUT_RDWR)
