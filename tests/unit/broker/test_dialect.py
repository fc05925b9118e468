"""Dialects are chosen by name, and a virtual host has one."""

import pytest

from flintmq.base.errors import ConfigurationError
from flintmq.broker.broker import Broker
from flintmq.broker.dialect import RABBITMQ, STRICT, dialect_named
from tests.unit.broker.memory import MemoryStorage


def test_dialects_have_names() -> None:
    """Each is found by the name it has."""
    assert dialect_named("strict") is STRICT
    assert dialect_named("rabbitmq") is RABBITMQ


def test_an_unknown_dialect_is_refused() -> None:
    """The text says which ones there are."""
    with pytest.raises(ConfigurationError, match="'loose' is unknown; known dialects: rabbitmq, strict"):
        dialect_named("loose")


def test_a_virtual_host_speaks_as_rabbitmq_does_unless_told_otherwise() -> None:
    """What clients expect today is the default."""
    broker = Broker(MemoryStorage())
    assert broker.add_vhost("a").dialect is RABBITMQ
    assert broker.add_vhost("b", STRICT).dialect is STRICT
