"""A YAML file as a tree. Each value has its line for errors, and keys that were not asked for are errors.

Errors are raised while the tree is read, such as `pipeline.yaml:12: there is no key sorce in a flow: did you mean
source?`
"""

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Final, NoReturn

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.scalarstring import FoldedScalarString, LiteralScalarString

from flintmq.base.errors import ConfigurationError

_SCALARS: Final = (str, bool, int, float)


class Node:
    """A value of the file: a mapping, a sequence or a scalar.

    Lines count from 1. `what` is the name of the value in errors. Methods raise ConfigurationError, with path and line.
    """

    def __init__(self, path: str, line: int, value: object, what: str) -> None:
        self.line = line
        self.what = what
        self._path = path
        self._value = value
        self._asked: list[str] = []

    def fail(self, text: str) -> NoReturn:
        """Raise ConfigurationError at this value."""
        raise ConfigurationError(f"{self._path}:{self.line}: {text}")

    # -- mappings -----------------------------------------------------------------------------------------------

    @property
    def is_mapping(self) -> bool:
        return isinstance(self._value, CommentedMap)

    def child(self, key: str) -> "Node | None":
        """The value of a key; None if it is missing or empty."""
        self._asked.append(key)
        value = self._mapping().get(key)
        return None if value is None else self._of_key(key)

    def required(self, key: str, what: str) -> "Node":
        """The value of a key that must be there; `what` explains it in the error."""
        found = self.child(key)
        if found is None:
            near = get_close_matches(key, [str(other) for other in self._mapping() if other not in self._asked], n=1)
            if near:
                self._of_key(near[0]).fail(f"there is no key {near[0]} in {self.what}: did you mean {key}?")
            self.fail(f"{self.what} has no {key}: {what}")
        return found

    def one_of(self, keys: Sequence[str], what: str) -> tuple[str, "Node"]:
        """The only one of these keys that is there, and its value; an empty value is an empty mapping.

        It must be called after all other keys were asked for.
        """
        self._asked += keys
        there = [key for key in keys if key in self._mapping()]
        if len(there) != 1:
            self.finish()
            self.fail(f"{self.what} needs exactly one of {', '.join(keys)}: {what}")
        return there[0], self._of_key(there[0])

    def items(self) -> Iterator[tuple[str, "Node"]]:
        """All keys with their values."""
        for key in self._mapping():
            child = self._of_key(key)
            if not isinstance(key, str):
                child.fail(f"the key {key!r} must be text: put it in quotation marks")
            self._asked.append(key)
            yield key, child

    def finish(self) -> None:
        """Raises ConfigurationError for a key that was not asked for, and is therefore unknown."""
        for key in self._mapping():
            if key not in self._asked:
                near = get_close_matches(str(key), self._asked, n=1)
                advice = f"did you mean {near[0]}?" if near else f"known are {', '.join(self._asked)}"
                self._of_key(key).fail(f"there is no key {key} in {self.what}: {advice}")

    def _mapping(self) -> CommentedMap:
        if not isinstance(self._value, CommentedMap):
            self.fail(f"{self.what} must be a mapping of keys and values")
        return self._value

    def _of_key(self, key: object) -> "Node":
        mapping = self._mapping()
        try:
            line = mapping.lc.key(key)[0] + 1
        except KeyError:
            # The key came from another mapping by a YAML merge.
            line = self.line
        value = mapping[key]
        return Node(self._path, line, CommentedMap() if value is None else value, str(key))

    # -- sequences ----------------------------------------------------------------------------------------------

    def elements(self, what: str) -> list["Node"]:
        """The values of a list that is not empty; `what` is the name of each in errors."""
        value = self._value
        if not isinstance(value, CommentedSeq) or not value:
            self.fail(f"{self.what} must be a list, each {what} after a dash")
        return [Node(self._path, value.lc.item(place)[0] + 1, one, what) for place, one in enumerate(value)]

    # -- scalars ------------------------------------------------------------------------------------------------

    @property
    def is_text(self) -> bool:
        return isinstance(self._value, str)

    @property
    def text_line(self) -> int:
        """The line on which the text begins: the next line if the text is a block scalar."""
        is_block = isinstance(self._value, (FoldedScalarString, LiteralScalarString))
        return self.line + 1 if is_block else self.line

    def text(self) -> str:
        """A scalar as the text of an option: true and false in lower case, numbers unchanged."""
        if not isinstance(self._value, _SCALARS):
            self.fail(f"{self.what} must be text or a number")
        if isinstance(self._value, bool):
            return "true" if self._value else "false"
        return str(self._value)

    def choice(self, allowed: Sequence[str]) -> str:
        """A text that must be one of these."""
        value = self.text()
        if value not in allowed:
            near = get_close_matches(value, allowed, n=1)
            advice = f"did you mean {near[0]}?" if near else f"known are {', '.join(allowed)}"
            self.fail(f"{self.what} is {value!r}: {advice}")
        return value

    def texts(self) -> dict[str, str]:
        """A mapping whose values are all scalars."""
        return {key: value.text() for key, value in self.items()}


def read_yaml(path: Path) -> Node:
    """The tree of a file. Raises ConfigurationError if it cannot be read, or is not YAML."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigurationError(f"{path} cannot be read: {why}") from error
    try:
        # The round-trip loader keeps lines, and creates only plain objects.
        value: object = YAML(typ="rt", pure=True).load(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark
        line = mark.line + 1 if mark is not None else 1
        raise ConfigurationError(f"{path}:{line}: {error.problem or error.context or 'this is not YAML'}") from error
    except YAMLError as error:
        raise ConfigurationError(f"{path}: this is not YAML: {error}") from error
    return Node(str(path), 1, value, "the file")
