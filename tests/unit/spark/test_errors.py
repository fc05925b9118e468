"""What a user is told when something fails: one error that says what to do."""

import os

import pytest

import flintmq.client as fc
from flintmq.base.errors import ConfigurationError, ConnectionLost, FlintError
from flintmq.spark.endpoint import Endpoint
from flintmq.spark.errors import QueryFailed, user_errors

HIDE = "SPARK_HIDE_TRACEBACK"
URL = Endpoint(url="amqp://u:p@h:1/")


def failed(error: FlintError, endpoint: Endpoint | None, queue: str = "") -> FlintError:
    with pytest.raises(FlintError) as raised, user_errors(endpoint, queue):
        raise error
    assert raised.value.__suppress_context__ or raised.value is error
    return raised.value


@pytest.fixture(autouse=True)
def restored(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test sets is not there for the next one."""
    monkeypatch.setenv(HIDE, "")
    monkeypatch.setenv("PYTHON_WORKER_FACTORY_PORT", "")
    monkeypatch.delenv(HIDE)
    monkeypatch.delenv("PYTHON_WORKER_FACTORY_PORT")


@pytest.mark.parametrize(
    ("error", "endpoint", "expected"),
    [
        (fc.ConnectFailed("no connection to h:1"), URL, "is the option url its address"),
        (
            ConnectionLost("the peer closed"),
            Endpoint(env="BROKER"),
            "is the variable BROKER (option urlEnv) its address",
        ),
        (fc.LoginRefused(403, "ACCESS_REFUSED"), Endpoint(file="/f"), "the password in the file /f (option urlFile)"),
        (
            fc.ConnectionClosed(530, "no vhost 'v'"),
            Endpoint(url="x"),
            "530 no vhost 'v' (queue orders): check the option",
        ),
        (
            fc.ChannelClosed(404, "no queue 'orders'"),
            Endpoint(url="x"),
            "404 no queue 'orders': declare it, or correct",
        ),
        (fc.ChannelClosed(403, "queue 'orders' in exclusive use"), URL, "an exclusive consumer has it"),
        (
            fc.ChannelClosed(403, "refused"),
            Endpoint(url="x"),
            "refused (queue orders): give the user in the option url",
        ),
    ],
)
def test_advice(error: FlintError, endpoint: Endpoint, expected: str) -> None:
    """What the broker or the network said comes with what to do, the queue, and no password."""
    told_error = failed(error, endpoint, "orders")
    assert isinstance(told_error, QueryFailed)
    assert expected in str(told_error)
    assert "u:p" not in str(told_error)


def test_what_says_enough() -> None:
    """An error that says itself what to do is as it was."""
    error = ConfigurationError("the option x is missing")
    assert failed(error, Endpoint(url="x")) is error
    assert failed(error, None) is error


def test_stacks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only Spark's workers, which end with the error, are told to show no stack."""
    failed(ConfigurationError("x"), None)
    assert HIDE not in os.environ
    monkeypatch.setenv("PYTHON_WORKER_FACTORY_PORT", "1")
    failed(ConfigurationError("x"), None)
    assert os.environ[HIDE]


def test_faults_of_ours() -> None:
    """What nobody raised on purpose keeps its stack."""
    with pytest.raises(ZeroDivisionError), user_errors(Endpoint(url="x")):
        raise ZeroDivisionError
    assert HIDE not in os.environ
