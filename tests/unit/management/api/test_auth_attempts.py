"""Logins that were tried, as the HTTP API tells them."""

from tests.unit.management.fake_node import Api, refused

PATH = "/api/auth/attempts/flintmq@test"


def test_attempts() -> None:
    """Login attempts are counted by protocol and by address; administrators can reset the counts."""
    api = Api()
    for succeeded in (True, False, False):
        api.node.attempts.count("amqp10", "192.0.2.1", succeeded)
    told = {each["protocol"]: each for each in api.found(PATH, by="monitoring")}
    assert told["amqp10"] == {
        "protocol": "amqp10",
        "auth_attempts": 3,
        "auth_attempts_failed": 2,
        "auth_attempts_succeeded": 1,
    }
    assert set(told) == {"amqp091", "amqp10", "http"}
    assert api.found(f"{PATH}/source") == [told["amqp10"] | {"remote_address": "192.0.2.1"}]
    assert refused(api.delete(PATH, by="monitoring")) == (401, "not_authorised", "Not administrator user")
    assert api.delete(f"{PATH}/source").status_code == 204
    assert api.found(f"{PATH}/source") == []
    assert api.get("/api/auth/attempts/other").status_code == 404


def test_addresses_are_kept_within_a_bound() -> None:
    """Strangers have many of them."""
    api = Api()
    for number in range(1_500):
        api.node.attempts.count("amqp091", f"2001:db8::{number:x}", False)
    assert len(api.node.attempts.by_source) == 1_000
    assert api.found(PATH)[0]["auth_attempts_failed"] == 1_500
