"""Names of links that are attached: each is that of one link of a direction between two containers (part 2 §2.6.1)."""

from abc import abstractmethod
from typing import final

from mypy_extensions import trait

# Virtual host, user, container, name, and whether the broker receives by it. A container is who it says to be, so the
# links of one user are nothing to another's.
Key = tuple[str, str, str, str, bool]


@trait
class NamedLink:
    """A link that gives way to one of the same name."""

    @abstractmethod
    def stolen(self) -> None:
        """Detach it: the peer attached it again on another session."""


@final
class LinkNames:
    """Those of all connections. A link is in here from its attach until either side has detached it."""

    def __init__(self) -> None:
        self._links: dict[Key, NamedLink] = {}

    def __len__(self) -> int:
        return len(self._links)

    def find(self, key: Key) -> NamedLink | None:
        return self._links.get(key)

    def free(self, key: Key) -> None:
        """The link that has the name gives way."""
        link = self._links.pop(key, None)
        if link is not None:
            link.stolen()

    def take(self, key: Key, link: NamedLink) -> None:
        """The name has been free, and is this link's."""
        self._links[key] = link

    def leave(self, key: Key, link: NamedLink) -> None:
        """A link is detached; harmless where the name is another's by now."""
        if self._links.get(key) is link:
            del self._links[key]
