"""The bearer of an OAuth 2 token: a user with the token's rights, until the token expires."""

from typing import final

from mypy_extensions import i64

from flintmq.base.errors import NotAllowed
from flintmq.broker.access.permission import Rights
from flintmq.broker.access.scopes import Scopes
from flintmq.broker.access.user import User
from flintmq.broker.ports import UserRecord


@final
class Bearer:
    """A user who logged in with a token.

    `user` belongs to this bearer alone: two connections of the same name may have tokens with different rights.
    `expires_ms` is Unix time in ms.
    """

    def __init__(self, name: str, scopes: Scopes, expires_ms: i64) -> None:
        self.user = User(UserRecord(name, "", scopes.tags), by_token=True)
        self.scopes = scopes
        self.expires_ms: i64 = expires_ms

    def rights(self, vhost: str) -> Rights:
        """Return the rights that the scopes grant in a virtual host."""
        rights = self.user.rights(vhost)
        rights.grant_scopes(self.scopes)
        return rights

    def renew(self, newer: "Bearer") -> None:
        """Take over the rights and the expiry of a newer token. Raises NotAllowed if the token is another user's."""
        user = self.user
        if newer.user.name != user.name:
            raise NotAllowed("Not allowed to change username on refreshed token")
        user.record = newer.user.record
        self.scopes = newer.scopes
        self.expires_ms = newer.expires_ms
        for rights in user.all_rights:
            rights.grant_scopes(newer.scopes)
