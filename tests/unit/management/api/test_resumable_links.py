"""Ends of links that are kept, over HTTP: whose they are, what they hold, and how to be rid of one."""

import pytest

from flintmq.broker.ports import PermissionRecord, UserRecord
from flintmq.broker.terminus.terminus import NEVER, UNSETTLED_STATE, TargetTerminus
from tests.unit.management.fake_node import Api, refused


@pytest.fixture
def api() -> Api:
    return Api()


def kept(api: Api, user: str, link: str) -> TargetTerminus:
    """Half a message came on a link of this user, whose connection was lost."""
    termini = api.broker.vhosts["/"].termini
    terminus = termini.make_target(user, "container", link, UNSETTLED_STATE, NEVER, 0, b"")
    terminus.attach("link", "session", "connection")
    terminus.part(b"tag", bytes(5_000))
    terminus.detach()
    termini.connection_closed("connection")
    return terminus


def test_what_is_kept_is_shown_and_forgotten(api: Api) -> None:
    """An administrator sees whose link holds half a message and how large that is, and drops it."""
    terminus = kept(api, "anna", "orders")
    partial_messages = api.broker.tick.partial_messages
    assert partial_messages.held == 5_000
    (shown,) = api.found("/api/resumable-links")
    place = f"/api/resumable-links/%2F/{terminus.record.id}"
    assert shown == api.found(place) == api.found("/api/resumable-links/%2F")[0]
    assert (shown["name"], shown["user"], shown["container"], shown["role"]) == (
        "orders",
        "anna",
        "container",
        "target",
    )
    assert (shown["attached"], shown["unsettled"], shown["partial_messages"]) == (False, 1, 1)
    assert shown["partial_bytes"] == shown["partial_bytes_paged_out"] == 5_000
    assert (shown["durability"], shown["expiry"]) == ("unsettled-state", "never")
    assert api.delete(place).status_code == 204
    assert api.found("/api/resumable-links") == []
    assert partial_messages.held == 0
    assert refused(api.delete(place))[0] == 404


def test_one_in_use_is_not_forgotten(api: Api) -> None:
    """An attached link cannot be deleted."""
    terminus = kept(api, "anna", "orders")
    terminus.attach("link", "session", "connection")
    code, _, reason = refused(api.delete(f"/api/resumable-links/%2F/{terminus.record.id}"))
    assert code == 400
    assert "close its connection first" in reason


@pytest.mark.parametrize(("tags", "seen", "code"), [((), 1, 404), (("monitoring",), 2, 401)])
def test_users_have_to_do_with_their_own(api: Api, tags: tuple[str, ...], seen: int, code: int) -> None:
    """Users with the tag monitoring see the links of others, but only administrators delete them."""
    api.broker.put_user(UserRecord("anna", "anna", ("management", *tags)))
    api.broker.put_rule(PermissionRecord("/", "anna", ".*", ".*", ".*"))
    own, other = kept(api, "anna", "orders"), kept(api, "otto", "orders")
    assert len(api.found("/api/resumable-links", by="anna")) == seen
    assert refused(api.delete(f"/api/resumable-links/%2F/{other.record.id}", by="anna"))[0] == code
    assert api.delete(f"/api/resumable-links/%2F/{own.record.id}", by="anna").status_code == 204
