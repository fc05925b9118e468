from flintmq.gateway.permission_cache import PermissionCache
from tests.unit.gateway.amqp091.pair import Client, Server


def test_what_is_remembered_ends_with_the_last_connection() -> None:
    """All connections of a user in a virtual host share it, and a user who is gone costs nothing."""
    server = Server()
    first, second = Client(server), Client(server)
    remembered: PermissionCache[list[str]] = PermissionCache(list)
    for access in (first.connection.access, second.connection.access):
        assert access is not None
        remembered.of(access.rights).append("said")
    access = first.connection.access
    assert access is not None
    assert remembered.of(access.rights) == ["said", "said"]
    access.leave()
    remembered.left(access)
    assert remembered.of(access.rights) == ["said", "said"]
    last = second.connection.access
    assert last is not None
    last.leave()
    remembered.left(last)
    assert remembered.of(last.rights) == []
