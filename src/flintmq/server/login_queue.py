"""Logins that wait to be checked.

Logins from an origin with many wrong passwords are checked in turns, with pauses between the turns. A turn checks one
login of each of a few names: first of users who had no turn yet, then of other users, and last of names that no user
has. So a user with the right password logs in soon, however many names an attacker makes up or knows.

The order must not tell which names are users. A right login is answered at once. A login that had to wait and is
refused gets its answer `_PATIENCE_SECONDS` after it arrived, whether it was checked or not. If no user waits, a turn
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

# The longest wait of a login: a handshake times out two seconds later.
_PATIENCE_SECONDS: Final = HANDSHAKE_SECONDS - 2
# Logins per turn. A hash takes 25 ms and pauses soon take a second, so turns use a tenth of the thread's time.
_TURN_LOGINS: Final = 4


@final
class Login:
    """One login: with a password (`secret`), by SCRAM (`proof`), or with a token (`secret`, and `answer_bearer` instead
    of `answer`).

    `proof` is called once, from any thread, and returns why the proof is wrong, or "". `is_wanted` returns whether the
    connection still waits for the answer. `is_second_try`: the issuer's keys were fetched again because of this token.
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
        # The line in which this login waits or waited, until when, and the reason with which it is refused then.
        self.line: _Line | None = None
        self.until = 0.0
        self.why = TOO_MANY
        # Whether `answer` was called.
        self.is_over = False

    @property
    def is_by_token(self) -> bool:
        return self._answer is None

    def again(self) -> "Login":
        """Return the second try of a login with a token."""
        return Login(
            self.user, self.secret, self.address, self.is_wanted, None, self._answer_bearer, is_second_try=True
        )

    def answer(self, why: str, bearer: Bearer | None = None) -> None:
        """Answer with the reason of the refusal, or "" and the bearer of the token, if the login was by token."""
        self.is_over = True
        if self._answer is not None:
            self._answer(why)
        elif self._answer_bearer is not None:
            self._answer_bearer(why, bearer)


@final
class _Line:
    """Waiting logins of one origin, by user name."""

    def __init__(self, is_user: Callable[[str], bool]) -> None:
        self._is_user = is_user
        self._by_name: dict[str, deque[Login]] = {}
        self._had_turn: set[str] = set()

    def add(self, login: Login) -> None:
        login.line = self
        self._by_name.setdefault(login.user, deque()).append(login)

    def turn(self) -> list[Login]:
        """Return the logins to check in this turn; an empty list when none waits any more."""
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
                # The name moves to the end of the dictionary, after all other names of its rank.
                self._by_name[name] = own
            if len(chosen) == _TURN_LOGINS:
                break
        return chosen

    def _rank(self, name: str) -> int:
        if not self._is_user(name):
            return 2
        return 1 if name in self._had_turn else 0

    def drop_oldest(self, name: str) -> None:
        """Remove the oldest logins with this name that were answered."""
        own = self._by_name.get(name)
        if own is None:
            return
        while own and own[0].is_over:
            own.popleft()
        if not own:
            del self._by_name[name]


@final
class LoginQueue:
    """The logins that wait to be checked.

    `origin_of` returns the origin of a login by user and address, and `is_user` whether a user with this name exists.
    The function `refuse` is called for logins that were wrong or waited too long. `put` may be called from any thread,
    all other methods by one thread only.
    """

    def __init__(
        self,
        backoff: Backoff,
        origin_of: Callable[[str, str], str],
        is_user: Callable[[str], bool],
        refuse: Callable[[Login, str], None],
        clock: Callable[[], float],
    ) -> None:
        self._backoff = backoff
        self._origin_of = origin_of
        self._is_user = is_user
        self._refuse = refuse
        self._clock = clock
        # A plain queue: unauthenticated peers may be many, and an executor's future would be a sixth of the cost of
        # each.
        self._arriving: SimpleQueue[Login | None] = SimpleQueue()
        self._lines: dict[str, _Line] = {}
        # When each line has its next turn.
        self._due: list[tuple[float, str]] = []
        # Logins of the current turn.
        self._chosen: deque[Login] = deque()
        # All logins that had to wait, in the order of their arrival.
        self._patient: deque[Login] = deque()

    def put(self, login: Login | None) -> None:
        """Add a login; None ends the queue."""
        self._arriving.put(login)

    def next(self) -> Login | None:
        """Wait for the next login to check; returns None at the end."""
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
        """Refuse a login that was checked. If it had to wait, its answer is sent when a login that is never checked
        gets it.
        """
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
        """Return whether the login can be checked now; if not, it is added to its line."""
        if login.is_by_token:
            # Tokens cannot be guessed.
            return True
        origin = self._origin_of(login.user, login.address)
        line = self._lines.get(origin)
        if line is None:
            free_at = self._backoff.free_at(origin)
            if free_at == 0:
                self._backoff.take(origin)
                return True
            line = self._lines[origin] = _Line(self._is_user)
            heappush(self._due, (free_at, origin))
        login.until = now + _PATIENCE_SECONDS
        line.add(login)
        self._patient.append(login)
        return False

    def _take_turn(self, origin: str) -> None:
        chosen = self._lines[origin].turn()
        if not chosen:
            del self._lines[origin]
            return
        self._chosen.extend(chosen)
        self._backoff.take(origin)
        heappush(self._due, (self._backoff.free_at(origin), origin))
