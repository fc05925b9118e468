"""How a pipeline is doing: what the terminal shows, and what the broker is told. Values, and their form as JSON."""

from enum import StrEnum

import msgspec

from flintmq.base.errors import FlintError


class State(StrEnum):
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    # Asked to stop, and did; or had nothing left to do.
    STOPPED = "stopped"
    FINISHED = "finished"
    FAILED = "failed"
    # Never said by a pipeline itself: it runs, as far as is known, and has not been heard of for long.
    SILENT = "silent"


ENDED = frozenset({State.STOPPED, State.FINISHED, State.FAILED})


class LakeStatus(msgspec.Struct, kw_only=True):
    """What a lake, one of a flow's sinks, has got since the flow started. None is where nobody knows: its manifest is
    not to be seen from here, or not there yet.
    """

    path: str
    rows: int | None = None
    files: int | None = None
    size_bytes: int | None = None


class FlowStatus(msgspec.Struct, kw_only=True):
    """`rows` were read, and rates are rows per second; `written` is what each sink took of what became of them.

    `lag` is how many messages wait that have not been read. `files` are those of all lakes. None is where nobody knows.
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
    """`updated_ms` is when this was said; times are milliseconds since 1970."""

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
        return sum(flow.rows for flow in self.flows)

    @property
    def rate(self) -> float:
        return sum(flow.rate for flow in self.flows)

    @property
    def lag(self) -> int | None:
        """Of all flows that know theirs."""
        known = [flow.lag for flow in self.flows if flow.lag is not None]
        return sum(known) if known else None

    def as_json(self) -> bytes:
        return msgspec.json.encode(self)


def parse_status(body: bytes) -> PipelineStatus:
    """Raises FlintError for what no pipeline said."""
    try:
        return msgspec.json.decode(body, type=PipelineStatus)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise FlintError(f"this is no status of a pipeline: {error}") from error
