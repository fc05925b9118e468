"""A user: tags, permissions in each virtual host, limits, and the connections there are."""

from typing import Final, final

from mypy_extensions import i64

from flintmq.base.errors import ConfigurationError
from flintmq.broker.access.connection import Connection
from flintmq.broker.access.limits import Limits
from flintmq.broker.access.permission import Rights
from flintmq.broker.bounds import name_fault, value_fault
from flintmq.broker.ports import UserRecord

# The tag that lets a user publish under another's name in the user-id property.
_IMPERSONATOR: Final = "impersonator"
# What names of those end with whom only the issuer of tokens knows.
_SUFFIX: Final = " (by token)"
# The tag of those that may clear up after others.
_ADMINISTRATOR: Final = "administrator"


def is_by_token(owner: str) -> bool:
    """Whether it is somebody whom only the issuer of tokens knows."""
    return owner.endswith(_SUFFIX)


def check_user_size(record: UserRecord, is_new: bool) -> None:
    """Raises ConfigurationError for a name that the property user-id has no room for, and for too many tags.

    A user who is there under a longer name, from an earlier release, may stay.
    """
    fault = name_fault("user name", record.name) if is_new else ""
    fault = fault or value_fault(f"tags of user '{record.name}'", list(record.tags))
    if fault:
        raise ConfigurationError(fault)


@final
class User:
    """`channels` counts those of all connections.

    `owner` is whose that is what outlives a connection: a name that a token says is not that of one of our own users.
    """

    def __init__(self, record: UserRecord, by_token: bool = False) -> None:
        self.name = record.name
        self.owner = f"{record.name}{_SUFFIX}" if by_token else record.name
        self.record = record
        self.limits = Limits()
        self.connections: dict[Connection, None] = {}
        self.channels: i64 = 0
        self._rights: dict[str, Rights] = {}

    @property
    def may_impersonate(self) -> bool:
        return _IMPERSONATOR in self.record.tags

    @property
    def is_administrator(self) -> bool:
        return _ADMINISTRATOR in self.record.tags

    def rights(self, vhost: str) -> Rights:
        """The permissions in a virtual host; none, as long as there are none."""
        rights = self._rights.get(vhost)
        if rights is None:
            rights = Rights(self.name, vhost)
            self._rights[vhost] = rights
        return rights

    @property
    def all_rights(self) -> list[Rights]:
        return list(self._rights.values())

    def forget_vhost(self, vhost: str) -> None:
        """A virtual host is gone: one of the same name that comes later grants nothing by itself."""
        rights = self._rights.pop(vhost, None)
        if rights is not None:
            rights.revoke()
