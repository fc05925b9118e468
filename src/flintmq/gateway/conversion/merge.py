"""The merge of a message's original AMQP 1.0 sections with the changes that a client of AMQP 0-9-1 made to them.

A message that is converted to AMQP 0-9-1 carries its original sections. If a client publishes it again with changed
properties, each field or entry keeps its original value if its form in AMQP 0-9-1 is unchanged, or if it has no such
form.
"""

from flintmq.base.errors import DecodeError
from flintmq.gateway.conversion import names, tables
from flintmq.gateway.conversion.from_amqp10 import headers_at
from flintmq.gateway.conversion.parts import (
    Sections,
    read_annotations,
    read_application,
    read_properties,
    readable_annotations,
    readable_application,
    write_annotations,
    write_application,
    write_properties,
)
from flintmq.gateway.conversion.plain import plain
from flintmq.wire.amqp091.properties import decode_properties
from flintmq.wire.amqp10.composite import Annotations


def merged(old: Sections, old_form: bytes, new: Sections, new_form: bytes) -> Sections:
    """Merge the original sections `old` with `new`, which were converted from `new_form`, the properties as published.

    `old_form` are the properties that `old` is converted to.
    """
    was = _table(old_form)
    now = _table(new_form)
    application = _merged_application(old, new, was, now)
    return Sections(
        # The original header describes earlier deliveries, so the new one is used.
        new.header,
        _merged_annotations(old, new, was, now, application),
        _merged_properties(old, old_form, new, new_form),
        write_application(application),
    )


def _table(form: bytes) -> dict[str, object]:
    at = headers_at(form)
    return tables.pull_table(form, at) if at else {}


def _is_kept(name: str, was: dict[str, object], now: dict[str, object]) -> bool:
    """Whether the header `name` has its old value. Types of numbers may differ, because clients choose these."""
    if name not in was or name not in now:
        return name not in was and name not in now
    before, after = plain(was[name]), plain(now[name])
    return isinstance(before, bool) == isinstance(after, bool) and before == after


def _merged_application(
    old: Sections, new: Sections, was: dict[str, object], now: dict[str, object]
) -> dict[str, object]:
    mine = readable_application(old.application)
    theirs = read_application(new.application)
    found: dict[str, object] = {}
    for name, value in mine.items():
        if _is_kept(name, was, now):
            found[name] = value
        elif name in theirs:
            found[name] = theirs[name]
    return found | {name: value for name, value in theirs.items() if name not in mine}


def _merged_annotations(
    old: Sections, new: Sections, was: dict[str, object], now: dict[str, object], application: dict[str, object]
) -> bytes:
    mine = readable_annotations(old.annotations)
    theirs = read_annotations(new.annotations)
    found: Annotations = {}
    for key, value in mine.items():
        name = names.header_of(key)
        if name is None or _is_kept(name, was, now):
            found[key] = value
        elif key in theirs:
            found[key] = theirs[key]
    for key, value in theirs.items():
        name = names.header_of(key)
        # An unchanged header without an original annotation stands for something else: an application-property, or an
        # id that is too long for a short string.
        stands_for_other = name is not None and name in was and _is_kept(name, was, now)
        if key not in mine and key not in application and not stands_for_other:
            found[key] = value
    return write_annotations(found)


def _merged_properties(old: Sections, old_form: bytes, new: Sections, new_form: bytes) -> bytes:
    try:
        found = read_properties(old.properties)
    except DecodeError:
        return new.properties
    fresh = read_properties(new.properties)
    was, now = decode_properties(old_form), decode_properties(new_form)
    if was.message_id != now.message_id:
        found.message_id = fresh.message_id
    if was.correlation_id != now.correlation_id:
        found.correlation_id = fresh.correlation_id
    if was.user_id != now.user_id:
        found.user_id = fresh.user_id
    if was.reply_to != now.reply_to:
        found.reply_to = fresh.reply_to
    if was.content_type != now.content_type:
        found.content_type = fresh.content_type
    if was.content_encoding != now.content_encoding:
        found.content_encoding = fresh.content_encoding
    if was.timestamp != now.timestamp:
        found.creation_time = fresh.creation_time
    if was.app_id != now.app_id:
        found.group_id = fresh.group_id
    return write_properties(found)
