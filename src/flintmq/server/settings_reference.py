"""The reference of all settings as part of a Markdown document, generated from the types in config.py."""

import inspect
import types
from collections.abc import Iterator
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from msgspec import Meta

from flintmq.server import config

_NAMES: Final[dict[object, str]] = {str: "text", Path: "path", bool: "true or false", int: "number", float: "number"}


def reference() -> str:
    """Return the reference, with one section for each section of the settings file."""
    return "\n".join(_section(name, section) for name, section in config.sections().items())


def _section(name: str, section: type) -> str:
    is_list = not any(config.variable(f"{name}.{setting.name}") for setting in fields(section))
    heading = f"## `[[{name}]]`" if is_list else f"## `[{name}]`"
    table = _lists_table(name, section) if is_list else _table(name, section)
    return "\n".join([heading, "", inspect.cleandoc(section.__doc__ or ""), "", *table, ""])


def _table(name: str, section: type) -> Iterator[str]:
    yield "| setting | variable | value | default | takes effect |"
    yield "|---|---|---|---|---|"
    for setting, hint in _settings(section):
        key = f"{name}.{setting.name}"
        when = "on SIGHUP" if config.is_reloaded(key) else "at the start"
        yield f"| `{setting.name}` | `{config.variable(key)}` | {_words(hint)} | {_default(setting)} | {when} |"


def _lists_table(name: str, section: type) -> Iterator[str]:
    when = "on SIGHUP" if config.is_reloaded(name) else "at the start"
    yield f"May be repeated; config file only; read again {when}."
    yield ""
    yield "| setting | value | default |"
    yield "|---|---|---|"
    for setting, hint in _settings(section):
        yield f"| `{setting.name}` | {_words(hint)} | {_default(setting)} |"


def _settings(section: type) -> Iterator[tuple[Field[Any], object]]:
    hints = get_type_hints(section, include_extras=True)
    for setting in fields(section):
        yield setting, hints[setting.name]


def _words(hint: object) -> str:
    """Return a type in words, such as `number from 0 to 65535`."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return ", ".join(f'`"{value}"`' for value in arguments)
    if origin in (Union, types.UnionType):
        return " or ".join(_words(part) for part in arguments if part is not type(None))
    if origin is tuple:
        return "list of texts"
    if origin is dict:
        return "table of texts"
    bounds = [part for part in arguments if isinstance(part, Meta)]
    if bounds:
        return _words(arguments[0]) + _bounds(bounds[0])
    return _NAMES[hint]


def _bounds(meta: Meta) -> str:
    words = ""
    if meta.ge is not None:
        words += f" from {meta.ge}"
    if meta.gt is not None:
        words += f" above {meta.gt}"
    if meta.le is not None:
        words += f" to {meta.le}"
    return words


def _default(setting: Field[Any]) -> str:
    if setting.default_factory is not MISSING:
        value = setting.default_factory()
    elif setting.default is MISSING:
        return "required"
    else:
        value = setting.default
    if value is None or value in ("", (), {}):
        return ""
    if isinstance(value, tuple):
        return ", ".join(f"`{part}`" for part in value)
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"
