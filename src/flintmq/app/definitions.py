"""Definitions in the settings: virtual hosts, users, and a file of definitions."""

from collections.abc import Iterator
from pathlib import Path

from flintmq.app.logins import has_scram, login_policy
from flintmq.app.runtime_environment import HashPassword
from flintmq.base.errors import ConfigurationError, FlintError
from flintmq.broker.broker import Broker
from flintmq.broker.ports import PermissionRecord, UserRecord, VHostRecord
from flintmq.management.definitions.document import Document
from flintmq.management.definitions.importer import import_in_steps
from flintmq.server.auth import scram_keys
from flintmq.server.config import Settings, UserSettings


def define(broker: Broker, settings: Settings, hash_password: HashPassword) -> list[str]:
    """Apply the definitions of the settings, and return remarks about parts without effect.

    Raises FlintError, with nothing applied, if a definition is wrong.
    """
    storage = broker.storage
    try:
        document = document_in(settings.definitions.load)
        if not broker.vhosts and not broker.users:
            _make_defaults(broker, settings, document, hash_password)
        users = user_records(broker, settings, hash_password)
        steps = bring_in(broker, settings, users, document, hash_password)
        remarks = [remark for remark in steps if remark is not None]
    except FlintError:
        storage.discard()
        raise
    storage.commit()
    return remarks


def bring_in(
    broker: Broker,
    settings: Settings,
    users: list[UserRecord],
    document: Document | None,
    hash_password: HashPassword,
) -> Iterator[str | None]:
    """Apply the virtual hosts and users of the settings, and the document, in steps. Yields a remark or None each."""
    for vhost in settings.vhosts:
        broker.put_vhost(
            VHostRecord(vhost.name, vhost.dialect, vhost.default_queue_type, vhost.description, vhost.tags)
        )
    for record in users:
        broker.put_user(record)
    if document is not None:
        yield from import_in_steps(document, broker, hash_password)
    for user in settings.users:
        for name in user.vhosts:
            broker.put_rule(PermissionRecord(name, user.name, ".*", ".*", ".*"))


def hashed_passwords(broker: Broker, document: Document | None, hash_password: HashPassword) -> list[tuple[str, str]]:
    """Return hashes of the clear-text passwords in a document, in their order."""
    found = []
    for entry in document.users if document is not None else ():
        if entry.password is not None and entry.password_hash is None:
            known = broker.users.get(entry.name)
            found.append(hash_password(known.record if known else None, entry.password))
    return found


def user_records(broker: Broker, settings: Settings, hash_password: HashPassword) -> list[UserRecord]:
    return [_user_record(broker, settings, hash_password, user) for user in settings.users]


def _make_defaults(broker: Broker, settings: Settings, document: Document | None, hash_password: HashPassword) -> None:
    """Create the virtual host and the user of a new broker, unless the settings define others."""
    has_vhosts = settings.vhosts or (document is not None and document.vhosts)
    has_users = settings.users or (document is not None and document.users)
    if not has_vhosts or not has_users:
        broker.add_vhost("/")
    if not has_users:
        add_default_user(broker, settings, hash_password)


def add_default_user(broker: Broker, settings: Settings, hash_password: HashPassword) -> None:
    """Create the default user, an administrator with all permissions in every virtual host."""
    default = UserSettings(settings.default_user.name, settings.default_user.password, ("administrator",))
    broker.put_user(_user_record(broker, settings, hash_password, default))
    for vhost in broker.vhosts:
        broker.put_rule(PermissionRecord(vhost, default.name, ".*", ".*", ".*"))


def _user_record(broker: Broker, settings: Settings, hash_password: HashPassword, user: UserSettings) -> UserRecord:
    """Return the record of a user. If the user has this password already, its hash stays the same."""
    known = broker.users.get(user.name)
    password_hash, algorithm = hash_password(known.record if known else None, user.password)
    is_new = known is None or known.record.password_hash != password_hash
    keys = scram_keys(user.password) if is_new and has_scram(login_policy(settings)) else ()
    return UserRecord(user.name, password_hash, user.tags, algorithm, keys)


def given_by(settings: Settings) -> tuple[object, ...]:
    """Return all definitions of the settings and of their definitions file, to compare them."""
    file = settings.definitions.load
    try:
        data = file.read_bytes() if file is not None else b""
    except OSError:
        # The import of the file reports the error.
        data = b""
    return settings.vhosts, settings.users, data


def document_in(file: Path | None) -> Document | None:
    if file is None:
        return None
    try:
        return Document(file.read_bytes(), str(file))
    except OSError as error:
        raise ConfigurationError(f"cannot read the definitions in {file}: {error.strerror}") from error
