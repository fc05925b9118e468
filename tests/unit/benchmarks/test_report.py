from benchmarks.loads import LOADS, Figure
from benchmarks.report import Row, as_json, failures, table

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


def test_a_figure_is_scaled_and_divided_by_another() -> None:
    """Shares and costs per message are ratios of two numbers of one report; nothing consumed is a share of nothing."""
    share = Figure("share", "%", ("consume_rate",), over=("publish_rate",), scale=100)
    assert share.of({"consume_rate": 30, "publish_rate": 60}) == 50
    assert share.of({"consume_rate": 30, "publish_rate": 0}) == 0


def test_what_is_asked_and_whether_it_is_met_are_columns() -> None:
    """A bound holds at its value, and on the side that the figure says; the other broker's figure can be the bound."""
    enough = Figure("enough", "msg/s", (), asked=2_500_000)
    fast = Figure("fast", "ms", (), less_is_better=True, asked=5)
    late = Figure("late", "ms", (), less_is_better=True, asked=5)
    rivals = Figure("rivals", "MB/s", (), asks_rivals=True)
    plain = Figure("plain", "msg/s", ())
    samples = [(enough, 2_500_000, 1), (fast, 5, 1), (late, 6, 1), (rivals, 7, 7), (plain, 1, 1)]
    rows = [_row(figure, [ours], [theirs]) for figure, ours, theirs in samples]
    lines = [line.split("  ") for line in table(rows, ["FlintMQ", "RabbitMQ"]).splitlines()]
    asked = [[cell.strip() for cell in line if cell.strip()][4:] for line in lines]
    assert asked[0] == ["asked", "met", "a confirm means"]
    assert asked[2:5] == [["2,500,000 at least", "yes"], ["5 at most", "yes"], ["5 at most", "no"]]
    assert asked[5:] == [["RabbitMQ's at least", "yes"], []]
    assert [entry["met"] for entry in as_json(rows, ["FlintMQ", "RabbitMQ"])] == [True, True, False, True, None]


def test_nothing_is_met_or_missed_without_the_other_broker() -> None:
    """On a machine without RabbitMQ, a figure that has to be as good as RabbitMQ's asks for nothing."""
    row = _row(Figure("rivals", "MB/s", (), asks_rivals=True), [7], [])
    assert row.met(["FlintMQ"]) is None
    assert row.met(["FlintMQ", "RabbitMQ"]) is None
    assert "at least" not in table([row], ["FlintMQ"])


def test_a_failed_run_fails_the_figure() -> None:
    """Two good runs do not hide one that lost messages: no median, not met, and the words are told once per load."""
    rows = [_row(Figure(name, "msg/s", (), asked=1), [5, 5], [5]) for name in ("in", "out")]
    for row in rows:
        row.fail("FlintMQ", "3 gaps")
    brokers = ["FlintMQ", "RabbitMQ"]
    assert rows[0].median("FlintMQ") is None
    assert rows[0].met(brokers) is False
    assert rows[0].met(["RabbitMQ"]) is True
    assert "failed" in table(rows, brokers).splitlines()[2]
    assert failures(rows) == "FlintMQ failed in, out: 3 gaps"
