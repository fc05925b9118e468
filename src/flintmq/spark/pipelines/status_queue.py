"""The queue for the status of pipelines, of which the broker keeps the last message of each pipeline."""

import threading
import time
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

import flintmq.client as fc
from flintmq.base.errors import FlintError, NotFound
from flintmq.spark.endpoint import Endpoint
from flintmq.spark.pipelines.definition import FLINTMQ, Pipeline
from flintmq.spark.pipelines.status import ENDED, PipelineStatus, State, parse_status

QUEUE: Final = "flintmq.pipelines"
KEY: Final = "pipeline"
_ARGUMENTS: Final[dict[str, object]] = {"x-last-value-key": KEY}
# The status of a pipeline expires after this time.
FORGET_SECONDS: Final = 30 * 24 * 3600
# A status is repeated without changes, so that readers can tell an idle pipeline from a dead one.
REPEAT_SECONDS: Final = 5.0
SILENT_SECONDS: Final = 6 * REPEAT_SECONDS
# The shortest time between two messages.
_BETWEEN_SECONDS: Final = 1.0
_RETRY_SECONDS: Final = 5.0
# The longest wait at the end for the last status.
_LAST_STATUS_SECONDS: Final = 5.0
# All waiting messages come at once, so this long without a message means the end of the queue.
_BROWSE_SECONDS: Final = 0.5


def status_endpoint(pipeline: Pipeline) -> Endpoint | None:
    """The broker for the status of a pipeline: its own, or that of the first flow that has one; None without any."""
    places = [pipeline.broker]
    for flow in pipeline.flows:
        places += [flow.source.options] if flow.source.kind == FLINTMQ else []
        places += [sink.options for sink in flow.sinks if sink.kind == FLINTMQ]
    for options in places:
        given = {name.lower(): value for name, value in options.items()}
        endpoint = Endpoint(given.get("url", ""), given.get("urlenv", ""), given.get("urlfile", ""))
        if endpoint != Endpoint():
            return endpoint
    return None


def browse(url: str, now_ms: int) -> list[PipelineStatus]:
    """The last status of each pipeline, by name. No message is removed.

    `now_ms` is the Unix time, with which a pipeline without recent messages is SILENT. Raises FlintError.
    """
    found: dict[str, PipelineStatus] = {}
    with fc.connect(url) as connection, connection.channel() as channel:
        try:
            waiting = channel.declare_queue(QUEUE, passive=True).message_count
        except fc.ChannelClosed as error:
            if error.code == NotFound.code:
                return []
            raise
        if not waiting:
            return []
        for batch in channel.consume(QUEUE, timeout=_BROWSE_SECONDS, arguments={"x-browse": True}, no_ack=True):
            for message in batch.messages:
                with suppress(FlintError):
                    status = parse_status(message.body)
                    found[status.pipeline] = _with_silence(status, now_ms)
            if len(found) >= waiting:
                break
    return [found[name] for name in sorted(found)]


def _with_silence(status: PipelineStatus, now_ms: int) -> PipelineStatus:
    if status.state not in ENDED and now_ms - status.updated_ms > SILENT_SECONDS * 1000:
        status.state = State.SILENT
    return status


class StatusPublisher:
    """Publishes the status of a pipeline from its own thread, so that a pipeline does not depend on it.

    `failure` is the reason why the last publish failed; empty if it succeeded.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self.failure = ""
        self._endpoint = endpoint
        self._latest: PipelineStatus | None = None
        self._changed = threading.Event()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pipeline-status", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Publish the last status, if that does not take long."""
        self._closing.set()
        self._changed.set()
        self._thread.join(_LAST_STATUS_SECONDS)

    def tell(self, status: PipelineStatus) -> None:
        """Publish this status soon; a later one may replace it before."""
        self._latest = status
        self._changed.set()

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                with self._endpoint.connect() as connection, connection.channel(confirms=True) as channel:
                    channel.declare_queue(QUEUE, arguments=_ARGUMENTS)
                    self._publish_changes(channel)
            except FlintError as error:
                self.failure = str(error)
                self._closing.wait(_RETRY_SECONDS)

    def _publish_changes(self, channel: fc.Channel) -> None:
        """Publish changes until the publisher is closed. Raises FlintError."""
        while True:
            self._changed.wait(REPEAT_SECONDS)
            self._changed.clear()
            closing = self._closing.is_set()
            status = self._latest
            if status is not None:
                status.updated_ms = time.time_ns() // 1_000_000
                channel.publish_batch([("", QUEUE, status.as_json(), _properties(status.pipeline))])
                self.failure = ""
            if closing:
                return
            self._closing.wait(_BETWEEN_SECONDS)


def _properties(pipeline: str) -> bytes:
    return fc.encode_properties(
        fc.Properties(
            content_type="application/json",
            delivery_mode=2,
            headers={KEY: pipeline},
            expiration=str(FORGET_SECONDS * 1000),
        )
    )
