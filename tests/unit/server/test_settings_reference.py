import re
from pathlib import Path

from flintmq.server import config
from flintmq.server.settings_reference import reference

DOCUMENT = Path(__file__).parents[3] / "docs" / "configuration.md"
MARK = "<!-- What follows is made by `flintmq config reference`. -->\n"


def test_the_document_has_all_settings_as_they_are() -> None:
    """docs/configuration.md is not stale: below the mark stands what `flintmq config reference` prints."""
    _, found, rest = DOCUMENT.read_text(encoding="utf-8").partition(MARK)
    assert found, MARK
    assert rest == reference()


def test_every_section_says_what_it_is_about() -> None:
    """A section without a docstring would be a table without a word."""
    for name, section in config.sections().items():
        assert section.__doc__, name
        assert not section.__doc__.startswith(f"{section.__name__}("), name


def test_every_setting_stands_there_with_its_bounds() -> None:
    """Types, bounds, defaults and variables are those that are enforced."""
    text = reference()
    row = "| `port` | `FLINTMQ_LISTEN_PORT` | number from 0 to 65535 | `5672` | at the start |"
    assert row in text
    assert (
        '| `level` | `FLINTMQ_LOG_LEVEL` | `"debug"`, `"info"`, `"warning"`, `"error"` | `info` | on SIGHUP |' in text
    )
    assert "| `name` | text | required |" in text


def test_the_example_loads(tmp_path: Path) -> None:
    """The file that the document shows is one."""
    (example,) = re.findall(r"```toml\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    file = tmp_path / "flintmq.toml"
    file.write_text(example)
    settings = config.load(file, {}, {})
    assert settings.listen.host == "0.0.0.0"
    assert settings.users[0].name == "app"
