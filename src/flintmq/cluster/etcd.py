"""etcd as the coordinator, over its JSON gateway (etcd 3.4 and newer: /v3/kv, /v3/lease, /v3/watch).

Keys and values are base 64, 64-bit numbers are text, and fields with their default value are left out.
"""

import asyncio
import json
import ssl
from base64 import b64encode
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, Final, TypeVar, final

import msgspec
from msgspec import Struct

from flintmq.base.errors import ConfigurationError
from flintmq.cluster.coordinator import (
    Coordinator,
    CoordinatorError,
    Doubt,
    Leader,
    LeaseLost,
    Member,
    OutcomeUnknown,
    View,
)
from flintmq.cluster.tls import etcd_tls
from flintmq.server.config import ClusterSettings

try:
    import httpx
except ModuleNotFoundError as error:
    raise ConfigurationError("a cluster needs httpx: install it with pip install 'flintmq[cluster]'") from error

# A request waits so long for one endpoint before it asks the next one. A lease of 3 s has to be renewed by then.
REQUEST_SECONDS: Final = 0.7
# A watch ends after so long without any word, and the caller reads again: nobody depends on the watch alone.
WATCH_SECONDS: Final = 10.0
# What a request can fail with. httpx passes on errors of TLS that come with the answer, such as a refused certificate.
_FAILURES: Final = (httpx.HTTPError, ssl.SSLError)
# Error codes of gRPC in the answers of the gateway. The first one stands for all answers that prove nothing, too.
_UNKNOWN: Final = 2
_NOT_FOUND: Final = 5
_PERMISSION_DENIED: Final = 7
_FAILED_PRECONDITION: Final = 9
# The token has ended, or it is older than the last change of etcd's users. The second one is also the answer to a wrong
# password, and to a request without a token.
_NOT_LOGGED_IN: Final = (16, 3)

_LEADER: Final = "leader"
_IN_SYNC: Final = "in_sync"
_FOLLOWING: Final = "following"
_MEMBERS: Final = "members/"
_ALIVE: Final = "alive/"
_DOUBTS: Final = "doubts/"
_HEIR: Final = "heir"

Json = dict[str, Any]
T = TypeVar("T")


def _text(data: str) -> str:
    return b64encode(data.encode()).decode()


def _after(prefix: str) -> str:
    """The end of the range of keys with this prefix, which ends with an ASCII character."""
    return prefix[:-1] + chr(ord(prefix[-1]) + 1)


# -- what etcd answers --------------------------------------------------------------------------------------------


class _Error(Struct):
    code: int
    error: str = ""
    message: str = ""


class _Done(Struct):
    """The answer where nothing in it matters."""


class _Token(Struct):
    token: str


class _Header(Struct):
    revision: int


class _Transaction(Struct):
    header: _Header
    succeeded: bool = False


class _Granted(Struct):
    ID: int


class _Renewed(Struct):
    TTL: int = 0


class _Renewal(Struct):
    result: _Renewed


class _Pair(Struct):
    key: bytes
    value: bytes
    mod_revision: int
    lease: int = 0

    def read(self, kind: type[T]) -> T:
        """The value, which nodes write as JSON. Raises CoordinatorError if it is something else."""
        try:
            return _read(self.value, kind)
        except ValueError as error:
            raise CoordinatorError(
                f"no node has written the value of {self.key.decode(errors='replace')} in etcd ({error}): stop what "
                "else writes there, and restore it; if that is not possible, see docs/cluster.md for how to begin again"
            ) from error


class _Range(Struct):
    header: _Header
    kvs: list[_Pair] = []


class _Described(Struct):
    """What a member writes of itself. A newer node may write more."""

    name: str
    replication: str
    version: str


class _Events(Struct):
    created: bool = False
    events: list[Any] = []


class _Watch(Struct):
    result: _Events = msgspec.field(default_factory=_Events)


def _read(data: bytes | str, kind: type[T], strict: bool = False) -> T:
    """Read an answer; if `strict`, no number is text. Raises ValueError if it is another one, as a proxy's may be."""
    try:
        return msgspec.json.decode(data, type=kind, strict=strict)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(str(error)) from error


# -- the coordinator ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Endpoint:
    """What an endpoint says of itself. `now` is its clock, in whole seconds of Unix time; 0 if it does not say."""

    version: str
    now: float


class _Refused(CoordinatorError):
    """The answer is an error of etcd, or of a proxy before it. With most codes, what was asked may be done even so."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


@final
class Etcd(Coordinator):
    """The keys of a cluster are below /flintmq/<cluster>/.

    `endpoints` are URLs, which are tried in turn. `user` and `password` are for etcd's authentication; empty for none.
    `tls` is the context for https endpoints.
    """

    def __init__(
        self,
        endpoints: list[str],
        cluster: str,
        user: str = "",
        password: str = "",
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._endpoints = [endpoint.rstrip("/") for endpoint in endpoints]
        self._prefix = f"/flintmq/{cluster}/"
        self._user = user
        self._password = password
        self._token = ""
        self._client = httpx.AsyncClient(timeout=REQUEST_SECONDS, verify=True if tls is None else tls, trust_env=False)

    # -- requests -----------------------------------------------------------------------------------------------

    async def _ask(self, path: str, body: Json, kind: type[T], changes: bool = False) -> T:
        """Send a request to the first endpoint that answers.

        A request that changes something is sent only once after it may have reached an endpoint: its answer could come
        from the second try, after the first one was followed by somebody else's change.
        """
        reasons = []
        for _ in range(len(self._endpoints)):
            endpoint = self._endpoints[0]
            try:
                return await self._ask_one(endpoint, path, body, kind)
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                reasons.append(f"{endpoint}: {str(error) or type(error).__name__}")
            except _FAILURES as error:
                reason = str(error) or type(error).__name__
                if changes:
                    self._rotate()
                    raise OutcomeUnknown(f"{endpoint} has not answered ({reason})") from error
                reasons.append(f"{endpoint}: {reason}")
            except _Refused as error:
                if error.code == _NOT_FOUND:
                    raise
                if error.code == _PERMISSION_DENIED or error.code in _NOT_LOGGED_IN:
                    raise CoordinatorError(
                        f"etcd refuses user {self._user!r} ({error}): check cluster.etcd_user, cluster.etcd_password "
                        "and the roles of this user in etcd"
                    ) from error
                # It has no leader of its own, is overloaded, or out of space, or a proxy has lost its answer: what it
                # was asked may have happened, or may still happen.
                if changes:
                    self._rotate()
                    raise OutcomeUnknown(f"{endpoint} does not know whether it was done ({error})") from error
                reasons.append(f"{endpoint}: {error}")
            self._rotate()
        raise CoordinatorError(f"etcd does not answer ({'; '.join(reasons)}): check cluster.etcd, and that it runs")

    async def look_at(self, endpoint: str) -> Endpoint:
        """Ask one endpoint for its version. Raises CoordinatorError if it does not answer, or is not etcd."""
        try:
            answer = await self._client.get(endpoint.rstrip("/") + "/version")
            version = str(answer.json()["etcdserver"])
        except _FAILURES as error:
            raise CoordinatorError(str(error) or type(error).__name__) from error
        except (ValueError, TypeError, KeyError) as error:
            raise CoordinatorError("this is not etcd") from error
        date = answer.headers.get("date", "")
        try:
            now = parsedate_to_datetime(date).timestamp()
        except ValueError:
            now = 0.0
        return Endpoint(version, now)

    def _rotate(self) -> None:
        self._endpoints.append(self._endpoints.pop(0))

    async def _ask_one(self, endpoint: str, path: str, body: Json, kind: type[T]) -> T:
        if self._user and not self._token:
            await self._log_in(endpoint)
        try:
            return await self._post(endpoint, path, body, kind)
        except _Refused as error:
            if not self._token or error.code not in _NOT_LOGGED_IN:
                raise
            # Tokens end, and with them nothing else.
            await self._log_in(endpoint)
            return await self._post(endpoint, path, body, kind)

    async def _log_in(self, endpoint: str) -> None:
        self._token = ""
        login = {"name": self._user, "password": self._password}
        try:
            answer = await self._post(endpoint, "/v3/auth/authenticate", login, _Token)
        except _Refused as error:
            if error.code != _FAILED_PRECONDITION:
                raise
            raise CoordinatorError(
                f"etcd knows no user {self._user!r} ({error}): enable authentication there, or remove cluster.etcd_user"
            ) from error
        self._token = answer.token

    async def _post(self, endpoint: str, path: str, body: Json, kind: type[T]) -> T:
        headers = {"Authorization": self._token} if self._token else {}
        answer = await self._client.post(endpoint + path, content=json.dumps(body), headers=headers)
        try:
            if answer.status_code == httpx.codes.OK:
                return _read(answer.content, kind)
            found = _read(answer.content, _Error, strict=True)
        except ValueError as error:
            start = answer.content[:200].decode(errors="replace")
            reason = f"HTTP status {answer.status_code}, {start!r}"
            if not answer.is_server_error:
                reason = f"this is not etcd 3.4 or newer: {reason}"
            raise _Refused(_UNKNOWN, reason) from error
        # etcd says with a status of 400 to 499 that it has refused something; with others, a proxy may speak.
        code = found.code if answer.is_client_error else _UNKNOWN
        raise _Refused(code, found.error or found.message or f"error {found.code}")

    def _key(self, name: str) -> str:
        return _text(self._prefix + name)

    def _put(self, name: str, value: object, lease: int = 0) -> Json:
        put: Json = {"key": self._key(name), "value": _text(json.dumps(value, sort_keys=True))}
        if lease:
            put["lease"] = str(lease)
        return {"request_put": put}

    def _delete(self, name: str) -> Json:
        return {"request_delete_range": {"key": self._key(name)}}

    def _unchanged(self, name: str, revision: int) -> Json:
        """The comparison that a key was changed last at this revision; 0 if it does not exist."""
        return {"key": self._key(name), "target": "MOD", "result": "EQUAL", "mod_revision": str(revision)}

    async def _transact(self, compare: list[Json], changes: list[Json]) -> int:
        """Make all changes if all comparisons hold. Returns the revision of the changes; 0 if none was made."""
        request = {"compare": compare, "success": changes}
        answer = await self._ask("/v3/kv/txn", request, _Transaction, changes=True)
        return answer.header.revision if answer.succeeded else 0

    async def _bound(self, lease: int, change: Callable[[], Awaitable[int]]) -> int:
        """Make a change that is bound to a lease. Raises LeaseLost."""
        try:
            return await change()
        except _Refused as error:
            if error.code == _NOT_FOUND:
                raise LeaseLost(f"lease {lease} has ended") from error
            raise

    # -- leases -------------------------------------------------------------------------------------------------

    async def grant(self, ttl: int) -> int:
        # A lease that nobody knows of ends by itself.
        return (await self._ask("/v3/lease/grant", {"TTL": str(ttl)}, _Granted)).ID

    async def renew(self, lease: int) -> None:
        answer = await self._ask("/v3/lease/keepalive", {"ID": str(lease)}, _Renewal)
        if answer.result.TTL <= 0:
            raise LeaseLost(f"lease {lease} has ended")

    async def revoke(self, lease: int) -> None:
        with suppress(_Refused):
            await self._ask("/v3/lease/revoke", {"ID": str(lease)}, _Done)

    # -- the keys -----------------------------------------------------------------------------------------------

    async def view(self) -> View:
        span = {"key": _text(self._prefix), "range_end": _text(_after(self._prefix))}
        answer = await self._ask("/v3/kv/range", span, _Range)
        leader: Leader | None = None
        in_sync: frozenset[str] = frozenset()
        in_sync_revision = 0
        members: dict[str, Member] = {}
        alive: set[str] = set()
        doubts: dict[str, Doubt] = {}
        heir = ""
        following: frozenset[str] | None = None
        told = 0
        for each in answer.kvs:
            name = each.key.decode(errors="replace")[len(self._prefix) :]
            changed = each.mod_revision
            if name == _LEADER:
                leader = Leader(each.read(str), changed, each.lease)
            elif name == _IN_SYNC:
                in_sync, in_sync_revision = frozenset(each.read(list[str])), changed
            elif name.startswith(_MEMBERS):
                node, described = name.removeprefix(_MEMBERS), each.read(_Described)
                members[node] = Member(node, described.name, described.replication, described.version)
            elif name.startswith(_ALIVE):
                alive.add(name.removeprefix(_ALIVE))
            elif name.startswith(_DOUBTS):
                doubts[name.removeprefix(_DOUBTS)] = Doubt(*each.read(tuple[int, int]))
            elif name == _HEIR:
                heir = each.read(str)
            elif name == _FOLLOWING:
                following, told = frozenset(each.read(list[str])), changed
        if leader is None or told < leader.term:
            # An earlier leader has written it.
            following = None
        revision = answer.header.revision
        return View(revision, leader, in_sync, in_sync_revision, members, frozenset(alive), doubts, heir, following)

    async def changed(self, revision: int) -> None:
        request = {
            "create_request": {
                "key": _text(self._prefix),
                "range_end": _text(_after(self._prefix)),
                "start_revision": str(revision + 1),
            }
        }
        endpoint = self._endpoints[0]
        headers = {"Authorization": self._token} if self._token else {}
        try:
            async with asyncio.timeout(WATCH_SECONDS):
                timeout = httpx.Timeout(REQUEST_SECONDS, read=None)
                url = endpoint + "/v3/watch"
                body = json.dumps(request)
                async with self._client.stream("POST", url, content=body, headers=headers, timeout=timeout) as answer:
                    async for line in answer.aiter_lines():
                        result = _read(line, _Watch).result
                        if result.events or not result.created:
                            # Events, or the end of the watch: its revision was compacted, or the login has ended.
                            return
        except TimeoutError:
            return
        except (*_FAILURES, ValueError) as error:
            self._rotate()
            raise CoordinatorError(f"{endpoint} has ended a watch ({str(error) or type(error).__name__})") from error

    async def announce(self, node: str, lease: int) -> None:
        await self._bound(lease, lambda: self._transact([], [self._put(_ALIVE + node, "", lease)]))

    async def elect(self, seen: View, node: str, lease: int) -> int:
        term = 0 if seen.leader is None else seen.leader.term
        compare = [self._unchanged(_LEADER, term), self._unchanged(_IN_SYNC, seen.in_sync_revision)]
        changes = [self._put(_LEADER, node, lease), self._delete(_HEIR)]
        return await self._bound(lease, lambda: self._transact(compare, changes))

    async def write_in_sync(self, term: int, revision: int, nodes: frozenset[str]) -> int:
        compare = [self._unchanged(_LEADER, term), self._unchanged(_IN_SYNC, revision)]
        return await self._transact(compare, [self._put(_IN_SYNC, sorted(nodes))])

    async def write_following(self, term: int, nodes: frozenset[str]) -> None:
        await self._transact([self._unchanged(_LEADER, term)], [self._put(_FOLLOWING, sorted(nodes))])

    async def doubt(self, node: str, doubt: Doubt | None, lease: int) -> None:
        if doubt is None:
            change = self._delete(_DOUBTS + node)
        else:
            change = self._put(_DOUBTS + node, [doubt.term, doubt.number], lease)
        await self._bound(lease, lambda: self._transact([], [change]))

    async def wish(self, heir: str, lease: int) -> None:
        await self._bound(lease, lambda: self._transact([], [self._put(_HEIR, heir, lease)]))

    async def resign(self, term: int) -> None:
        await self._transact([self._unchanged(_LEADER, term)], [self._delete(_LEADER)])

    async def put_member(self, member: Member, is_new: bool) -> bool:
        value = {"name": member.name, "replication": member.replication, "version": member.version}
        compare = [self._unchanged(_MEMBERS + member.id, 0)] if is_new else []
        return await self._transact(compare, [self._put(_MEMBERS + member.id, value)]) > 0

    async def remove_member(self, node: str) -> bool:
        seen = await self.view()
        if node in seen.in_sync or (seen.leader is not None and seen.leader.node == node):
            return False
        term = 0 if seen.leader is None else seen.leader.term
        compare = [self._unchanged(_LEADER, term), self._unchanged(_IN_SYNC, seen.in_sync_revision)]
        return await self._transact(compare, [self._delete(_MEMBERS + node)]) > 0

    async def close(self) -> None:
        await self._client.aclose()


def etcd_of(settings: ClusterSettings) -> Etcd:
    """Return the etcd of these settings. Raises ConfigurationError if a file of TLS cannot be used."""
    return Etcd(
        settings.etcd.split(),
        settings.name,
        settings.etcd_user,
        settings.etcd_password,
        etcd_tls(settings.etcd_ca, settings.etcd_certificate, settings.etcd_key),
    )
