from pathlib import Path

import pytest

from flintmq.base import limits
from flintmq.base.errors import ConfigurationError
from flintmq.server import config


def _write(directory: Path, text: str) -> Path:
    file = directory / "flintmq.toml"
    file.write_text(text)
    return file


def test_without_any_source_the_defaults_hold() -> None:
    """Nobody has to configure anything: loopback, the registered port, the limits of `base.limits`."""
    settings = config.load(None, {}, {})
    assert settings == config.Settings()
    assert (settings.listen.host, settings.listen.port) == ("127.0.0.1", 5672)
    assert settings.limits.frame_max_bytes == limits.FRAME_MAX_BYTES
    assert (settings.default_user.name, settings.default_user.password) == ("guest", "guest")


def test_a_file_sets_what_it_names_and_leaves_the_rest(tmp_path: Path) -> None:
    """Every type of setting is read from TOML; settings that are not in the file keep their defaults."""
    file = _write(
        tmp_path,
        '[listen]\nport = 5673\n[storage]\ndirectory = "/srv/flintmq"\n[limits]\nheartbeat_seconds = 0\n'
        '[log]\nformat = "json"\n',
    )
    settings = config.load(file, {}, {})
    assert settings.listen == config.ListenSettings(port=5673)
    assert settings.storage.directory == Path("/srv/flintmq")
    assert settings.limits == config.LimitSettings(heartbeat_seconds=0)
    assert settings.log == config.LogSettings(format="json")


def test_environment_wins_over_file_and_flags_over_both(tmp_path: Path) -> None:
    """The nearer to the person who starts the broker, the stronger."""
    file = _write(tmp_path, '[listen]\nhost = "10.0.0.1"\nport = 1\n[log]\nlevel = "error"\n')
    settings = config.load(
        file, {"FLINTMQ_LISTEN_PORT": "2", "FLINTMQ_LOG_LEVEL": "debug"}, {"listen.port": "3", "storage.directory": "d"}
    )
    assert settings.listen == config.ListenSettings(host="10.0.0.1", port=3)
    assert settings.log.level == "debug"
    assert settings.storage.directory == Path("d")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[listen]\nprot = 1", ["flintmq.toml", "listen.prot", "did you mean listen.port?"]),
        ("[lissen]\nport = 1", ["flintmq.toml", "[lissen]", "did you mean listen?"]),
        ("[zzz]", ["[zzz]", "there are listen, tls, management, storage"]),
        ("listen = 5672", ["flintmq.toml", "listen is a section"]),
        ('[listen]\nport = "5672"', ["flintmq.toml", "listen.port", "expected `int`, got `str`"]),
        ("[listen]\nport = 65536", ["listen.port", "expected `int` <= 65535"]),
        ("[listen]\nport = true", ["listen.port", "expected `int`, got `bool`"]),
        ('[listen]\nhost = ""', ["listen.host", "length >= 1"]),
        ("[limits]\nframe_max_bytes = 4095", ["limits.frame_max_bytes", "expected `int` >= 4096"]),
        ('[log]\nlevel = "loud"', ["log.level", "invalid enum value 'loud'"]),
        ("[storage]\ndirectory = 7", ["storage.directory", "expected a path"]),
        ('[storage]\ndirectory = ""', ["storage.directory", "expected a path"]),
        (
            '[management]\nproxies = "10.0.0.7 10.0.0.1/24"',
            ["management.proxies", "10.0.0.1/24", "write addresses or networks"],
        ),
        ("[listen]\nport 5672", ["flintmq.toml is not valid TOML", "line 2"]),
    ],
)
def test_a_wrong_file_is_refused_in_words_that_name_the_way_out(tmp_path: Path, text: str, words: list[str]) -> None:
    """An error says where, which key, and what would be right."""
    with pytest.raises(ConfigurationError) as caught:
        config.load(_write(tmp_path, text), {}, {})
    for word in words:
        assert word in str(caught.value)


def test_a_file_that_is_not_utf_8_is_refused_with_its_line(tmp_path: Path) -> None:
    """Bytes of another encoding are an error of the file, not ours."""
    file = tmp_path / "flintmq.toml"
    file.write_bytes(b'[listen]\nhost = "\xff"\n')
    with pytest.raises(ConfigurationError, match=r"flintmq\.toml is not valid TOML: not UTF-8 \(at line 2\)"):
        config.load(file, {}, {})


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """A file that was asked for must be there: the defaults are no substitute."""
    with pytest.raises(ConfigurationError, match=r"cannot read the settings in .*gone\.toml: No such file"):
        config.load(tmp_path / "gone.toml", {}, {})


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"FLINTMQ_LISTEN_PROT": "1"}, "FLINTMQ_LISTEN_PROT is no setting; did you mean FLINTMQ_LISTEN_PORT?"),
        ({"FLINTMQ_LISTEN_PORT": "amqp"}, "FLINTMQ_LISTEN_PORT in the environment: expected `int`, got `str`"),
    ],
)
def test_a_wrong_variable_is_refused(environment: dict[str, str], words: str) -> None:
    """A misspelt variable does not pass silently."""
    with pytest.raises(ConfigurationError, match=words.replace("?", r"\?")):
        config.load(None, environment, {})


def test_a_wrong_flag_is_refused() -> None:
    """The command line has the same bounds as the file."""
    with pytest.raises(ConfigurationError, match=r"listen\.port, as given on the command line: expected `int` >= 0"):
        config.load(None, {}, {"listen.port": "-1"})


def test_variables_that_are_not_settings_are_let_through() -> None:
    """The build's variables, and those of a Kubernetes service called flintmq, do not stop a broker."""
    environment = {
        "FLINTMQ_BUILD": "compiled",
        "FLINTMQ_CONFIG": "x.toml",
        "FLINTMQ_PORT": "tcp://10.0.0.1:5672",
        "FLINTMQ_PORT_5672_TCP_ADDR": "10.0.0.1",
        "FLINTMQ_SERVICE_HOST": "10.0.0.1",
        "HOME": "/root",
    }
    assert config.load(None, environment, {}) == config.Settings()


def test_the_password_is_not_shown() -> None:
    """Settings can be logged: their text does not hold the password."""
    settings = config.load(None, {"FLINTMQ_DEFAULT_USER_PASSWORD": "s3cret"}, {})
    assert settings.default_user.password == "s3cret"
    assert "s3cret" not in repr(settings)


def test_users_and_virtual_hosts_are_lists(tmp_path: Path) -> None:
    """There may be several of each, in the file; what a section does not say has a default."""
    file = _write(
        tmp_path,
        '[definitions]\nload = "d.json"\n'
        '[[vhosts]]\nname = "a"\ndialect = "strict"\ntags = ["t"]\n[[vhosts]]\nname = "b"\n'
        '[[users]]\nname = "u"\npassword = "p"\nvhosts = ["a", "b"]\n',
    )
    settings = config.load(file, {}, {})
    assert settings.definitions.load == Path("d.json")
    assert settings.vhosts == (config.VHostSettings("a", "strict", tags=("t",)), config.VHostSettings("b"))
    assert settings.users == (config.UserSettings("u", "p", vhosts=("a", "b")),)
    assert "p" not in repr(settings.users).replace("UserSettings", "").replace("vhosts", "")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[users]\nname = "u"', ["there may be several users", "write [[users]]"]),
        ('[[users]]\nname = "u"', ["users[0]: object missing required field `password`"]),
        ('[[users]]\nname = "u"\npasword = "p"', ["users[0]: there is no setting pasword; did you mean password?"]),
        ('[[vhosts]]\nname = "a"\n[[vhosts]]\nname = ""', ["vhosts[1]: expected `str` of length >= 1"]),
        ('[[vhosts]]\nname = "a"\ndialect = "loose"', ["vhosts[0]: invalid enum value 'loose'"]),
        ("[[user]]", ["there is no section [user]; did you mean users?"]),
    ],
)
def test_wrong_lists_are_refused(tmp_path: Path, text: str, words: list[str]) -> None:
    """As other settings are: with the place, and the way out."""
    with pytest.raises(ConfigurationError) as caught:
        config.load(_write(tmp_path, text), {}, {})
    for word in words:
        assert word in str(caught.value)
