"""Names of attached links: unique per direction between two containers (amqp-1.0 part 2 §2.6.1)."""

from abc import abstractmethod
from typing import final

from mypy_extensions import trait

# Virtual host, user, container, link name, and whether the broker receives on the link. A client may choose any
# container-id, so the user is part of the key: links of different users never meet.
Key = tuple[str, str, str, str, bool]


@trait
class NamedLink:
    """A link that is detached when another one of the same name attaches."""

    @abstractmethod
    def stolen(self) -> None:
        """Detach the link, because the peer attached one of the same name again."""


@final
class LinkNames:
    """The attached links of all connections by name. A link is in here from its attach until a side detaches it."""

    def __init__(self) -> None:
        self._links: dict[Key, NamedLink] = {}

    def __len__(self) -> int:
        return len(self._links)

    def find(self, key: Key) -> NamedLink | None:
        return self._links.get(key)

    def free(self, key: Key) -> None:
        """Detach the link that has the name, if there is one."""
        link = self._links.pop(key, None)
        if link is not None:
            link.stolen()

    def take(self, key: Key, link: NamedLink) -> None:
        """Give the name, which must be free, to a link."""
        self._links[key] = link

    def leave(self, key: Key, link: NamedLink) -> None:
        """Free the name of a link that is detached. Nothing happens if another link has the name by now."""
        if self._links.get(key) is link:
            del self._links[key]
