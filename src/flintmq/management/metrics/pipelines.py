"""Metrics of pipelines from the statuses that they publish. Anybody with permission can publish there, so values are
validated.
"""

from typing import Any, Final

from flintmq.broker.broker import Broker
from flintmq.management.metrics.exposition import COUNTER, GAUGE, Number, several
from flintmq.management.pipelines import statuses_in

_MILLISECONDS: Final = "batch_ms"
_RUNNING: Final = ("starting", "running", "stopping")
# Field of a flow, suffix of the metric, kind, help text.
_FLOWS: Final = (
    ("lag", "lag_messages", GAUGE, "Messages that wait for a flow of a pipeline"),
    ("rows", "rows_total", COUNTER, "Rows that a flow of a pipeline has read since it started"),
    ("batches", "batches_total", COUNTER, "Batches that a flow of a pipeline has written since it started"),
    (_MILLISECONDS, "batch_seconds", GAUGE, "How long the last batch of a flow took"),
)
_Samples = list[tuple[dict[str, str], Number]]


async def pipelines(broker: Broker) -> str:
    up: _Samples = []
    samples: dict[str, _Samples] = {suffix: [] for _, suffix, _, _ in _FLOWS}
    for vhost in list(broker.vhosts.values()):
        for status in await statuses_in(broker, vhost):
            said = {"vhost": vhost.name, "pipeline": str(status["pipeline"])}
            up.append((said, int(status["state"] in _RUNNING)))
            for name, flow in _flows_of(status).items():
                for field, suffix, _, _ in _FLOWS:
                    value = flow.get(field)
                    if isinstance(value, (int, float)) and not isinstance(value, bool):
                        in_units = value / 1000 if field == _MILLISECONDS else value
                        samples[suffix].append(({**said, "flow": name}, in_units))
    texts = [several("flintmq_pipeline_up", GAUGE, "Whether a pipeline runs, as far as is known: 1", up)]
    for _, suffix, kind, text in _FLOWS:
        texts.append(several(f"flintmq_pipeline_{suffix}", kind, text, samples[suffix]))
    return "".join(texts)


def _flows_of(status: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The flows of a pipeline by name."""
    flows = status.get("flows")
    if not isinstance(flows, list):
        return {}
    return {flow["name"]: flow for flow in flows if isinstance(flow, dict) and isinstance(flow.get("name"), str)}
