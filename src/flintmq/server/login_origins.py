"""Origins of logins: a user who has logged in from an address before does not wait for wrong passwords of others there.

The known origins survive restarts. They are digests of user and address under a secret of the broker, and hold nothing
of passwords, so they do not tell who logged in from where, and do not help to guess.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable
from hashlib import blake2b
from threading import Lock
from typing import Final, final

from flintmq.base.addresses import network

_DIGEST_BYTES: Final = 8
# The first bytes of a digest depend on the user alone.
_USER_BYTES: Final = 3
# All origins are one value of the definitions, 8 KiB. The first to be removed is the least recently used origin of the
# user who has most, so that a user with many addresses does not push out the origins of others.
_KNOWN_MAX: Final = 1_024


@final
class LoginOrigins:
    """The known origins. `keep` stores a new value of them; `known` is the value that was stored last.

    `keep` and all methods may be called from any thread.
    """

    def __init__(self, secret: bytes, known: bytes = b"", keep: Callable[[bytes], None] = lambda _: None) -> None:
        self._secret = secret
        self._keep = keep
        self._lock = Lock()
        self._known = OrderedDict.fromkeys(known[at : at + _DIGEST_BYTES] for at in range(0, len(known), _DIGEST_BYTES))

    def of(self, user: str, address: str) -> str:
        """Return the origin of a login: the user's own one if the user is known at this address, else the address
        alone.
        """
        everybodys = network(address)
        digest = self._digest(user, everybodys)
        return f"{everybodys} {digest.hex()}" if digest in self._known else everybodys

    def seen(self, user: str, address: str) -> None:
        """Remember that the user has logged in from this address."""
        digest = self._digest(user, network(address))
        with self._lock:
            if digest in self._known:
                # `keep` is called with the new order when the next origin is added.
                self._known.move_to_end(digest)
                return
            # A copy replaces the dictionary, so that readers need no lock.
            known = self._known.copy()
            if len(known) >= _KNOWN_MAX:
                del known[_one_of_most(known)]
            known[digest] = None
            self._known = known
            self._keep(b"".join(known))

    def _digest(self, user: str, origin: str) -> bytes:
        user_part = blake2b(user.encode(), digest_size=_USER_BYTES, key=self._secret)
        origin_part = blake2b(f"{origin} {user}".encode(), digest_size=_DIGEST_BYTES - _USER_BYTES, key=self._secret)
        return user_part.digest() + origin_part.digest()


def _one_of_most(known: OrderedDict[bytes, None]) -> bytes:
    """Return the least recently used origin of the user who has most origins."""
    counts = Counter(digest[:_USER_BYTES] for digest in known)
    most = max(counts.values())
    return next(digest for digest in known if counts[digest[:_USER_BYTES]] == most)
