"""Who asks, and what they may ask for: RabbitMQ's tags of management, and the virtual hosts a user may enter."""

from collections.abc import Callable
from enum import Enum
from typing import Final, final

from flintmq.broker.access.permission import Rights
from flintmq.broker.access.user import User
from flintmq.broker.vhost import VHost
from flintmq.management.errors import Missing, NotAuthorised

ADMINISTRATOR: Final = "administrator"
MONITORING: Final = "monitoring"
POLICYMAKER: Final = "policymaker"
MANAGEMENT: Final = "management"
# Of a user that nobody may change or delete by the API (RabbitMQ).
PROTECTED: Final = "protected"
# One of these opens the API at all.
_MANAGEMENT_TAGS: Final = frozenset({ADMINISTRATOR, MONITORING, POLICYMAKER, MANAGEMENT})


class Right(Enum):
    """What a route asks of who comes; the value is for the API's document. Where it is of a virtual host, that of the
    path is meant.
    """

    ANYBODY = "nothing, not even a login"
    USER = "a tag of management"
    VHOST = "a tag of management, and permissions in the virtual host; administrators need none"
    VHOST_VISIBLE = "as for the virtual host; those who monitor see all of them"
    MONITORING = "the tag monitoring or administrator"
    POLICYMAKER = "the tag policymaker and permissions in the virtual host, or the tag administrator"
    GLOBAL_POLICYMAKER = "the tag policymaker or administrator"
    ADMINISTRATOR = "the tag administrator"


@final
class Caller:
    """Who has logged in. `rights_in` gives the permissions in a virtual host, whatever they come from.

    `is_internal`: the broker knows the user itself, and not only the issuer of a token.
    """

    def __init__(self, user: User, rights_in: Callable[[str], Rights], is_internal: bool = True) -> None:
        self.name = user.name
        self.tags = user.record.tags
        self.rights_in = rights_in
        self.is_internal = is_internal
        self._owner = user.owner

    def is_user(self, user: User | None) -> bool:
        """Whether it is the caller: a user of ours and one by a token are two, though their names be one."""
        return user is not None and (user.name, user.owner) == (self.name, self._owner)

    def owns(self, owner: str) -> bool:
        """Whether what outlives its connections, and is this owner's, is the caller's."""
        return owner == self._owner

    @property
    def is_administrator(self) -> bool:
        return ADMINISTRATOR in self.tags

    @property
    def is_monitoring(self) -> bool:
        return ADMINISTRATOR in self.tags or MONITORING in self.tags

    @property
    def is_policymaker(self) -> bool:
        return ADMINISTRATOR in self.tags or POLICYMAKER in self.tags

    def may_enter(self, vhost: str) -> bool:
        return self.rights_in(vhost).permission is not None

    def may_see(self, vhost: str) -> bool:
        """What is in the virtual host, at least to look at."""
        return self.is_monitoring or self.may_enter(vhost)


def check_access(caller: Caller, right: Right, vhost: VHost | None) -> None:
    """Raises NotAuthorised, or Missing for a virtual host that the caller is not told of."""
    if not _MANAGEMENT_TAGS.intersection(caller.tags):
        raise NotAuthorised("Not management user")
    if right is Right.ADMINISTRATOR and not caller.is_administrator:
        raise NotAuthorised("Not administrator user")
    if right is Right.MONITORING and not caller.is_monitoring:
        raise NotAuthorised("Not monitor user")
    if right in (Right.POLICYMAKER, Right.GLOBAL_POLICYMAKER) and not caller.is_policymaker:
        raise NotAuthorised("User not authorised to access object")
    if vhost is None or caller.is_administrator:
        return
    may_enter = caller.may_see(vhost.name) if right is Right.VHOST_VISIBLE else caller.may_enter(vhost.name)
    if right in (Right.VHOST, Right.VHOST_VISIBLE, Right.POLICYMAKER) and not may_enter:
        raise Missing("not_found")
