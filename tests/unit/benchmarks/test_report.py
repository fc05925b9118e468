from benchmarks.loads import LOADS, Figure
from benchmarks.report import Row, as_json, table

_RATE = Figure("a16", "msg/s", ("consume_rate",))
_LATENCY = Figure("d1k p99", "µs", ("lat_us", "p99"), less_is_better=True)


def _row(figure: Figure, ours: list[float], theirs: list[float], promise: str = "") -> Row:
    row = Row(figure)
    for value in ours:
        row.add("FlintMQ", value, promise)
    for value in theirs:
        row.add("RabbitMQ", value, "not synced" if promise else "")
    return row


def test_the_ratio_is_above_one_when_ours_is_better() -> None:
    """A reader need not know which way a figure counts: rates and latencies read the same."""
    assert _row(_RATE, [300], [100]).ratio("FlintMQ", "RabbitMQ") == 3
    assert _row(_LATENCY, [50], [100]).ratio("FlintMQ", "RabbitMQ") == 2
    assert _row(_LATENCY, [50], []).ratio("FlintMQ", "RabbitMQ") is None


def test_the_table_shows_medians_ranges_ratio_and_promises() -> None:
    """One odd run does not move the figure, and it shows in the range."""
    text = table([_row(_RATE, [1, 2_000, 3_000], [1_000], "synced")], ["FlintMQ", "RabbitMQ"])
    head, rule, line = text.splitlines()
    assert head.split("  ")[0] == "load"
    assert set(rule) == {"-", " "}
    assert " ".join(line.split()) == "a16, msg/s 2,000 (1 to 3,000) 1,000 2.00 FlintMQ: synced; RabbitMQ: not synced"


def test_a_broker_alone_gets_no_ratio() -> None:
    """Without RabbitMQ on the machine the table has one column of figures."""
    text = table([_row(_RATE, [2_000], [])], ["FlintMQ"])
    assert "times better" not in text
    assert "2,000" in text


def test_amqp_1_0_is_compared_to_the_same_load_in_0_9_1() -> None:
    """A figure of AMQP 1.0 is half of what it is beside; one that is beside nothing measured has no ratio."""
    rate_10 = Figure("a16-10", "msg/s", ("consume_rate",), beside="a16")
    rows = [_row(_RATE, [1_000], []), _row(rate_10, [500], [])]
    lines = table(rows, ["FlintMQ"]).splitlines()
    assert "times its 0-9-1" in lines[0]
    assert [" ".join(line.split()) for line in lines[2:]] == ["a16, msg/s 1,000", "a16-10, msg/s 500 0.50"]
    assert rows[1].to_091("FlintMQ", {}) is None
    assert [each["to_091"] for each in as_json(rows, ["FlintMQ"])] == [None, {"FlintMQ": 0.5}]


def test_loads_of_amqp_1_0_are_beside_figures_that_are_measured() -> None:
    """Every load of AMQP 1.0 tells the generator to speak it, and its figures find those of 0-9-1 by name."""
    names = {figure.name for load in LOADS.values() for step in load.steps for figure in step.figures}
    loads_10 = [load for load in LOADS.values() if load.amqp10]
    assert [load.name for load in loads_10] == ["a16-10", "a1k-10", "b16-10", "b1k-10"]
    for load in LOADS.values():
        for step in load.steps:
            assert ("--amqp10" in step.arguments) == load.amqp10
            for figure in step.figures:
                assert (figure.beside in names) == load.amqp10


def test_json_holds_every_sample() -> None:
    """Whoever compares two runs of the bench has all there is."""
    (entry,) = as_json([_row(_RATE, [1, 5, 3], [2])], ["FlintMQ", "RabbitMQ"])
    assert entry["samples"] == {"FlintMQ": [1, 5, 3], "RabbitMQ": [2]}
    assert entry["medians"] == {"FlintMQ": 3, "RabbitMQ": 2}
    assert entry["ratio"] == 1.5


def test_figures_are_found_in_the_generators_report() -> None:
    """A figure names its place in the report; every load ends with a step that has figures."""
    assert _LATENCY.of({"lat_us": {"p99": 7}}) == 7
    assert all(step.figures for load in LOADS.values() for step in load.steps)
