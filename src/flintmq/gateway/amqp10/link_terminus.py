"""Termini of links, which may outlive the links: found by user, container and link name (amqp-1.0 part 3 §3.5).

A link whose terminus need not outlive its session has none of these until it is suspended, so it costs nothing.
"""

from typing import Final

from flintmq.base.errors import SCOPE_LINK, ResourceLimitExceeded
from flintmq.base.limits import ASSEMBLY_MAX_BYTES, TARGET_UNSETTLED_MAX
from flintmq.broker.queue.base import Queue
from flintmq.broker.terminus.terminus import SourceTerminus, TargetTerminus, Terminus
from flintmq.gateway.amqp10.ports import ClientSession
from flintmq.protocol.amqp10.resumption import settled_meanwhile
from flintmq.wire.amqp10.composite_reader import decode_composite
from flintmq.wire.amqp10.performatives import Attach
from flintmq.wire.amqp10.spec import EXPIRE_CONNECTION_CLOSE, EXPIRE_NEVER
from flintmq.wire.amqp10.states import DeliveryState
from flintmq.wire.amqp10.termini import Source, Target
from flintmq.wire.amqp10.writer import encode_value

_MS_PER_SECOND: Final = 1000


def outlives_session(terminus: Source | Target) -> bool:
    """Whether a terminus may outlive the session that it was attached on."""
    return (
        terminus.durable != 0
        or terminus.timeout != 0
        or terminus.expiry_policy in (EXPIRE_NEVER, EXPIRE_CONNECTION_CLOSE)
    )


def source_terminus(session: ClientSession, name: str, source: Source, found: SourceTerminus | None) -> SourceTerminus:
    """The terminus for a link with this source: `found`, configured anew, or a new one.

    Raises ResourceError if too many are kept.
    """
    timeout_ms = source.timeout * _MS_PER_SECOND
    configuration = encode_value(source)
    if found is not None:
        found.configure(source.durable, source.expiry_policy, timeout_ms, configuration)
        return found
    return session.vhost.termini.make_source(
        *session.key(name), source.durable, source.expiry_policy, timeout_ms, configuration
    )


def target_terminus(session: ClientSession, name: str, target: Target, found: TargetTerminus | None) -> TargetTerminus:
    """The terminus for a link with this target: `found`, configured anew, or a new one.

    Raises ResourceError if too many are kept.
    """
    timeout_ms = target.timeout * _MS_PER_SECOND
    configuration = encode_value(target)
    if found is not None:
        found.configure(target.durable, target.expiry_policy, timeout_ms, configuration)
        return found
    return session.vhost.termini.make_target(
        *session.key(name), target.durable, target.expiry_policy, timeout_ms, configuration
    )


def known_source(found: SourceTerminus) -> Source:
    """The source as it was attached last."""
    configuration = found.record.configuration
    source = decode_composite(configuration, 0, len(configuration))[0]
    assert isinstance(source, Source)
    return source


def known_target(found: TargetTerminus) -> Target:
    """The target as it was attached last."""
    configuration = found.record.configuration
    target = decode_composite(configuration, 0, len(configuration))[0]
    assert isinstance(target, Target)
    return target


def forget_settled(found: TargetTerminus, attach: Attach, message_max: int) -> None:
    """Forget deliveries that a sender has settled since: its unsettled map, if complete, does not list them.

    If still too many are kept, the oldest that its map does not list are forgotten. `message_max` is the link's maximum
    message size in bytes; 0: no limit. Raises ResourceLimitExceeded if its map lists more than may be kept.
    """
    known = found.unsettled
    theirs = attach.unsettled or {}
    if attach.unsettled is not None:
        for tag in settled_meanwhile(known, theirs, not attach.incomplete_unsettled):
            found.forget(tag)
    # Twice the maximum: each part counts with a minimum size, and one message in the smallest frames must be resumable.
    kept_max = 2 * (message_max or ASSEMBLY_MAX_BYTES)
    kept = sum([int(received.held) for received in known.values()])
    for tag, received in list(known.items()):
        is_too_much = len(known) > TARGET_UNSETTLED_MAX or (kept > kept_max and received.held > 0)
        if is_too_much and tag not in theirs:
            kept -= int(received.held)
            found.forget(tag)
    if len(known) > TARGET_UNSETTLED_MAX or kept > kept_max:
        raise ResourceLimitExceeded(
            f"{len(known)} deliveries with {kept} bytes of messages that have begun are unsettled, at most "
            f"{TARGET_UNSETTLED_MAX} with {kept_max} are kept: attach with a map of those that shall be resumed",
            SCOPE_LINK,
        )


def encoded_state(state: DeliveryState) -> bytes:
    return encode_value(state)


def decoded_state(encoded: bytes) -> DeliveryState:
    state = decode_composite(encoded, 0, len(encoded))[0]
    assert isinstance(state, DeliveryState)
    return state


def join(queue: Queue, link: object, terminus: Terminus | None, is_creator: bool) -> None:
    """Count a link to a queue whose lifetime depends on its links.

    With a `terminus`, the link counts until its terminus expires. `is_creator`: the queue was made for this terminus.
    """
    lifetime = queue.lifetime
    if lifetime is None:
        return
    if terminus is None:
        lifetime.open(link)
    elif is_creator:
        terminus.made(queue)
    else:
        terminus.own(queue)


def leave(queue: Queue, link: object) -> None:
    """Stop counting a link that is over, and that left no terminus to attach again."""
    if queue.lifetime is not None:
        queue.lifetime.close(link)
