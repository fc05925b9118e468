"""Flower, the monitor of Celery's users: it sees workers, tasks, and by the management API the queues."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator

import httpx
import pytest

from tests.interop.celery_app.conftest import RAN_SECONDS
from tests.servers import BrokerProcess, free_port


@pytest.fixture
def flower(broker: BrokerProcess) -> Iterator[httpx.Client]:
    port = free_port()
    command = [sys.executable, "-m", "celery", "-A", "tests.interop.celery_app.app", "flower"]
    api = broker.http_url.replace("://", "://guest:guest@")
    options = [f"--broker-api={api}/api/", f"--port={port}", "--address=127.0.0.1", "--inspect-timeout=2000"]
    environment = os.environ | {
        "INTEROP_BROKER": broker.url,
        "BROKER_URL": broker.url,
        "FLOWER_UNAUTHENTICATED_API": "true",
    }
    with subprocess.Popen([*command, *options], env=environment) as process:  # noqa: S603 - ours
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=RAN_SECONDS) as client:
                _wait_for(client)
                yield client
        finally:
            process.terminate()


def _wait_for(client: httpx.Client) -> None:
    deadline = time.monotonic() + RAN_SECONDS
    while True:
        try:
            client.get("/healthcheck").raise_for_status()
        except httpx.HTTPError:
            assert time.monotonic() < deadline, "Flower does not answer"
            time.sleep(0.2)
        else:
            return


def test_the_broker_page(flower: httpx.Client, broker: BrokerProcess) -> None:
    """Queues are shown with how many messages are on them, as the management API tells it."""
    with httpx.Client(base_url=broker.http_url, auth=("guest", "guest"), timeout=60) as api:
        api.put("/api/queues/%2F/tasks", json={"durable": True}).raise_for_status()
        before = api.get("/api/queues/%2F/tasks").json()["messages"]
        sent = {"routing_key": "tasks", "payload": "", "payload_encoding": "string", "properties": {}}
        for _ in range(3):
            api.post("/api/exchanges/%2F/amq.default/publish", json=sent).raise_for_status()
        lengths = flower.get("/api/queues/length").json()["active_queues"]
        page = flower.get("/broker").text
        api.delete("/api/queues/%2F/tasks/contents").raise_for_status()
    assert {each["name"]: each["messages"] for each in lengths}["tasks"] == before + 3
    assert "tasks" in page
