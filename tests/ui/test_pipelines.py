"""A pipeline as it is watched while it works."""

from playwright.sync_api import expect

from flintmq.spark.endpoint import Endpoint
from flintmq.spark.pipelines.status import FlowStatus, PipelineStatus, State
from flintmq.spark.pipelines.status_queue import StatusPublisher
from tests.servers import BrokerProcess
from tests.ui.chromium import Window


def _status(state: State, rows: int, lag: int) -> PipelineStatus:
    flow = FlowStatus(name="delays", state=state, batches=3, rows=rows, rate=500.0, input_rate=100.0, lag=lag)
    return PipelineStatus(pipeline="carriers", state=state, master="local[2]", host="here", flows=[flow])


def test_a_pipeline_is_watched(window: Window, broker: BrokerProcess) -> None:
    """The page says what to do before there is a pipeline; then it follows its lag, its rows and its end, unasked."""
    window.go("pipelines")
    expect(window.page.get_by_text("No pipeline has reported")).to_be_visible()
    with StatusPublisher(Endpoint(broker.url)) as publisher:
        publisher.tell(_status(State.RUNNING, rows=4_000, lag=2_000))
        flow = window.page.locator(".flow").filter(has_text="delays")
        expect(flow).to_contain_text("2,000")
        expect(flow).to_contain_text("up to date in 5 s")
        publisher.tell(_status(State.RUNNING, rows=6_000, lag=0))
        expect(flow).to_contain_text("6,000")
        expect(flow.get_by_text("up to date", exact=True)).to_be_visible()
        publisher.tell(_status(State.FINISHED, rows=6_000, lag=0))
    expect(window.page.locator(".pipeline > header")).to_contain_text("finished")
