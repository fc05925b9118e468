"""Settings that a running broker applies when they are read again."""

import asyncio
from functools import partial

from flintmq.app.definitions import bring_in, document_in, given_by, hashed_passwords, user_records
from flintmq.app.runtime_environment import HashPassword
from flintmq.app.server_properties import server_properties_091, server_properties_10
from flintmq.base.errors import ConfigurationError, FlintError
from flintmq.base.limits import ASSEMBLING_DIVISOR, PARTIAL_MESSAGES_USER_MAX_BYTES, TRANSACTION_MAX_BYTES
from flintmq.broker.broker import Broker
from flintmq.management.slices import gathered
from flintmq.server import logs
from flintmq.server.alarms import Alarms
from flintmq.server.amqp import AmqpServer
from flintmq.server.certificates import Tls, tls_of
from flintmq.server.config import Settings
from flintmq.server.reload import Apply, Part

log = logs.get_logger()


def bound_assembling(server: AmqpServer, alarms: Alarms) -> None:
    """Set the memory limits for incomplete messages: of connected senders, of disconnected ones, and in transactions.

    They depend on the memory limit of the alarm and on the size of the largest message.
    """
    message_max = server.amqp091.properties.tuning.message_max
    most = max(alarms.memory_max_bytes // ASSEMBLING_DIVISOR, 2 * message_max)
    server.gateway.reassembly.most = most
    server.gateway.tick.staged.most = max(most, TRANSACTION_MAX_BYTES)
    server.gateway.tick.partial_messages.bound(min(max(PARTIAL_MESSAGES_USER_MAX_BYTES, 2 * message_max), most), most)


def tls_part(used: Tls | None) -> Part:
    """Return the settings of TLS, which `used` takes up; None if there is no TLS since the start."""

    async def prepare(settings: Settings) -> Apply:
        tls = tls_of(settings.tls, settings.certificates)
        if tls is None or used is None:
            if tls is not used:
                raise ConfigurationError("tls.certificate: TLS comes and goes with a restart")
            return lambda: None
        # The object is changed in place, so that other listeners with these certificates get the new ones, too.
        return partial(used.become, tls)

    return Part(("tls.", "certificates"), prepare, is_always=True)


def reloaded_parts(
    started_with: Settings, broker: Broker, server: AmqpServer, alarms: Alarms, hash_password: HashPassword
) -> list[Part]:
    """Return the parts of the settings that a running broker applies when they are read again."""
    brought_in = given_by(started_with)

    async def prepare_limits(settings: Settings) -> Apply:
        def apply() -> None:
            server.amqp091.properties = server_properties_091(settings)
            server.amqp10.properties = server_properties_10(settings)
            server.send_timeout.seconds = settings.limits.send_timeout_seconds
            broker.tick.dispatch.bound_backlog(settings.limits.backlog_messages)
            bound_assembling(server, alarms)

        return apply

    async def prepare_alarms(settings: Settings) -> Apply:
        def apply() -> None:
            alarms.configure(settings.alarms)
            bound_assembling(server, alarms)

        return apply

    async def prepare_definitions(settings: Settings) -> Apply:
        nonlocal brought_in
        given = given_by(settings)
        if given == brought_in:
            # Unchanged definitions are not applied again: a SIGHUP to rotate logs must not restore a removed right.
            return lambda: None
        document = document_in(settings.definitions.load)
        # A hash takes 25 ms.
        users = await asyncio.to_thread(user_records, broker, settings, hash_password)
        secrets = iter(await asyncio.to_thread(hashed_passwords, broker, document, hash_password))

        async def apply() -> None:
            nonlocal brought_in
            brought_in = given
            steps = bring_in(broker, settings, users, document, lambda _known, _password: next(secrets))
            try:
                for remark in await gathered(steps):
                    if remark is not None:
                        log.warning("no effect", what=remark)
            except FlintError as error:
                # Like an import at run time: the definitions before the error stay.
                log.warning("definitions were not taken up as a whole", reason=str(error))
            server.schedule.request()

        return apply

    return [
        Part(("limits.",), prepare_limits),
        Part(("alarms.",), prepare_alarms),
        tls_part(server.tls),
        Part(("definitions.", "vhosts", "users"), prepare_definitions, is_always=True),
    ]
