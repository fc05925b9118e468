"""Logins that wait to be looked at.

From a place where somebody guesses they come in turns, with pauses between them. A turn looks at a few names, at one
login of each: first at users who had no turn yet, then at other users, and last at names that are nobody's. So however
many names somebody makes up or knows, a user who comes there with the right password is let in soon.

Nobody must learn from this which names are users. A right login is answered at once, and each that is refused after it
had to wait is told so `_PATIENCE_SECONDS` after it came, whether it was looked at or not. Where no user waits, a turn
computes as much for the other names.
"""

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from queue import Empty, SimpleQueue
from typing import Final, final

from flintmq.base.limits import HANDSHAKE_SECONDS
from flintmq.broker.access.bearer import Bearer
from flintmq.server.backoff import TOO_MANY, Backoff

# Nobody waits longer: a handshake is over two seconds later.
_PATIENCE_SECONDS: Final = HANDSHAKE_SECONDS - 2
# Logins that a turn looks at. A hash takes 25 ms, and pauses are of a second soon: a tenth of the thread's time.
_TURN_LOGINS: Final = 4


@final
class Login:
    """One of a user with a password (`secret`) or, where it has a `proof`, by SCRAM; or of a token, which has
    `answer_bearer` instead of `answer`.

    A `proof` is called once, from any thread, and says what is wrong, empty where nothing is. `is_wanted` says whether
    somebody still waits for the answer. `is_second_try`: keys were looked for because of its token.
    """

    __slots__ = (
        "_answer",
        "_answer_bearer",
        "address",
        "is_over",
        "is_second_try",
        "is_wanted",
        "line",
        "proof",
        "secret",
        "until",
        "user",
        "why",
    )

    def __init__(
        self,
        user: str,
        secret: str,
        address: str,
        is_wanted: Callable[[], bool],
        answer: Callable[[str], None] | None,
        answer_bearer: Callable[[str, Bearer | None], None] | None = None,
        *,
        proof: Callable[[], str] | None = None,
        is_second_try: bool = False,
    ) -> None:
        self.user = user
        self.secret = secret
        self.address = address
        self.is_wanted = is_wanted
        self.proof = proof
        self.is_second_try = is_second_try
        self._answer = answer
        self._answer_bearer = answer_bearer
        # Where it waits or waited, if it had to: until when, and why it is refused then.
        self.line: _Line | None = None
        self.until = 0.0
        self.why = TOO_MANY
        # Answered.
        self.is_over = False

    @property
    def is_by_token(self) -> bool:
        return self._answer is None

    def again(self) -> "Login":
        """A token's second try."""
        return Login(
            self.user, self.secret, self.address, self.is_wanted, None, self._answer_bearer, is_second_try=True
        )

    def answer(self, why: str, bearer: Bearer | None = None) -> None:
        """`why` it is refused, empty where it is accepted; who came with the token, if it was one."""
        self.is_over = True
        if self._answer is not None:
            self._answer(why)
        elif self._answer_bearer is not None:
            self._answer_bearer(why, bearer)


@final
class _Line:
    """Those of one place, by name."""

    def __init__(self, is_user: Callable[[str], bool]) -> None:
        self._is_user = is_user
        self._by_name: dict[str, deque[Login]] = {}
        self._had_turn: set[str] = set()

    def add(self, login: Login) -> None:
        login.line = self
        self._by_name.setdefault(login.user, deque()).append(login)

    def turn(self) -> list[Login]:
        """Those whose turn it is; none where nobody waits any more."""
        chosen: list[Login] = []
        for name in sorted(self._by_name, key=self._rank):
            own = self._by_name.pop(name)
            while own and not own[0].is_wanted():
                own.popleft()
            if own:
                chosen.append(own.popleft())
                if self._is_user(name):
                    self._had_turn.add(name)
            if own:
                # Behind all others of its rank.
                self._by_name[name] = own
            if len(chosen) == _TURN_LOGINS:
                break
        return chosen

    def _rank(self, name: str) -> int:
        if not self._is_user(name):
            return 2
        return 1 if name in self._had_turn else 0

    def drop_oldest(self, name: str) -> None:
        """Those that are answered need no turn."""
        own = self._by_name.get(name)
        if own is None:
            return
        while own and own[0].is_over:
            own.popleft()
        if not own:
            del self._by_name[name]


@final
class LoginQueue:
    """`place_of` says by user and address where a login comes from, `is_user` whether a name is one; `refuse` is told
    of those that were wrong, or waited too long.

    `put` may be called from any thread, all else by one alone.
    """

    def __init__(
        self,
        backoff: Backoff,
        place_of: Callable[[str, str], str],
        is_user: Callable[[str], bool],
        refuse: Callable[[Login, str], None],
        clock: Callable[[], float],
    ) -> None:
        self._backoff = backoff
        self._place_of = place_of
        self._is_user = is_user
        self._refuse = refuse
        self._clock = clock
        # Those who wait are strangers, and may be many: what an executor keeps for each would be a sixth of their cost.
        self._arriving: SimpleQueue[Login | None] = SimpleQueue()
        self._lines: dict[str, _Line] = {}
        # When each of them goes on.
        self._due: list[tuple[float, str]] = []
        # Those whose turn it is.
        self._chosen: deque[Login] = deque()
        # All that had to wait, in the order they came.
        self._patient: deque[Login] = deque()

    def put(self, login: Login | None) -> None:
        """None: the last one."""
        self._arriving.put(login)

    def next(self) -> Login | None:
        """Wait for the next one to be looked at; None at the end."""
        while True:
            if self._chosen:
                return self._chosen.popleft()
            now = self._clock()
            while self._patient and (self._patient[0].is_over or self._patient[0].until <= now):
                self._give_up(self._patient.popleft())
            if self._due and self._due[0][0] <= now:
                self._take_turn(heappop(self._due)[1])
                continue
            moments = [self._due[0][0]] if self._due else []
            if self._patient:
                moments.append(self._patient[0].until)
            try:
                login = self._arriving.get(timeout=min(moments) - now if moments else None)
            except Empty:
                continue
            if login is None or self._may_go(login, now):
                return login

    def refuse(self, login: Login, why: str) -> None:
        """Refuse one that was looked at: if it had to wait, it is told when those are that are never looked at."""
        if login.line is None:
            self._refuse(login, why)
        else:
            login.why = why

    def _give_up(self, login: Login) -> None:
        if not login.is_over:
            self._refuse(login, login.why)
            login.is_over = True
        if login.line is not None:
            login.line.drop_oldest(login.user)

    def _may_go(self, login: Login, now: float) -> bool:
        """Whether it need not wait; else it is in its line."""
        if login.is_by_token:
            # Nobody guesses tokens.
            return True
        place = self._place_of(login.user, login.address)
        line = self._lines.get(place)
        if line is None:
            free_at = self._backoff.free_at(place)
            if free_at == 0:
                self._backoff.take(place)
                return True
            line = self._lines[place] = _Line(self._is_user)
            heappush(self._due, (free_at, place))
        login.until = now + _PATIENCE_SECONDS
        line.add(login)
        self._patient.append(login)
        return False

    def _take_turn(self, place: str) -> None:
        chosen = self._lines[place].turn()
        if not chosen:
            del self._lines[place]
            return
        self._chosen.extend(chosen)
        self._backoff.take(place)
        heappush(self._due, (self._backoff.free_at(place), place))
