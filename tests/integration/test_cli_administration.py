"""The commands that administer a broker, against its own API: what they do is what the broker then does."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import flintmq.client as fc
from tests.commands import run_here
from tests.servers import BrokerProcess


def patterns(configure: str = ".*") -> tuple[str, ...]:
    return ("--configure", configure, "--write", ".*", "--read", ".*")


class Administrator:
    """Runs commands, with the login that is to be used; `ask` wants them to work."""

    def __init__(self, broker: BrokerProcess, place: Path) -> None:
        self.broker = broker
        self.place = place
        self.api: str = broker.wait_for_log("listening", matches=lambda line: "http" in line)["http"]

    def run(self, *arguments: str, login: str = "guest:guest") -> "subprocess.CompletedProcess[str]":
        url = self.api.replace("http://", f"http://{login}@")
        return run_here(*arguments, FLINTMQ_API=url)

    def ask(self, *arguments: str) -> str:
        ran = self.run(*arguments)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    def password(self, text: str) -> str:
        """A file that has it."""
        file = self.place / "password"
        file.write_text(f"{text}\n")
        return str(file)

    def connect(self, password: str, vhost: str = "v") -> fc.Connection:
        return fc.connect(f"amqp://anna:{password}@127.0.0.1:{self.broker.port}/{vhost}")


@pytest.fixture(scope="module")
def admin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Administrator]:
    place = tmp_path_factory.mktemp("administration")
    with BrokerProcess(place / "data") as broker:
        made = Administrator(broker, place)
        made.ask("vhost", "add", "v", "--description", "for tests", "--tag", "test")
        made.ask("user", "add", "anna", "--new-password-file", made.password("first"))
        made.ask("permission", "set", "anna", "--vhost", "v", *patterns())
        yield made


def test_a_user_has_another_password_and_other_tags(admin: Administrator) -> None:
    """The old password stops to count; tags change without it, and give what they mean."""
    admin.connect("first").close()
    assert admin.run("list-users", login="anna:first").returncode == 4
    admin.ask("user", "password", "anna", "--new-password-file", admin.password("second"))
    with pytest.raises(fc.LoginRefused):
        admin.connect("first")
    admin.ask("user", "tags", "anna", "administrator")
    admin.connect("second").close()
    assert "administrator" in admin.run("list-users", login="anna:second").stdout
    admin.ask("user", "tags", "anna")
    assert admin.run("list-users", login="anna:second").returncode == 4
    assert admin.run("list-users", login="anna:wrong").returncode == 4
    admin.ask("user", "password", "anna", "--new-password-file", admin.password("first"))


def test_permissions_open_and_close(admin: Administrator) -> None:
    """What is granted can be done, in that virtual host only, until it is taken away."""
    admin.ask("permission", "set", "anna", "--vhost", "v", *patterns("^mine"))
    with admin.connect("first") as connection:
        connection.channel().declare_queue("mine")
        with pytest.raises(fc.ChannelClosed, match="403"):
            connection.channel().declare_queue("other")
    admin.ask("permission", "clear", "anna", "--vhost", "v")
    with pytest.raises(fc.ConnectionClosed, match="530"):
        admin.connect("first")
    admin.ask("permission", "set", "anna", "--vhost", "v", *patterns())


def test_permissions_are_never_granted_by_omission(admin: Administrator) -> None:
    """Each of the three patterns has to be given, or nothing changes."""
    for missing in range(3):
        given = patterns("^mine")
        ran = admin.run("permission", "set", "anna", "--vhost", "v", *given[: 2 * missing], *given[2 * missing + 2 :])
        assert ran.returncode == 2
        assert given[2 * missing] in ran.stderr
    assert "^mine" not in admin.ask("list-permissions")


def test_policies_hold(admin: Administrator) -> None:
    """A queue is shown with its policy, of operators, too, for as long as there is one."""
    with admin.connect("first") as connection:
        connection.channel().declare_queue("short")
    admin.ask("policy", "set", "limit", "^short$", '{"max-length": 1}', "--vhost", "v", "--apply-to", "queues")
    admin.ask("policy", "set", "hard", "^short$", '{"expires": 3600000}', "--vhost", "v", "--operator")
    (queue,) = [each for each in json.loads(admin.ask("list-queues", "--json")) if each["name"] == "short"]
    assert (queue["policy"], queue["operator_policy"]) == ("limit", "hard")
    assert "max-length=1" in admin.ask("list-policies")
    admin.ask("policy", "clear", "limit", "--vhost", "v")
    admin.ask("policy", "clear", "hard", "--vhost", "v", "--operator")
    assert "max-length" not in admin.ask("list-policies", "--vhost", "v")
    assert admin.run("policy", "set", "p", "(", "{}").returncode == 1


def test_limits_are_kept(admin: Administrator) -> None:
    """Of virtual hosts and of users; without them, there is room again."""
    admin.ask("limit", "set", "max-queues", "0", "--vhost", "v")
    admin.ask("limit", "set", "max-channels", "1", "--user", "anna")
    assert "max-queues=0" in admin.ask("limit", "list")
    with admin.connect("first") as connection:
        channel = connection.channel()
        with pytest.raises(fc.ChannelClosed, match="queue limit"):
            channel.declare_queue("one-more")
    admin.ask("limit", "clear", "max-queues", "--vhost", "v")
    admin.ask("limit", "clear", "max-channels", "--user", "anna")
    assert json.loads(admin.ask("limit", "list", "--json")) == []


def test_a_connection_is_seen_and_closed(admin: Administrator) -> None:
    """It is in the lists with its user and virtual host; closed, it is told the reason."""
    with admin.connect("first") as connection:
        channel = connection.channel()
        channel.declare_queue("seen")
        (seen,) = [each for each in json.loads(admin.ask("list-connections", "--json")) if each["user"] == "anna"]
        assert "AMQP 0-9-1" in admin.ask("list-connections")
        assert seen["name"] in admin.ask("list-channels")
        for noun, there in (("connections", "v"), ("channels", "v"), ("connections", "/"), ("channels", "/")):
            assert (seen["name"] in admin.ask(f"list-{noun}", "--vhost", there)) is (there == "v")
        admin.ask("close-connection", seen["name"], "--reason", "because")
        with pytest.raises(fc.ConnectionClosed, match="because"):
            connection.process(60)


def test_definitions_go_round(admin: Administrator) -> None:
    """What a broker that runs exports, it takes back; a file that is wrong is refused with the entry."""
    file = admin.place / "definitions.json"
    admin.ask("definitions", "export", str(file), "--live")
    before = json.loads(file.read_text())
    assert "v" in [each["name"] for each in before["vhosts"]]
    admin.ask("user", "delete", "anna")
    admin.ask("definitions", "import", str(file), "--live")
    admin.connect("first").close()
    file.write_text('{"queues": [{"name": "q", "vhost": "nowhere"}]}')
    ran = admin.run("definitions", "import", str(file), "--live")
    assert ran.returncode == 1
    assert "nowhere" in ran.stderr


def test_status_says_how_it_is(admin: Administrator) -> None:
    """No alarm is status 0, and the page has what the node has."""
    shown = admin.ask("status")
    for words in ("FlintMQ", "memory", "disk free", "queues", "listening", "alarms        none"):
        assert words in shown
