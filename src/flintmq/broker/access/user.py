"""A user: tags, permissions per virtual host, limits, and open connections."""

from typing import Final, final

from mypy_extensions import i64

from flintmq.base.errors import ConfigurationError
from flintmq.broker.access.connection import Connection
from flintmq.broker.access.limits import Limits
from flintmq.broker.access.permission import Rights
from flintmq.broker.bounds import name_fault, value_fault
from flintmq.broker.ports import UserRecord

# The tag that allows publishing under another user's name in the user-id property.
_IMPERSONATOR: Final = "impersonator"
# The suffix of the names of owners that only the issuer of tokens knows.
_SUFFIX: Final = " (by token)"
# The tag of users who may delete what others own.
_ADMINISTRATOR: Final = "administrator"


def is_by_token(owner: str) -> bool:
    """Whether this owner is known only to the issuer of tokens."""
    return owner.endswith(_SUFFIX)


def check_user_size(record: UserRecord, is_new: bool) -> None:
    """Raises ConfigurationError if the name is longer than the user-id property allows, or for too many tags.

    A user of an earlier release may keep a longer name.
    """
    fault = name_fault("user name", record.name) if is_new else ""
    fault = fault or value_fault(f"tags of user '{record.name}'", list(record.tags))
    if fault:
        raise ConfigurationError(fault)


@final
class User:
    """A user. `channels` counts the channels of all connections.

    `owner` is the owner's name for what outlives a connection: a name in a token does not stand for this broker's own
    user of that name.
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
        """Return the rights in a virtual host, empty if nothing was granted there."""
        rights = self._rights.get(vhost)
        if rights is None:
            rights = Rights(self.name, vhost)
            self._rights[vhost] = rights
        return rights

    @property
    def all_rights(self) -> list[Rights]:
        return list(self._rights.values())

    def forget_vhost(self, vhost: str) -> None:
        """Forget the rights in a deleted virtual host: a later one of the same name grants nothing by itself."""
        rights = self._rights.pop(vhost, None)
        if rights is not None:
            rights.revoke()
