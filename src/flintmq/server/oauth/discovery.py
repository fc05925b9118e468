"""Discovery of the URL of an issuer's keys (OpenID Connect Discovery 1.0)."""

import json
from typing import Final
from urllib.parse import urlsplit

from flintmq.base.errors import ConfigurationError
from flintmq.server.oauth.url_opener import check_trusted

_PATH: Final = "/.well-known/openid-configuration"
# The longest quotation of a web server's answer in the log.
_QUOTED_MAX_CHARACTERS: Final = 200


def document_url(issuer: str) -> str:
    """Return the URL of an issuer's configuration (§4.1). Raises ConfigurationError if the issuer is not valid."""
    check_trusted("oauth.issuer", issuer)
    parts = urlsplit(issuer)
    if parts.query or parts.fragment:
        raise ConfigurationError(f"oauth.issuer {issuer}: an issuer has no query and no fragment (? and #)")
    return issuer.removesuffix("/") + _PATH


def keys_url(issuer: str, document: bytes) -> str:
    """Return the URL of the keys in an issuer's configuration. Raises ConfigurationError if there is no valid one."""
    source = document_url(issuer)
    try:
        configuration = json.loads(document)
        named, url = configuration["issuer"], configuration["jwks_uri"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ConfigurationError(
            f'{source} is not an OpenID Connect configuration ({{"issuer": "...", "jwks_uri": "..."}}): correct '
            "oauth.issuer, or set oauth.jwks to the URL of the keys"
        ) from error
    # §4.3: the issuer must be exactly equal, or the server that answers could speak for another issuer.
    if named != issuer:
        raise ConfigurationError(
            f"{source} belongs to another issuer, {_quoted(named)}: oauth.issuer must be exactly the same text"
        )
    place = f"jwks_uri in {source}:"
    if not isinstance(url, str):
        raise ConfigurationError(f"{place} {_quoted(url)} is not a URL")
    check_trusted(place, url)
    if urlsplit(issuer).scheme == "https" and urlsplit(url).scheme != "https":
        # URLs on this machine are trusted only if the settings name them, not if an issuer does.
        raise ConfigurationError(f"{place} {_quoted(url)} must be https, because oauth.issuer is")
    return url


def _quoted(value: object) -> str:
    return repr(value)[:_QUOTED_MAX_CHARACTERS]
