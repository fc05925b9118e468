"""A pytest plugin for aiormq's tests: the fixtures that they find in its repository, and not in what it publishes."""

import os
from types import SimpleNamespace

import pytest
import yarl

# amqp://user:password@host:port/vhost of the broker under test.
URL = "INTEROP_URL"


@pytest.fixture(scope="session")
def amqp_direct_url() -> yarl.URL:
    return yarl.URL(os.environ[URL])


@pytest.fixture(scope="session")
def rabbitmq_container(amqp_direct_url: yarl.URL) -> SimpleNamespace:
    ports = dict.fromkeys(("5672/tcp", "5671/tcp"), amqp_direct_url.port)
    return SimpleNamespace(host=amqp_direct_url.host, ports=ports)
