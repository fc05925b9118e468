"""Access control of the HTTP API: RabbitMQ's management tags, and the virtual hosts that a user may access."""

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
# The tag of users that the API refuses to change or delete (RabbitMQ).
PROTECTED: Final = "protected"
# A user needs one of these tags to use the API.
_MANAGEMENT_TAGS: Final = frozenset({ADMINISTRATOR, MONITORING, POLICYMAKER, MANAGEMENT})


class Right(Enum):
    """The right that a route requires; the value is its description in the API's document. The virtual host is the one
    in the path.
    """

    ANYBODY = "no login"
    USER = "a management tag"
    VHOST = "a management tag and permissions in the virtual host, or the tag administrator"
    VHOST_VISIBLE = "a management tag and permissions in the virtual host, or the tag monitoring or administrator"
    MONITORING = "the tag monitoring or administrator"
    POLICYMAKER = "the tag policymaker and permissions in the virtual host, or the tag administrator"
    GLOBAL_POLICYMAKER = "the tag policymaker or administrator"
    ADMINISTRATOR = "the tag administrator"


@final
class Caller:
    """The user that sent a request. `rights_in` returns the permissions in a virtual host.

    `is_internal` says that the broker knows the user itself, not only the issuer of a token.
    """

    def __init__(self, user: User, rights_in: Callable[[str], Rights], is_internal: bool = True) -> None:
        self.user = user
        self.name = user.name
        self.tags = user.record.tags
        self.rights_in = rights_in
        self.is_internal = is_internal

    def is_user(self, user: User | None) -> bool:
        """Tell whether this user is the caller. An internal user and a token's user are different even if their names
        are equal.
        """
        return user is not None and (user.name, user.owner) == (self.name, self.user.owner)

    def owns(self, owner: str) -> bool:
        """Tell whether objects with this owner, which outlive their connections, belong to the caller."""
        return owner == self.user.owner

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
        """Tell whether the caller may see the objects in a virtual host."""
        return self.is_monitoring or self.may_enter(vhost)


def check_access(caller: Caller, right: Right, vhost: VHost | None) -> None:
    """Check a right. Raises NotAuthorised, or Missing if the caller may not know of the virtual host."""
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
