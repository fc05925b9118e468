"""The fixtures give tests a real broker each, for whichever client they use."""

import os
import tomllib
from pathlib import Path

import pytest

import flintmq
from tests.servers import environment, free_port

pytest_plugins = "pytester"

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _as_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of pytest find this FlintMQ from anywhere, and have its plugin once, whether it was installed or not."""
    monkeypatch.setenv("PYTHONPATH", str(Path(flintmq.__file__).parents[1]))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_PLUGINS", "flintmq.pytest_plugin")
    for name in set(os.environ) - set(environment()):
        monkeypatch.delenv(name)


def run(pytester: pytest.Pytester, source: str, passed: int, **outcomes: int) -> pytest.RunResult:
    pytester.makepyfile(source)
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(passed=passed, **outcomes)
    return result


def test_it_is_declared() -> None:
    """pytest finds the plugin where FlintMQ is installed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"flintmq": "flintmq.pytest_plugin"}


def test_a_fresh_broker_per_test(pytester: pytest.Pytester) -> None:
    """What one test declares, the next one does not find; a session's broker keeps it."""
    run(
        pytester,
        """
        import pika, pytest

        def count(url):
            connection = pika.BlockingConnection(pika.URLParameters(url))
            channel = connection.channel()
            messages = channel.queue_declare("q", durable=True).method.message_count
            channel.confirm_delivery()
            channel.basic_publish("", "q", b"m")
            connection.close()
            return messages

        @pytest.mark.parametrize("number", range(3))
        def test_own(flintmq, number):
            assert count(flintmq.url) == 0

        @pytest.mark.parametrize("number", range(3))
        def test_shared(flintmq_session, flintmq_url, number):
            assert flintmq_session.url != flintmq_url
            assert count(flintmq_session.url) == number
        """,
        6,
    )


def test_aio_pika(pytester: pytest.Pytester) -> None:
    """A client of asyncio has the event loop to itself, and connects again when the broker restarts."""
    run(
        pytester,
        """
        import asyncio, aio_pika, pytest

        @pytest.mark.flintmq(listen={"port": PORT})
        def test_restart(flintmq):
            async def use():
                connection = await aio_pika.connect_robust(flintmq.url, reconnect_interval=0.05)
                async with connection:
                    channel = await connection.channel()
                    queue = await channel.declare_queue("q", durable=True)
                    again = asyncio.Event()
                    connection.reconnect_callbacks.add(lambda *_: again.set())
                    await channel.default_exchange.publish(aio_pika.Message(b"m", delivery_mode=2), "q")
                    await asyncio.to_thread(flintmq.restart)
                    await asyncio.wait_for(again.wait(), 60)
                    message = await queue.get(timeout=60)
                    await message.ack()
                    return message.body
            assert asyncio.run(use()) == b"m"
        """.replace("PORT", str(free_port())),
        1,
    )


def test_celery(pytester: pytest.Pytester) -> None:
    """A worker of Celery takes tasks from the test's broker, and their results come back over it."""
    run(
        pytester,
        """
        from celery import Celery
        from celery.contrib.testing.worker import start_worker

        def test_task(flintmq):
            app = Celery("app", broker=flintmq.url, backend="rpc://")
            # The worker looks whether it is to stop when something happens: heartbeats, at the latest.
            app.conf.broker_heartbeat = 2
            app.conf.broker_connection_timeout = 60

            @app.task(name="add")
            def add(x, y):
                return x + y

            with start_worker(app, perform_ping_check=False, shutdown_timeout=60):
                assert add.delay(2, 3).get(timeout=60) == 5
        """,
        1,
    )


def test_settings(pytester: pytest.Pytester) -> None:
    """They come from the file that the ini file names, markers change them for a test, nearer ones win."""
    pytester.makeini("[pytest]\nflintmq_config = brokers.toml\naddopts = --strict-markers")
    pytester.makefile(".toml", brokers="[limits]\nmessage_max_bytes = 10\nchannel_max = 7\n[[vhosts]]\nname = 'v'")
    run(
        pytester,
        """
        import pytest
        pytestmark = pytest.mark.flintmq(limits={"message_max_bytes": 20})

        def limits(broker):
            return broker._settings.limits.message_max_bytes, broker._settings.limits.channel_max

        def test_module(flintmq):
            assert limits(flintmq) == (20, 7)
            assert [vhost.name for vhost in flintmq._settings.vhosts] == ["v"]

        @pytest.mark.flintmq(limits={"message_max_bytes": 30}, vhosts=[{"name": "w"}])
        def test_nearest(flintmq, flintmq_session):
            assert limits(flintmq) == (30, 7)
            assert [vhost.name for vhost in flintmq._settings.vhosts] == ["w"]
            assert limits(flintmq_session) == (10, 7)
        """,
        2,
    )


def test_settings_of_a_conftest(pytester: pytest.Pytester) -> None:
    """A project may override the fixture that settings come from."""
    pytester.makeconftest(
        """
        import pytest

        @pytest.fixture(scope="session")
        def flintmq_settings():
            return {"default_user": {"name": "me", "password": "x"}}
        """
    )
    run(pytester, "def test_user(flintmq_url):\n    assert flintmq_url.startswith('amqp://me:x@127.0.0.1:')", 1)


@pytest.mark.parametrize(
    ("marker", "says"),
    [
        ("limit={}", "there is no section [[]limit[]]; did you mean limits"),
        ("{}", "takes sections by name"),
    ],
)
def test_wrong_markers(pytester: pytest.Pytester, marker: str, says: str) -> None:
    """What is wrong with a marker is said by the test that has it."""
    source = f"import pytest\n@pytest.mark.flintmq({marker})\ndef test_it(flintmq):\n    pass"
    run(pytester, source, 0, errors=1).stdout.fnmatch_lines([f"*{says}*"])


def test_a_file_that_is_not_there(pytester: pytest.Pytester) -> None:
    """The error names the file and the setting."""
    pytester.makeini("[pytest]\nflintmq_config = none.toml")
    result = run(pytester, "def test_it(flintmq):\n    pass", 0, errors=1)
    result.stdout.fnmatch_lines(["*flintmq_config: *none.toml cannot be read as TOML: *No such file*"])


def test_who_needs_no_broker_pays_nothing(pytester: pytest.Pytester) -> None:
    """Nothing that runs a broker is imported until a test asks for one."""
    run(
        pytester,
        """
        import sys

        def test_imports():
            assert not {"flintmq.app", "flintmq.embedded", "uvloop", "structlog"} & set(sys.modules)
        """,
        1,
    )
