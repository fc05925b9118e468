"""A broker that is told something by the system: to read its settings again, to stop, and to stop at once."""

import json
import os
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

import flintmq.client as fc
from flintmq.wire.amqp091.methods import (
    BasicAck,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionClose,
    ConnectionCloseOk,
    QueueDeclare,
    QueueDeclareOk,
)
from tests.servers import BrokerProcess
from tests.sockets import AmqpSocket, publish_frames

PERSISTENT = fc.encode_properties(fc.Properties(delivery_mode=2))
FILE = """
[listen]
port = {port}
[log]
level = "{level}"
[limits]
heartbeat_seconds = {heartbeat}
[alarms]
disk_free_min_bytes = {disk}
[[users]]
name = "app"
password = "{password}"
"""
SETTINGS = {"port": 0, "level": "info", "heartbeat": 60, "disk": 50_000_000, "password": "old"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "flintmq.toml"
    file.write_text(FILE.format(**SETTINGS))
    return file


@pytest.fixture
def broker(tmp_path: Path, file: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "data", "--config", str(file)) as running:
        yield running


def connect(broker: BrokerProcess, password: str) -> fc.Connection:
    return fc.connect(f"amqp://app:{password}@127.0.0.1:{broker.port}/")


def test_settings_are_read_again(broker: BrokerProcess, file: Path) -> None:
    """SIGHUP brings in passwords, limits, alarms and the level of the log; connections stay, and a line says what."""
    with connect(broker, "old") as connection:
        channel = connection.channel()
        # The flag of the command line wins over the file, as at the start.
        changed = SETTINGS | {"port": 1, "level": "debug", "heartbeat": 7, "disk": 1 << 60, "password": "new"}
        file.write_text(FILE.format(**changed))
        os.kill(broker.process.pid, signal.SIGHUP)
        line = broker.wait_for_log("settings read again")
        for words in ("log.level: info -> debug", "limits.heartbeat_seconds: 60 -> 7", "alarms.disk_free_min", "users"):
            assert words in line["changed"]
        assert "old" not in line["changed"]
        broker.wait_for_log("publishers have to wait", reason="low on disk")
        with pytest.raises(fc.LoginRefused):
            connect(broker, "old")
        connect(broker, "new").close()
        broker.wait_for_log("connection accepted", level="debug")
        channel.declare_queue("q")


def test_definitions_are_read_again(tmp_path: Path) -> None:
    """A file that has grown brings in what is new, users with passwords too, and leaves messages alone."""
    file = tmp_path / "definitions.json"
    file.write_text(json.dumps({"queues": [{"name": "old", "vhost": "/", "durable": True}]}))
    with BrokerProcess(tmp_path / "data", FLINTMQ_DEFINITIONS_LOAD=str(file)) as broker:
        with fc.connect(broker.url) as connection:
            connection.channel(confirms=True).publish_batch([("", "old", b"x")])
        more = json.loads(file.read_text())
        more["queues"].append({"name": "new", "vhost": "/", "durable": True})
        more["users"] = [{"name": "app", "password": "p"}]
        more["permissions"] = [{"user": "app", "vhost": "/", "configure": ".*", "write": "", "read": ".*"}]
        file.write_text(json.dumps(more))
        os.kill(broker.process.pid, signal.SIGHUP)
        first = broker.wait_for_log("settings read again")
        with connect(broker, "p") as connection:
            channel = connection.channel()
            assert channel.declare_queue("old", passive=True).message_count == 1
            channel.declare_queue("new", passive=True)
            channel.delete_queue("new")
        # Nothing new to bring in: what was changed since stays changed.
        os.kill(broker.process.pid, signal.SIGHUP)
        broker.wait_for_log("settings read again", matches=lambda line: line is not first)
        with connect(broker, "p") as connection, pytest.raises(fc.ChannelClosed):
            connection.channel().declare_queue("new", passive=True)


def test_the_size_of_messages_is_limited_for_all(tmp_path: Path) -> None:
    """What may be published by HTTP has the size that the settings allow, before SIGHUP and behind it."""
    file = tmp_path / "flintmq.toml"
    file.write_text("[limits]\nmessage_max_bytes = 20\n")
    body = {"properties": {}, "routing_key": "q", "payload": "x" * 15, "payload_encoding": "string"}
    with (
        BrokerProcess(tmp_path / "data", "--config", str(file)) as broker,
        httpx.Client(base_url=broker.http_url, auth=("guest", "guest"), timeout=60) as client,
    ):
        path = "/api/exchanges/%2F/amq.default/publish"
        assert client.post(path, json=body).status_code == 200
        file.write_text("[limits]\nmessage_max_bytes = 10\n")
        os.kill(broker.process.pid, signal.SIGHUP)
        broker.wait_for_log("settings read again")
        refused = client.post(path, json=body)
        assert refused.status_code == 400
        assert refused.json()["reason"] == "message size 15 is larger than max size 10"


def test_what_needs_a_restart_is_said(broker: BrokerProcess, file: Path) -> None:
    """A setting that cannot change is named, and the broker goes on as before."""
    file.write_text('[storage]\nsegment_bytes = 4194304\n[listen]\nhost = "::1"\n')
    os.kill(broker.process.pid, signal.SIGHUP)
    line = broker.wait_for_log("settings that need a restart")
    assert "listen.host: 127.0.0.1 -> ::1" in line["changed"]
    assert "storage.segment_bytes" in line["changed"]
    connect(broker, "old").close()


def test_a_wrong_file_changes_nothing(broker: BrokerProcess, file: Path) -> None:
    """An error in the file is told with its place, and nothing of the rest is taken up."""
    file.write_text('[log]\nlevel = "debug"\n[limits]\nheartbeat = 1\n')
    os.kill(broker.process.pid, signal.SIGHUP)
    line = broker.wait_for_log("settings stay as they were")
    assert "did you mean limits.heartbeat_seconds?" in line["reason"]
    connect(broker, "old").close()


def test_what_was_taken_in_is_confirmed_at_the_end(tmp_path: Path) -> None:
    """A publisher in full flight has a confirm for every message that is there after the restart, and is told 320."""
    with BrokerProcess(tmp_path / "data") as broker:
        with AmqpSocket(broker.port) as publisher:
            publisher.open().open_channel()
            publisher.call(1, QueueDeclare(queue="q", durable=True), QueueDeclareOk)
            publisher.call(1, ConfirmSelect(), ConfirmSelectOk)
            stopping = threading.Timer(0.3, broker.process.terminate)
            confirmed, code = 0, 0
            sent = publish_frames(1, "", "q", b"x", PERSISTENT) * 20
            while not code:
                publisher.send(sent)
                for frame in publisher.frames(0):
                    method = frame.method
                    if isinstance(method, BasicAck):
                        if not confirmed:
                            stopping.start()
                        confirmed = method.delivery_tag
                    elif isinstance(method, ConnectionClose):
                        code = method.reply_code
                        publisher.send_method(0, ConnectionCloseOk())
        assert code == 320
        assert broker.ended() == 0
        broker.start()
        with fc.connect(broker.url) as again:
            assert again.channel().declare_queue("q", passive=True).message_count == confirmed > 0


def test_a_service_manager_is_told(tmp_path: Path) -> None:
    """It hears when the broker accepts, and when it begins to stop."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.settimeout(60)
        with BrokerProcess(tmp_path / "data", NOTIFY_SOCKET=str(tmp_path / "notify")) as broker:
            assert listener.recv(100) == b"READY=1"
            assert broker.stop() == 0
            assert listener.recv(100) == b"STOPPING=1"


def test_a_second_order_to_stop_is_obeyed_at_once(tmp_path: Path) -> None:
    """Whatever the shutdown waits for, another SIGTERM ends the process."""
    with BrokerProcess(tmp_path / "data") as broker, AmqpSocket(broker.port) as client:
        # It will not answer the close.
        client.open()
        broker.process.terminate()
        broker.wait_for_log("stopping")
        broker.process.terminate()
        assert broker.ended() == 128 + signal.SIGTERM
