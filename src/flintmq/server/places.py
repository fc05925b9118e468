"""Where users have logged in from: who has been let in at an address before does not wait for those who guess there.

It is kept over restarts, when no password is remembered. What is kept are digests of user and address under a secret of
the broker, and nothing of passwords: they tell nobody who was where, and help nobody to guess.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable
from hashlib import blake2b
from threading import Lock
from typing import Final, final

from flintmq.base.addresses import network

_DIGEST_BYTES: Final = 8
# Its first bytes are those of the user alone.
_USER_BYTES: Final = 3
# All of them are one value of the definitions, 8 KiB. Of the user who has most, the one that was used longest ago goes
# first: nobody pushes out others' places by logging in from many.
_KNOWN_MAX: Final = 1_024


@final
class Places:
    """`known` is what was kept last, and `keep` keeps another; both may be called from any thread."""

    def __init__(self, secret: bytes, known: bytes = b"", keep: Callable[[bytes], None] = lambda _: None) -> None:
        self._secret = secret
        self._keep = keep
        self._lock = Lock()
        self._known = OrderedDict.fromkeys(known[at : at + _DIGEST_BYTES] for at in range(0, len(known), _DIGEST_BYTES))

    def of(self, user: str, address: str) -> str:
        """The place that a login comes from: the address alone, or the user's own one there."""
        everybodys = network(address)
        digest = self._digest(user, everybodys)
        return f"{everybodys} {digest.hex()}" if digest in self._known else everybodys

    def seen(self, user: str, address: str) -> None:
        """The user was let in."""
        digest = self._digest(user, network(address))
        with self._lock:
            if digest in self._known:
                # It is kept with the next new one.
                self._known.move_to_end(digest)
                return
            # Another one in its place: whoever looks for something in it does not wait for the lock.
            known = self._known.copy()
            if len(known) >= _KNOWN_MAX:
                del known[_one_of_most(known)]
            known[digest] = None
            self._known = known
            self._keep(b"".join(known))

    def _digest(self, user: str, place: str) -> bytes:
        user_part = blake2b(user.encode(), digest_size=_USER_BYTES, key=self._secret)
        place_part = blake2b(f"{place} {user}".encode(), digest_size=_DIGEST_BYTES - _USER_BYTES, key=self._secret)
        return user_part.digest() + place_part.digest()


def _one_of_most(known: OrderedDict[bytes, None]) -> bytes:
    """The oldest one of the user who has most."""
    counts = Counter(digest[:_USER_BYTES] for digest in known)
    most = max(counts.values())
    return next(digest for digest in known if counts[digest[:_USER_BYTES]] == most)
