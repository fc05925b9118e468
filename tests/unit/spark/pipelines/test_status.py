"""What pipelines tell of themselves, as others find it on the queue."""

import pytest

from flintmq.base.errors import FlintError
from flintmq.spark.pipelines.status import PipelineStatus, parse_status


def test_a_status() -> None:
    """What a pipeline says is read as it was said."""
    said = PipelineStatus(pipeline="p", description="d", master="m", host="h", pid=1, started_ms=2)
    assert parse_status(said.as_json()) == said


@pytest.mark.parametrize("body", [b"", b"{}", b"\xff", b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}"])
def test_what_no_pipeline_said(body: bytes) -> None:
    """Whoever may publish to the queue may put anything there: it is one error, which those who list pass over."""
    with pytest.raises(FlintError, match="this is not a status of a pipeline"):
        parse_status(body)
