"""Who shows a token: a user for as long as the token is good, with the rights that the token says."""

from typing import final

from mypy_extensions import i64

from flintmq.base.errors import NotAllowed
from flintmq.broker.access.permission import Rights
from flintmq.broker.access.scopes import Scopes
from flintmq.broker.access.user import User
from flintmq.broker.ports import UserRecord


@final
class Bearer:
    """`user` is this bearer's alone: two connections of one name may have tokens that grant different things.

    `expires_ms` is Unix time.
    """

    def __init__(self, name: str, scopes: Scopes, expires_ms: i64) -> None:
        self.user = User(UserRecord(name, "", scopes.tags), by_token=True)
        self.scopes = scopes
        self.expires_ms: i64 = expires_ms

    def rights(self, vhost: str) -> Rights:
        """What the scopes grant in a virtual host."""
        rights = self.user.rights(vhost)
        rights.grant_scopes(self.scopes)
        return rights

    def renew(self, newer: "Bearer") -> None:
        """Have what a newer token grants, and no longer what this one did. Raises NotAllowed for somebody else's."""
        user = self.user
        if newer.user.name != user.name:
            raise NotAllowed("Not allowed to change username on refreshed token")
        user.record = newer.user.record
        self.scopes = newer.scopes
        self.expires_ms = newer.expires_ms
        for rights in user.all_rights:
            rights.grant_scopes(newer.scopes)
