"""Logins that wait to be looked at, one by one.

From a place where somebody guesses they come one at a time, with pauses, and the users whose names are tried there take
turns: whoever is guessed at keeps no other user waiting.
"""

from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from queue import Empty, SimpleQueue
from typing import Final, final

from flintmq.base.limits import HANDSHAKE_SECONDS
from flintmq.broker.bearer import Bearer
from flintmq.server.backoff import TOO_MANY, Backoff

# Nobody waits longer: a handshake is over by then.
_PATIENCE_SECONDS: Final = HANDSHAKE_SECONDS


@dataclass(frozen=True, slots=True)
class Login:
    """One of a user with a password, or of a token. `is_second_try`: keys were looked for because of its token.

    One that is not `is_checked_here` waits for its turn only, and proves by itself who it is (SCRAM).
    """

    user: str
    secret: str = field(repr=False)
    address: str
    is_wanted: Callable[[], bool]
    answer: Callable[[str], None] | None
    answer_bearer: Callable[[str, Bearer | None], None] | None = None
    is_second_try: bool = False
    is_checked_here: bool = True

    def refuse(self, why: str) -> None:
        if self.answer is not None:
            self.answer(why)
        elif self.answer_bearer is not None:
            self.answer_bearer(why, None)


@final
class _Waiting:
    __slots__ = ("is_over", "login", "until")

    def __init__(self, login: Login, until: float) -> None:
        self.login = login
        self.until = until
        # It had its turn, or was refused.
        self.is_over = False


@final
class _Line:
    """Those of one place, by user."""

    def __init__(self) -> None:
        self._by_user: OrderedDict[str, deque[_Waiting]] = OrderedDict()

    def add(self, waiting: _Waiting) -> None:
        self._by_user.setdefault(waiting.login.user, deque()).append(waiting)

    def next(self) -> _Waiting | None:
        """The first one of the user whose turn it is; None where nobody waits any more."""
        while self._by_user:
            user, own = self._by_user.popitem(last=False)
            while own:
                waiting = own.popleft()
                if not waiting.is_over and waiting.login.is_wanted():
                    if own:
                        self._by_user[user] = own
                    return waiting
                waiting.is_over = True
        return None


@final
class LoginQueue:
    """`place_of` says by user and address where a login comes from; `refuse` is told of those that waited too long.

    `put` may be called from any thread, all else by one alone.
    """

    def __init__(
        self,
        backoff: Backoff,
        place_of: Callable[[str, str], str],
        refuse: Callable[[Login, str], None],
        clock: Callable[[], float],
    ) -> None:
        self._backoff = backoff
        self._place_of = place_of
        self._refuse = refuse
        self._clock = clock
        # Those who wait are strangers, and may be many: what an executor keeps for each would be a sixth of their cost.
        self._arriving: SimpleQueue[Login | None] = SimpleQueue()
        self._lines: dict[str, _Line] = {}
        # When each of them goes on.
        self._due: list[tuple[float, str]] = []
        self._patient: deque[_Waiting] = deque()

    def put(self, login: Login | None) -> None:
        """None: the last one."""
        self._arriving.put(login)

    def next(self) -> Login | None:
        """Wait for the next one to be looked at; None at the end."""
        while True:
            now = self._clock()
            while self._patient and (self._patient[0].is_over or self._patient[0].until <= now):
                self._give_up(self._patient.popleft())
            while self._due and self._due[0][0] <= now:
                found = self._turn(heappop(self._due)[1])
                if found is not None:
                    return found
            moments = [each[0] for each in self._due[:1]] + [each.until for each in list(self._patient)[:1]]
            try:
                login = self._arriving.get(timeout=min(moments) - now if moments else None)
            except Empty:
                continue
            if login is None or self._may_go(login, now):
                return login

    def _give_up(self, waiting: _Waiting) -> None:
        if not waiting.is_over:
            waiting.is_over = True
            self._refuse(waiting.login, TOO_MANY)

    def _may_go(self, login: Login, now: float) -> bool:
        """Whether it need not wait; else it is in its line."""
        if login.answer is None:
            # Nobody guesses tokens.
            return True
        place = self._place_of(login.user, login.address)
        line = self._lines.get(place)
        if line is None:
            free_at = self._backoff.free_at(place)
            if free_at == 0:
                self._backoff.take(place)
                return True
            line = self._lines[place] = _Line()
            heappush(self._due, (free_at, place))
        waiting = _Waiting(login, now + _PATIENCE_SECONDS)
        line.add(waiting)
        self._patient.append(waiting)
        return False

    def _turn(self, place: str) -> Login | None:
        """The next one from there; None where all have gone."""
        waiting = self._lines[place].next()
        if waiting is None:
            del self._lines[place]
            return None
        waiting.is_over = True
        self._backoff.take(place)
        heappush(self._due, (self._backoff.free_at(place), place))
        return waiting.login
