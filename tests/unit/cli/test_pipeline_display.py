from contextlib import redirect_stderr
from io import StringIO

import pytest

from flintmq.cli.pipeline_display import Display, table_of
from flintmq.spark.pipelines.status import FlowStatus, LakeStatus, PipelineStatus, State


@pytest.mark.parametrize(
    ("flow", "words"),
    [
        (
            FlowStatus(name="f", rows=100, batches=2, written=1, files=1),
            "100 rows read in 2 batches, 1 row written, 1 file",
        ),
        (FlowStatus(name="f", rows=1, batches=1, written=0), "1 row read in 1 batch, 0 rows written"),
        (FlowStatus(name="f"), "0 rows read in 0 batches"),
    ],
)
def test_what_came_of_it(flow: FlowStatus, words: str) -> None:
    """The summary has the rows read and the rows written, and leaves out what is unknown."""
    flow.state = State.FINISHED
    assert Display().summary(PipelineStatus(pipeline="p", flows=[flow])) == f"p.f: finished, {words}"


@pytest.mark.parametrize(("is_quiet", "said"), [(False, "Starting Spark ...\n"), (True, "")])
def test_steps_are_said_without_a_terminal(is_quiet: bool, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a terminal, steps are lines on standard error, unless the display is quiet."""
    with Display(is_quiet) as display:
        display.say("Starting Spark ...")
    assert capsys.readouterr() == ("", said)


def test_a_terminal_shows_a_step_in_place() -> None:
    """On a terminal, a step is shown and then erased."""

    class Terminal(StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    with redirect_stderr(terminal), Display() as display:
        display.say("Starting Spark (local[2]) ...")
    assert "Starting Spark (local[2]) ..." in terminal.getvalue()
    assert terminal.getvalue().endswith("\x1b[2K")


def test_each_of_several_lakes_has_a_line() -> None:
    """A flow with several lakes has a row for each lake below its own row."""
    lakes = [LakeStatus(path="/lake/a", rows=1, files=2), LakeStatus(path="/lake/b")]
    flow = FlowStatus(name="f", batches=1, written=1, files=2, lakes=lakes)
    table = table_of(PipelineStatus(pipeline="p", flows=[flow]))
    cells = {str(column.header): [*column.cells] for column in table.columns}
    assert cells["flow"] == ["f", "  /lake/a", "  /lake/b"]
    assert (cells["written"], cells["files"]) == (["1", "1", ""], ["2", "2", ""])
    flow.lakes.pop()
    assert table_of(PipelineStatus(pipeline="p", flows=[flow])).row_count == 1
