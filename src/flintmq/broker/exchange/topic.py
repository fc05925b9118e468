"""topic: by patterns of words between dots, where `*` is one word and `#` is any number of them.

amqp-0-9-1 §3.1.3.3. The patterns form a tree of words, so that matching costs by the words of the routing key, not by
the number of bindings.
"""

from typing import final

from flintmq.broker.exchange.base import Binding, Exchange
from flintmq.broker.message import Message, Table


@final
class _Node:
    def __init__(self) -> None:
        self.children: dict[str, _Node] = {}
        self.bindings: dict[Binding, None] = {}


def _words(pattern: str) -> list[str]:
    """A pattern's words. Neighbouring `#` say no more than one of them, and would multiply the ways to match."""
    words: list[str] = []
    for word in pattern.split("."):
        if word == "#" and words and words[-1] == "#":
            continue
        words.append(word)
    return words


@final
class TopicExchange(Exchange):
    type = "topic"

    def __init__(
        self, vhost: str, name: str, durable: bool, auto_delete: bool, internal: bool, arguments: Table
    ) -> None:
        super().__init__(vhost, name, durable, auto_delete, internal, arguments)
        self._root = _Node()

    def add(self, binding: Binding) -> None:
        node = self._root
        for word in _words(binding.routing_key):
            child = node.children.get(word)
            if child is None:
                child = _Node()
                node.children[word] = child
            node = child
        node.bindings[binding] = None

    def remove(self, binding: Binding) -> None:
        path = [self._root]
        words = _words(binding.routing_key)
        for word in words:
            path.append(path[-1].children[word])
        del path[-1].bindings[binding]
        for depth in range(len(words), 0, -1):
            node = path[depth]
            if node.bindings or node.children:
                break
            del path[depth - 1].children[words[depth - 1]]

    def match(self, keys: list[str], message: Message | None) -> list[Binding]:
        found: list[Binding] = []
        for key in keys:
            self._match_key(key, found)
        return found

    def _match_key(self, routing_key: str, found: list[Binding]) -> None:
        # The nodes alive after each word. A dictionary, so that however many ways lead to a node, it is there once:
        # the work is bounded by words x nodes for any set of patterns.
        alive: dict[_Node, bool] = {}
        _enter(alive, self._root, False)
        for word in routing_key.split("."):
            following: dict[_Node, bool] = {}
            for node, is_hash in alive.items():
                if is_hash:
                    _enter(following, node, True)
                # A routing key may hold "*" or "#" as words; those are not looked up as if they were patterns.
                if word != "*" and word != "#":
                    child = node.children.get(word)
                    if child is not None:
                        _enter(following, child, False)
                child = node.children.get("*")
                if child is not None:
                    _enter(following, child, False)
            alive = following
        for node in alive:
            found.extend(node.bindings)


def _enter(alive: dict[_Node, bool], node: _Node, is_hash: bool) -> None:
    """Make a node alive, and with it the `#` below it, which may stand for no word at all."""
    if node in alive:
        return
    alive[node] = is_hash
    below = node.children.get("#")
    if below is not None:
        _enter(alive, below, True)
