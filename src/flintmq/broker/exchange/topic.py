"""topic: routes by patterns of words between dots. `*` matches one word, `#` any number of words.

amqp-0-9-1 §3.1.3.3. An empty routing key has no words, as in RabbitMQ.

The words of patterns before their first `#` form a tree. The words behind each last `#` form another tree, read from
the end of the key. Matching therefore visits a word of a pattern at most once. The words between two `#` can be
anywhere in the key: `segments.py` searches them.
"""

from typing import Final, final

from mypy_extensions import i64

from flintmq.base.errors import PreconditionFailed
from flintmq.base.limits import TOPIC_HASHES_MAX, TOPIC_INNER_WORDS_MAX
from flintmq.base.work import WORK
from flintmq.broker.exchange.base import Binding, Exchange
from flintmq.broker.exchange.segments import Segmented, Segments
from flintmq.broker.message import Message, Table

# Words of patterns that are compared with words of a key in one unit of work.
_VISITED_PER_UNIT: Final = 4


@final
class _Node:
    """A word at one position of patterns. `bindings` are those of the patterns that end here."""

    def __init__(self) -> None:
        self.children: dict[str, _Node] = {}
        self.star: _Node | None = None
        self.hash: _Hash | None = None
        self.bindings: dict[Binding, None] = {}

    def child(self, word: str) -> "_Node | None":
        return self.star if word == "*" else self.children.get(word)

    def make_child(self, word: str) -> "_Node":
        found = self.child(word)
        if found is None:
            found = _Node()
            if word == "*":
                self.star = found
            else:
                self.children[word] = found
        return found

    def drop_child(self, word: str) -> None:
        if word == "*":
            self.star = None
        else:
            del self.children[word]

    @property
    def is_empty(self) -> bool:
        return not self.bindings and not self.children and self.star is None and self.hash is None


@final
class _Hash:
    """The first `#` of patterns. `tails` are the words behind it, last first; `inner` are patterns with further `#`."""

    def __init__(self) -> None:
        self.bindings: dict[Binding, None] = {}
        self.tails = _Node()
        self.inner: dict[Segmented, None] = {}

    @property
    def is_empty(self) -> bool:
        return not self.bindings and not self.inner and self.tails.is_empty


def words_of(key: str) -> list[str]:
    """Return the words of a key or pattern, none for an empty one, so that `*` does not match it."""
    return key.split(".") if key else []


def parts(pattern: str) -> list[list[str]]:
    """Split a pattern's words at its `#`.

    Neighbouring `#` count as one, and a `*` at the beginning of a part between two `#` moves before the first of them,
    which matches the same keys. Each part to be searched therefore begins with a literal.
    """
    split: list[list[str]] = [[]]
    for word in words_of(pattern):
        if word == "#":
            split.append([])
        else:
            split[-1].append(word)
    found = split[:1]
    for part in split[1:-1]:
        stars = 0
        while stars < len(part) and part[stars] == "*":
            stars += 1
        found[-1].extend(part[:stars])
        if stars < len(part):
            found.append(part[stars:])
    return found if len(split) == 1 else [*found, split[-1]]


@final
class TopicExchange(Exchange):
    type = "topic"

    def __init__(
        self, vhost: str, name: str, durable: bool, auto_delete: bool, internal: bool, arguments: Table
    ) -> None:
        super().__init__(vhost, name, durable, auto_delete, internal, arguments)
        self._root = _Node()
        self._segments = Segments()

    def check_binding(self, binding: Binding) -> None:
        between = parts(binding.routing_key)
        if len(between) - 1 > TOPIC_HASHES_MAX:
            raise PreconditionFailed(
                f"invalid binding key '{binding.routing_key}': {len(between) - 1} words are #, at most "
                f"{TOPIC_HASHES_MAX} are allowed"
            )
        inner = sum([len(words) for words in between[1:-1]])
        if inner > TOPIC_INNER_WORDS_MAX:
            raise PreconditionFailed(
                f"invalid binding key '{binding.routing_key}': {inner} words are between the first # and the last, at "
                f"most {TOPIC_INNER_WORDS_MAX} are allowed"
            )

    def add(self, binding: Binding) -> None:
        between = parts(binding.routing_key)
        node = self._root
        for word in between[0]:
            node = node.make_child(word)
        if len(between) == 1:
            node.bindings[binding] = None
            return
        if node.hash is None:
            node.hash = _Hash()
        beyond = node.hash
        if len(between) > 2:
            beyond.inner[self._segments.add(between, binding)] = None
        elif not between[1]:
            beyond.bindings[binding] = None
        else:
            node = beyond.tails
            for word in reversed(between[1]):
                node = node.make_child(word)
            node.bindings[binding] = None

    def remove(self, binding: Binding) -> None:
        between = parts(binding.routing_key)
        path = _path(self._root, between[0])
        node = path[-1]
        if len(between) == 1:
            del node.bindings[binding]
        else:
            beyond = node.hash
            assert beyond is not None
            if len(between) > 2:
                pattern = self._segments.remove(between, binding)
                if not pattern.bindings:
                    del beyond.inner[pattern]
            elif not between[1]:
                del beyond.bindings[binding]
            else:
                tail = between[1][::-1]
                tails = _path(beyond.tails, tail)
                del tails[-1].bindings[binding]
                _prune(tails, tail)
            if beyond.is_empty:
                node.hash = None
        _prune(path, between[0])

    def match(self, keys: list[str], message: Message | None) -> list[Binding]:
        found: list[Binding] = []
        for key in keys:
            self._match_key(words_of(key), found)
        return found

    def _match_key(self, words: list[str], found: list[Binding]) -> None:
        # Patterns with several `#`, by the word of the key where the first may begin.
        inner: dict[int, list[Segmented]] = {}
        alive = [self._root]
        visited: i64 = 0
        for at, word in enumerate(words):
            visited += len(alive)
            for node in alive:
                if node.hash is not None:
                    visited += _match_hash(node.hash, words, at, inner, found)
            alive = _following(alive, word)
            if not alive:
                break
        for node in alive:
            found.extend(node.bindings)
            if node.hash is not None:
                # At the end of the key no words are left between two `#`.
                _match_hash(node.hash, words, len(words), {}, found)
        WORK.spent += visited // _VISITED_PER_UNIT
        if inner:
            self._segments.match(words, inner, found)


def _match_hash(
    reached: _Hash, words: list[str], start: int, inner: dict[int, list[Segmented]], found: list[Binding]
) -> i64:
    """Find patterns whose `#` begins with the word at `start`. Returns the number of compared words."""
    found.extend(reached.bindings)
    if reached.inner:
        inner.setdefault(start, []).extend(reached.inner)
    alive = [reached.tails]
    at = len(words) - 1
    visited: i64 = len(reached.inner)
    while at >= start and alive:
        visited += len(alive)
        alive = _following(alive, words[at])
        for node in alive:
            found.extend(node.bindings)
        at -= 1
    return visited


def _following(alive: list[_Node], word: str) -> list[_Node]:
    """Return the children of these nodes that match a word of a key. A word "*" or "#" is no wildcard in a key."""
    following: list[_Node] = []
    for node in alive:
        child = node.children.get(word)
        if child is not None:
            following.append(child)
        if node.star is not None:
            following.append(node.star)
    return following


def _path(root: _Node, words: list[str]) -> list[_Node]:
    path = [root]
    for word in words:
        child = path[-1].child(word)
        assert child is not None
        path.append(child)
    return path


def _prune(path: list[_Node], words: list[str]) -> None:
    """Remove the nodes at the end of a path that no pattern needs any more."""
    for depth in range(len(words), 0, -1):
        if not path[depth].is_empty:
            return
        path[depth - 1].drop_child(words[depth - 1])
