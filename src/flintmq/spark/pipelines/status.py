"""The status of a pipeline, for the terminal and the broker, and its encoding as JSON."""

from enum import StrEnum

import msgspec

from flintmq.base.errors import FlintError


class State(StrEnum):
    """The state of a pipeline or a flow."""

    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    # STOPPED after a request to stop; FINISHED because there was nothing left to read.
    STOPPED = "stopped"
    FINISHED = "finished"
    FAILED = "failed"
    # A reader of the status sets SILENT: the pipeline should run, and has sent no status for long.
    SILENT = "silent"


ENDED = frozenset({State.STOPPED, State.FINISHED, State.FAILED})


class LakeStatus(msgspec.Struct, kw_only=True):
    """The growth of a lake since the flow started. Counts are None if its manifest is missing or unreadable."""

    path: str
    rows: int | None = None
    files: int | None = None
    size_bytes: int | None = None


class FlowStatus(msgspec.Struct, kw_only=True):
    """The status of one flow.

    `rows` were read, and each sink has written `written` rows. `rate` and `input_rate` are rows per second. `lag` is
    the number of messages that were not read yet. `files` are those of all lakes. A value is None if it is unknown.
    """

    name: str
    state: State = State.STARTING
    batches: int = 0
    rows: int = 0
    written: int | None = None
    rate: float = 0.0
    input_rate: float = 0.0
    lag: int | None = None
    batch_ms: int = 0
    files: int | None = None
    lakes: list[LakeStatus] = []
    error: str = ""


class PipelineStatus(msgspec.Struct, kw_only=True):
    """The status of a pipeline. Times are in milliseconds since 1970; `updated_ms` is that of this status."""

    pipeline: str
    state: State = State.STARTING
    description: str = ""
    master: str = ""
    host: str = ""
    pid: int = 0
    started_ms: int = 0
    updated_ms: int = 0
    flows: list[FlowStatus] = []
    error: str = ""

    @property
    def rows(self) -> int:
        """The rows that all flows have read."""
        return sum(flow.rows for flow in self.flows)

    @property
    def rate(self) -> float:
        """The rows per second of all flows."""
        return sum(flow.rate for flow in self.flows)

    @property
    def lag(self) -> int | None:
        """The lag of all flows that report one; None if none does."""
        known = [flow.lag for flow in self.flows if flow.lag is not None]
        return sum(known) if known else None

    def as_json(self) -> bytes:
        """The body of a status message."""
        return msgspec.json.encode(self)


def parse_status(body: bytes) -> PipelineStatus:
    """The inverse of `as_json`. Raises FlintError for any other body."""
    try:
        return msgspec.json.decode(body, type=PipelineStatus)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise FlintError(f"this is not a status of a pipeline: {error}") from error
