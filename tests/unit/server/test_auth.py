"""Logins: who is let in, who is not, and what is not computed twice."""

import base64
import hashlib
import threading
from dataclasses import dataclass, field
from queue import SimpleQueue
from types import SimpleNamespace

import pytest
from argon2 import PasswordHasher, extract_parameters

from flintmq.broker.access.user import User
from flintmq.broker.ports import UserRecord
from flintmq.protocol.sasl import scram
from flintmq.protocol.sasl.scram import NAMES, Keys, parse_keys
from flintmq.server import auth
from flintmq.server.auth import Authenticator, Learned, hash_password, hash_unless_known, matches, scram_keys
from flintmq.server.backoff import TOO_MANY
from flintmq.server.login_origins import LoginOrigins

HASH = hash_password("right")
# RabbitMQ's hash of "test12".
IMPORTED = "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"


def verdict(checker: Authenticator, user: str, password: str, address: str = "127.0.0.1") -> str:
    """The answer to one login."""
    answers: list[str] = []
    came = threading.Event()

    def answer(why: str) -> None:
        answers.append(why)
        came.set()

    checker.check(user, password, address, lambda: True, answer)
    assert came.wait(60)
    return answers[0]


@pytest.fixture
def checker() -> Authenticator:
    return Authenticator({name: User(UserRecord(name, HASH)) for name in ("guest", "anna")}, frozenset({"guest"}))


@pytest.mark.parametrize(
    ("user", "password", "address", "words"),
    [
        ("anna", "right", "10.1.2.3", ""),
        ("guest", "right", "127.0.0.1", ""),
        ("guest", "right", "::1", ""),
        ("anna", "wrong", "127.0.0.1", "wrong password"),
        ("anna", "", "127.0.0.1", "wrong password"),
        ("nobody", "", "127.0.0.1", "no user"),
        ("guest", "right", "10.1.2.3", "only log in from this machine"),
        ("guest", "right", "", "only log in from this machine"),
    ],
)
def test_who_is_let_in(checker: Authenticator, user: str, password: str, address: str, words: str) -> None:
    """The right password of a known user, and for guest only from this machine; also the second time."""
    for _ in range(2):
        why = verdict(checker, user, password, address)
        assert words in why
        assert bool(why) == bool(words)


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """The user and the password of each hash that is computed."""
    found: list[tuple[str, str]] = []
    matches = auth.matches

    def counted(user: UserRecord, password: str) -> bool:
        found.append((user.name, password))
        return matches(user, password)

    monkeypatch.setattr(auth, "matches", counted)
    return found


def test_a_right_password_is_computed_once(checker: Authenticator, computed: list[tuple[str, str]]) -> None:
    """A client that comes back does not wait for argon2 again; a wrong password always does."""
    for password in ("right", "right", "wrong", "wrong", "right"):
        verdict(checker, "anna", password)
    assert computed == [("anna", "right"), ("anna", "wrong"), ("anna", "wrong")]


def test_clients_that_come_together_wait_for_one_computation(
    checker: Authenticator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a restart or an election, all clients of a user come at once, before its password is remembered."""
    computed: list[str] = []
    answers: SimpleQueue[str] = SimpleQueue()
    all_wait = threading.Event()
    matches = auth.matches

    def counted(user: UserRecord, password: str) -> bool:
        assert all_wait.wait(60)
        computed.append(password)
        return matches(user, password)

    monkeypatch.setattr(auth, "matches", counted)
    for _ in range(10):
        checker.check("anna", "right", "127.0.0.1", lambda: True, answers.put)
    checker.check("anna", "wrong", "127.0.0.1", lambda: True, answers.put)
    all_wait.set()
    assert [answers.get(timeout=60) for _ in range(10)] == [""] * 10
    assert "wrong password" in answers.get(timeout=60)
    assert computed == ["right", "wrong"]


def test_nobody_waits_for_logins_of_the_gone(checker: Authenticator) -> None:
    """A login whose connection has ended is neither computed nor answered."""
    checker.check("anna", "right", "127.0.0.1", lambda: False, pytest.fail)
    assert verdict(checker, "anna", "wrong") == "wrong password for user 'anna'"


def test_a_password_that_was_changed(checker: Authenticator) -> None:
    """The one before is wrong from then on, however often it was right, and the new one is right."""
    assert verdict(checker, "anna", "right") == ""
    checker._users["anna"].record = UserRecord("anna", hash_password("new"))
    assert verdict(checker, "anna", "right") == "wrong password for user 'anna'"
    assert verdict(checker, "anna", "new") == ""


@pytest.mark.parametrize(
    ("algorithm", "password_hash"),
    [
        # The first one is an example of RabbitMQ's documentation of the format; the others are made the same way.
        ("rabbit_password_hashing_sha256", "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"),
        ("rabbit_password_hashing_sha512", None),
        ("rabbit_password_hashing_md5", None),
    ],
)
def test_rabbitmqs_hashes(algorithm: str, password_hash: str | None) -> None:
    """Users of RabbitMQ keep their passwords; no other is theirs."""
    password = "test12"
    if password_hash is None:
        salt = bytes.fromhex("908dc60a")
        digest = hashlib.new(algorithm.rpartition("_")[2], salt + password.encode()).digest()
        password_hash = base64.b64encode(salt + digest).decode()
    user = UserRecord("u", password_hash, (), algorithm)
    assert matches(user, password)
    assert not matches(user, "test13")
    assert not matches(UserRecord("u", password_hash), password)


def test_a_hash_that_asks_for_too_much_is_not_checked() -> None:
    """The right password of a hash by argon2id is wrong where the check would take more than a login may."""
    costly = PasswordHasher(time_cost=9, memory_cost=64, parallelism=1).hash("x")
    assert not matches(UserRecord("u", costly), "x")
    assert matches(UserRecord("u", PasswordHasher(time_cost=8, memory_cost=64, parallelism=1).hash("x")), "x")


@pytest.mark.parametrize("password_hash", ["", "AAAA", "not base64"])
@pytest.mark.parametrize("algorithm", ["rabbit_password_hashing_sha256", "argon2id", "something else"])
def test_hashes_that_are_none(password_hash: str, algorithm: str) -> None:
    """Nothing is the password of a user without one."""
    user = UserRecord("u", password_hash, (), algorithm)
    assert not any(matches(user, password) for password in ("", "x", password_hash))


def test_an_empty_password_is_nobodys() -> None:
    """Not even where somebody hashed it."""
    assert not matches(UserRecord("u", hash_password("")), "")


def test_a_hash_is_kept_while_it_is_of_the_password() -> None:
    """Whoever states a password again gets the hash that is there, an imported one too; another password another."""
    user = UserRecord("u", "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR", (), "rabbit_password_hashing_sha256")
    assert hash_unless_known(user, "test12") == (user.password_hash, user.hashing_algorithm)
    for known in (user, None):
        password_hash, algorithm = hash_unless_known(known, "other")
        assert matches(UserRecord("u", password_hash, (), algorithm), "other")


def test_who_is_no_user_costs_as_much_as_one(checker: Authenticator) -> None:
    """What an unknown user's password is compared with is hashed with the same effort as everybody's."""
    assert extract_parameters(checker._nobody.password_hash) == extract_parameters(HASH)
    assert not matches(checker._nobody, "nobody")


def test_who_has_an_imported_hash_is_nobodys_business(checker: Authenticator, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong password costs as much for a user whose hash is quick to check as for one that does not exist."""
    computed: list[str] = []
    verify = auth._HASHER.verify

    def counted(password_hash: str, password: str) -> bool:
        computed.append(password)
        return bool(verify(password_hash, password))

    monkeypatch.setattr(auth, "_HASHER", SimpleNamespace(verify=counted))
    checker._users["anna"].record = UserRecord("anna", "AAAA", (), "rabbit_password_hashing_sha256")
    for user in ("anna", "nobody"):
        verdict(checker, user, "wrong")
    assert computed == ["wrong", "wrong"]


@dataclass
class Learner:
    """What logins taught, by user."""

    learned: dict[str, Learned] = field(default_factory=dict)

    def __call__(self, record: UserRecord, learned: Learned) -> None:
        self.learned[record.name] = learned


def test_a_password_that_is_shown_makes_keys_for_scram() -> None:
    """A user who had none learns them with the first right password, and not with a wrong one."""
    learner = Learner()
    checker = Authenticator({"anna": User(UserRecord("anna", HASH))}, frozenset(), learner)
    verdict(checker, "anna", "wrong")
    assert not learner.learned
    verdict(checker, "anna", "right")
    assert [parse_keys(text).mechanism for text in learner.learned["anna"].scram] == list(NAMES)
    assert learner.learned["anna"].password_hash == ""


def test_keys_for_scram_are_checked_first(computed: list[tuple[str, str]]) -> None:
    """They are quicker to check than the hash. What they do not fit is checked by the hash, and so is everything if
    the settings have no SCRAM.
    """
    users = {
        "anna": User(UserRecord("anna", HASH, scram=scram_keys("right"))),
        "otto": User(UserRecord("otto", HASH, scram=scram_keys("old"))),
        # No password.
        "emma": User(UserRecord("emma", "", scram=scram_keys(""))),
    }
    checker = Authenticator(users, frozenset())
    assert verdict(checker, "anna", "right") == ""
    assert not computed
    assert "wrong password" in verdict(checker, "anna", "wrong")
    assert "wrong password" in verdict(checker, "anna", "wröng")
    assert verdict(checker, "otto", "right") == ""
    assert "wrong password" in verdict(checker, "emma", "")
    assert computed == [("anna", "wrong"), ("anna", "wröng"), ("otto", "right"), ("", "")]
    computed.clear()
    assert verdict(Authenticator(users, frozenset(), learns_scram=False), "anna", "right") == ""
    assert computed == [("anna", "right")]


def test_passwords_that_are_prepared_alike_are_the_same() -> None:
    """As RFC 4616 and SCRAM have it: full-width letters are prepared as those of ASCII. Controls are not passwords."""
    full_width = "".join(chr(ord(letter) - ord("a") + 0xFF41) for letter in "secret")
    users = {"anna": User(UserRecord("anna", HASH, scram=scram_keys(full_width)))}
    checker = Authenticator(users, frozenset())
    assert verdict(checker, "anna", "secret") == ""
    assert "wrong password" in verdict(checker, "anna", "secret\n")


def test_an_answer_does_not_show_who_has_keys_for_scram(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without keys, as much is computed as with them."""
    computed: list[int] = []
    fits = scram.fits

    def counted(keys: Keys, password: str) -> bool:
        computed.append(keys.iterations)
        return fits(keys, password)

    monkeypatch.setattr(scram, "fits", counted)
    users = {
        "anna": User(UserRecord("anna", HASH, scram=scram_keys("right"))),
        "otto": User(UserRecord("otto", HASH)),
        "emma": User(UserRecord("emma", IMPORTED, (), "rabbit_password_hashing_sha256")),
    }
    checker = Authenticator(users, frozenset())
    for name in ("anna", "otto", "emma", "nobody"):
        verdict(checker, name, "wrong")
    assert computed == [scram.ITERATIONS] * 4
    # A hash of another kind is the quickest to check.
    assert verdict(checker, "emma", "test12") == ""
    assert len(computed) == 4


def test_an_imported_hash_becomes_one_of_ours() -> None:
    """With the first right password, and with no wrong one: nobody can guess as fast as the old hash allowed."""
    learner = Learner()
    user = UserRecord("u", IMPORTED, (), "rabbit_password_hashing_sha256")
    checker = Authenticator({"u": User(user)}, frozenset(), learner, learns_scram=False)
    verdict(checker, "u", "wrong")
    assert not learner.learned
    assert verdict(checker, "u", "test12") == ""
    learned = learner.learned["u"]
    assert matches(UserRecord("u", learned.password_hash), "test12")
    assert learned.scram == ()


def test_what_strangers_see_is_the_same_after_a_restart() -> None:
    """A salt that changed with the process would tell who is a user, for a user's does not."""
    salts = {
        Authenticator({}, frozenset(), secret=secret).scram_keys("nobody", NAMES[0]).salt
        for secret in (b"kept", b"kept", b"another broker's")
    }
    assert len(salts) == 2


class Attack:
    """Somebody at one address who tries wrong passwords, more than anybody looks at."""

    def __init__(self, origins: LoginOrigins | None = None) -> None:
        self.now = 1_000.0
        self.nudges = 0
        names = ("anna", "otto", "emma", *(f"user{number}" for number in range(20)))
        users = {name: User(UserRecord(name, HASH)) for name in names}
        self.checker = Authenticator(users, frozenset(), origins=origins, clock=lambda: self.now)
        self.answers: SimpleQueue[str] = SimpleQueue()

    def begin(self, *users: str) -> None:
        """The first of them until its origin is known for that, then each of them many times."""
        for _ in range(11):
            assert "wrong" in verdict(self.checker, users[0], "wrong", "10.0.0.1")
        for number in range(200):
            self.checker.check(users[number % len(users)], "wrong", "10.0.0.1", lambda: True, self.answers.put)
        self.nudge(0)

    def come(self, user: str) -> "SimpleQueue[str]":
        """The right password, from the same address."""
        mine: SimpleQueue[str] = SimpleQueue()
        self.checker.check(user, "right", "10.0.0.1", lambda: True, mine.put)
        return mine

    def prove(self, user: str, wrong: str = "") -> "SimpleQueue[str]":
        """Somebody at the same address has proved to be this user, or not."""
        mine: SimpleQueue[str] = SimpleQueue()
        self.checker.check_proof(user, lambda: wrong, "10.0.0.1", lambda: True, mine.put)
        return mine

    def try_names(self, *users: str) -> None:
        """One wrong password for each of them."""
        for user in users:
            self.checker.check(user, "wrong", "10.0.0.1", lambda: True, self.answers.put)
        self.nudge(0)

    def nudge(self, seconds: float) -> None:
        """Time passes, and the thread looks at the clock: behind the first login from elsewhere, before the second."""
        self.now += seconds
        for _ in range(2):
            self.nudges += 1
            assert verdict(self.checker, "nobody", "x", f"10.9.9.{self.nudges}")


def test_who_guesses_has_to_wait() -> None:
    """After some wrong passwords, those from the address wait, and are refused unseen when a handshake would be over.

    Others at other addresses do not notice, nor those whose password is remembered.
    """
    attack = Attack()
    checker = attack.checker
    assert verdict(checker, "anna", "right", "10.0.0.1") == ""
    attack.begin("otto")
    assert verdict(checker, "anna", "right", "10.0.0.1") == ""
    assert verdict(checker, "otto", "right", "10.0.0.2") == ""
    attack.nudge(60)
    refused = [attack.answers.get(timeout=60) for _ in range(199)]
    assert refused.count(TOO_MANY) >= 198
    # By and by the address is like any other.
    attack.nudge(600)
    assert verdict(checker, "emma", "right", "10.0.0.1") == ""


def test_a_right_password_from_an_address_under_attack_gets_in() -> None:
    """Users take turns there: who comes for the first time waits for a turn, and not behind all guesses."""
    attack = Attack()
    attack.begin("otto")
    mine = attack.come("emma")
    for _ in range(3):
        attack.nudge(1.1)
    assert mine.get(timeout=60) == ""


def test_made_up_names_keep_no_user_waiting() -> None:
    """However many names are tried at once, and again and again, a new user is let in at the next turn."""
    attack = Attack()
    attack.begin("otto")
    for second in range(3):
        attack.try_names(*(f"nobody{second}-{number}" for number in range(500)))
        attack.nudge(1.1)
    mine = attack.come("emma")
    for _ in range(2):
        attack.try_names(*(f"none{attack.now}-{number}" for number in range(500)))
        attack.nudge(1.1)
    assert mine.get(timeout=60) == ""


def test_users_who_had_a_turn_keep_no_new_one_waiting() -> None:
    """Guesses at many users: each of them has a turn, and then one who had none comes before all of them."""
    attack = Attack()
    names = [f"user{number}" for number in range(20)]
    attack.begin("otto")
    for _ in range(7):
        attack.try_names(*names)
        attack.nudge(1.1)
    mine = attack.come("emma")
    attack.try_names(*names)
    attack.nudge(1.1)
    assert mine.get(timeout=60) == ""


def test_a_turn_computes_a_few_passwords(computed: list[tuple[str, str]]) -> None:
    """As many for names of nobody as for users, so that what else takes its time tells nobody who is one."""
    for kind in ("user", "nobody"):
        attack = Attack()
        attack.begin("otto")
        attack.nudge(1.1)
        attack.try_names(*(f"{kind}{number}" for number in range(20)))
        computed.clear()
        for _ in range(3):
            attack.nudge(1.1)
        # Those of the turns, and those that nudge.
        assert len(computed) == 3 * (4 + 2)


def test_who_is_refused_after_a_wait_cannot_tell_why() -> None:
    """Guesses at users, at names of nobody, and those that nobody looked at are refused at the same time."""
    attack = Attack()
    attack.begin("otto")
    attack.nudge(60)
    while not attack.answers.empty():
        attack.answers.get()
    for _ in range(11):
        attack.prove("none", "wrong")
    attack.try_names("emma", "nobody", *(f"none{number}" for number in range(40)))
    mine = attack.prove("anna", "wrong")
    for _ in range(6):
        attack.nudge(1.1)
    assert attack.answers.empty()
    assert mine.empty()
    attack.nudge(2)
    told = {attack.answers.get(timeout=60) for _ in range(42)}
    assert "wrong password for user 'emma'" in told
    assert "there is no user 'nobody'" in told
    assert TOO_MANY in told
    assert mine.get(timeout=60) == "wrong"


def test_who_proves_by_itself_waits_for_a_turn_as_well() -> None:
    """A login by SCRAM is no more refused than one by a password, until a handshake would be over."""
    attack = Attack()
    attack.begin("otto")
    mine, late = attack.prove("emma"), attack.prove("otto")
    assert mine.empty()
    for _ in range(3):
        attack.nudge(1.1)
    assert mine.get(timeout=60) == ""
    attack.nudge(60)
    assert late.get(timeout=60) in ("", TOO_MANY)


def test_who_was_let_in_from_there_before_does_not_wait_after_a_restart() -> None:
    """The broker keeps where users have been, and their guessers' failures are no business of others there."""
    kept: list[bytes] = []
    before = Attack(LoginOrigins(b"secret", keep=kept.append))
    assert verdict(before.checker, "emma", "right", "10.0.0.1") == ""
    assert verdict(before.checker, "otto", "wrong", "10.0.0.1")
    assert len(kept) == 1
    attack = Attack(LoginOrigins(b"secret", kept[-1]))
    attack.begin("otto", "anna", "none")
    assert attack.prove("emma").get_nowait() == ""
    assert attack.come("emma").get(timeout=60) == ""


def test_guesses_at_a_known_user_are_slowed_down_as_well() -> None:
    """Its own origin has its own pauses: a user who has been there is no easier to guess."""
    origins = LoginOrigins(b"secret")
    origins.seen("otto", "10.0.0.1")
    attack = Attack(origins)
    attack.begin("otto")
    assert attack.prove("otto").empty()
    assert attack.prove("emma").get_nowait() == ""


def test_places_have_a_bound() -> None:
    """The one known longest is forgotten; what is kept is no name and no address."""
    kept: list[bytes] = []
    origins = LoginOrigins(b"secret", keep=kept.append)
    for number in range(1_100):
        origins.seen(f"user{number}", "10.0.0.1")
    assert len(kept[-1]) == 8 * 1_024
    assert origins.of("user0", "10.0.0.1") == "10.0.0.1"
    assert origins.of("user1099", "10.0.0.1") != "10.0.0.1"
    assert origins.of("user1099", "10.0.0.2") == "10.0.0.2"
    assert b"user" not in kept[-1]


def test_keys_for_scram_of_anybody(checker: Authenticator) -> None:
    """A stranger cannot tell from the challenge who is a user: names of nobody have a salt of their own, too."""
    keys = scram_keys("right")
    checker._users["anna"].record = UserRecord("anna", HASH, scram=keys)
    assert [str(checker.scram_keys("anna", name)) for name in NAMES] == list(keys)
    nobody = checker.scram_keys("nobody", NAMES[0])
    assert nobody.salt == checker.scram_keys("nobody", NAMES[0]).salt
    assert nobody.salt != checker.scram_keys("somebody", NAMES[0]).salt
    known = checker.scram_keys("anna", NAMES[0])
    assert [len(part) for part in (nobody.salt, nobody.stored_key, nobody.server_key)] == [
        len(part) for part in (known.salt, known.stored_key, known.server_key)
    ]
