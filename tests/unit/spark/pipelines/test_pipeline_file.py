"""Definitions of pipelines: what is read of them, and the one error, with its line, for each thing that is wrong."""

from pathlib import Path

import pytest

from flintmq.base.errors import ConfigurationError
from flintmq.spark.pipelines import Trigger
from flintmq.spark.pipelines.flow_options import sink_options
from flintmq.spark.pipelines.pipeline_file import load

GOOD = """\
pipeline: carriers
description: Delays by carrier
checkpoints: state
broker: {urlEnv: BROKER_URL}
trigger: 10 seconds
tables:
  airlines: {format: csv, path: airlines.csv, options: {header: true}}
flows:
  statistics:
    source:
      flintmq:
        queue: flights.log
        startingOffsets: earliest
        maxMessagesPerTrigger: 1000
      decode: {json: "carrier STRING, delay BIGINT"}
      watermark: {column: timestamp, delay: 10 minutes}
    sql: |
      SELECT value.carrier AS routing_key, to_json(value) AS body
      FROM source JOIN airlines USING (carrier)
    sinks:
      - flintmq: {exchange: statistics, contentType: application/json}
      - console
  copy:
    source: {flintmq: {queue: flights.log}}
    trigger: availableNow
    sinks: [parquet: {path: lake}]
"""


def written(directory: Path, text: str) -> str:
    file = directory / "carriers.yaml"
    file.write_text(text)
    return str(file)


def test_a_definition(tmp_path: Path) -> None:
    """All of a file is in what is made of it, and its paths are meant from where it stands."""
    pipeline = load(written(tmp_path, GOOD))
    assert (pipeline.name, pipeline.description) == ("carriers", "Delays by carrier")
    assert pipeline.checkpoints == str(tmp_path / "state")
    assert pipeline.tables["airlines"].path == str(tmp_path / "airlines.csv")
    assert pipeline.tables["airlines"].options == {"header": "true"}
    statistics, copy = pipeline.flows
    assert statistics.source.options["maxMessagesPerTrigger"] == "1000"
    assert statistics.source.decode is not None
    assert statistics.source.watermark is not None
    assert statistics.sql.startswith("SELECT value.carrier")
    assert [sink.kind for sink in statistics.sinks] == ["flintmq", "console"]
    assert statistics.trigger == Trigger("10 seconds")
    assert copy.trigger == Trigger(None)
    assert copy.sinks[0].options == {"path": str(tmp_path / "lake")}


@pytest.mark.parametrize(
    ("wrong", "right", "line", "text"),
    [
        ("pipeline: carriers", "pipelin: carriers", 1, "there is no key pipelin in the file: did you mean pipeline?"),
        ("pipeline: carriers", "name: carriers", 1, "the file has no pipeline: its name"),
        ("trigger: 10 seconds", "triger: 10 seconds", 5, "there is no key triger in the file: did you mean trigger?"),
        ("trigger: 10 seconds", "trigger: often", 5, "'often' is not an interval for a trigger"),
        ("format: csv", "format: cvs", 7, "format is 'cvs': did you mean csv?"),
        ("  airlines:", "  source:", 7, "'source' cannot be the name of a table"),
        ("  statistics:", "  my flow:", 9, "'my flow' cannot be the name of a flow"),
        ("    source:\n", "    sorce:\n", 10, "no key sorce in the flow statistics: did you mean source?"),
        ("      flintmq:\n", "      flintmk:\n", 11, "there is no key flintmk in source: did you mean flintmq?"),
        (
            "queue: flights.log\n        starting",
            "queues: flights.log\n        starting",
            12,
            "there is no option queues",
        ),
        ("startingOffsets: earliest", "startingOffsets: erliest", 13, "the option startingOffsets is 'erliest'"),
        ("maxMessagesPerTrigger: 1000", "maxMessagesPerTrigger: 0", 14, "it must be a number greater than 0"),
        ("decode: {json:", "decode: {jason:", 15, "there is no key jason in decode: did you mean json?"),
        ("delay: 10 minutes", "delay: soon", 16, "'soon' is not an interval"),
        ("    sql: |", "    transform: none.py:f\n    sql: |", 17, "has both sql and transform"),
        ("exchange: statistics,", "exchnge: statistics,", 21, "there is no option exchnge: did you mean exchange?"),
        ("      - console", "      - consle", 22, "sink is 'consle': did you mean console?"),
        ("urlEnv: BROKER_URL", "host: localhost", 4, "the broker has the keys url, urlEnv and urlFile, and not host"),
        ("description: Delays", "description: Delays: by", 2, "mapping values are not allowed here"),
        ("checkpoints: state", "checkpoints: state\ncheckpoints: other", 4, 'found duplicate key "checkpoints"'),
    ],
)
def test_errors_name_the_line(tmp_path: Path, wrong: str, right: str, line: int, text: str) -> None:
    """Each error in a definition begins with the file and the line, and says what would be right."""
    assert wrong in GOOD
    file = written(tmp_path, GOOD.replace(wrong, right, 1))
    with pytest.raises(ConfigurationError) as caught:
        load(file)
    said = str(caught.value)
    assert said.startswith(f"{file}:{line}: "), said
    assert text in said


def test_sinks_of_one_name(tmp_path: Path) -> None:
    """Batches of the second would be taken for those of the first, and not be published."""
    for one, other, what in (
        ("flintmq: {exchange: x}", "flintmq: {Exchange: x, contentType: a/b}", "has the transactionalId 'carriers/st"),
        ("flintmq: {exchange: x, transactionalId: t}", "flintmq: {exchange: y, transactionalid: t}", "transactionalId"),
        ("lake: {path: lake}", "lake: {path: lake}", "writes to .*/lake, as another sink of this flow does"),
    ):
        file = written(tmp_path, GOOD.replace("      - console", f"      - {one}\n      - {other}"))
        with pytest.raises(ConfigurationError, match=rf"yaml:9: the sink .*{what}"):
            load(file)


@pytest.mark.parametrize(
    "sink",
    [
        "lake: {path: lake, transactionalId: t, batchId: 1}",
        "flintmq: {exchange: x, batchId: 1}",
        "flintmq: {exchange: x, batchOwner: me}",
    ],
)
def test_what_pipelines_number(tmp_path: Path, sink: str) -> None:
    """A definition cannot set the owner and the number of a batch."""
    with pytest.raises(ConfigurationError, match=r"yaml:22: the option \w+ is not for pipelines"):
        load(written(tmp_path, GOOD.replace("      - console", f"      - {sink}")))


def test_sinks_are_known_wherever_they_stand(tmp_path: Path) -> None:
    """Between two runs, sinks may be added, removed and moved: what each had is known by what it is."""
    one, other = "flintmq: {exchange: x, deliveryMode: Exactly-Once}", "flintmq: {exchange: x, routingKey: k}"
    found = []
    for sinks in ([one], [one, other], [other, "console", one]):
        pipeline = load(written(tmp_path, GOOD.replace("- console", "\n      - ".join(["- console", *sinks]))))
        flow = pipeline.flows[0]
        made = [sink_options(pipeline, flow, number) for number in range(len(flow.sinks))]
        found.append({given.get("routingKey"): given["transactionalId"] for given in made if "exchange" in given})
    assert len({names[None] for names in found}) == 1
    assert found[1] == found[2]
    assert found[1][None] != found[1]["k"]


def test_no_file(tmp_path: Path) -> None:
    """A file that is not there, or is no definition, is an error that says so."""
    with pytest.raises(ConfigurationError, match="cannot be read: No such file"):
        load(str(tmp_path / "none.yaml"))
    with pytest.raises(ConfigurationError, match=r"a pipeline is a file that ends in .yaml, .yml or .py"):
        load("carriers.toml")


PYTHON = """\
from flintmq.spark.pipelines import Flow, Sink, Source, pipeline


@pipeline("carriers", checkpoints="/tmp/state", broker={"urlEnv": "BROKER_URL"})
def carriers():
    '''Delays by carrier.'''
    yield Flow(
        "statistics",
        Source("flintmq", {"queue": "flights.log"}),
        (Sink("flintmq", {"exchange": "statistics"}),),
        transform=lambda messages: messages.select("body"),
    )
"""


def test_python(tmp_path: Path) -> None:
    """A function marked as @pipeline is a definition, too; its docstring describes it."""
    file = tmp_path / "carriers.py"
    file.write_text(PYTHON)
    pipeline = load(str(file))
    assert (pipeline.name, pipeline.description) == ("carriers", "Delays by carrier.")
    assert pipeline.flows[0].transform is not None
    assert load(f"{file}:carriers").name == "carriers"


@pytest.mark.parametrize(
    ("wrong", "right", "text"),
    [
        ("@pipeline", "# @pipeline", "there is no function marked with @pipeline"),
        ("yield Flow(", "yield Flw(", ":7: NameError: name 'Flw' is not defined"),
        ("yield Flow(", "yield Flow(]", ":7: closing parenthesis"),
        ("exchange", "exchnge", "there is no option exchnge: did you mean exchange?"),
    ],
)
def test_python_that_is_wrong(tmp_path: Path, wrong: str, right: str, text: str) -> None:
    """An error of a definition in Python has its file and, if there is one, its line."""
    file = tmp_path / "carriers.py"
    file.write_text(PYTHON.replace(wrong, right, 1))
    with pytest.raises(ConfigurationError) as caught:
        load(str(file))
    assert str(caught.value).startswith(str(file))
    assert text in str(caught.value)


def test_several_in_one_file(tmp_path: Path) -> None:
    """If a file has several pipelines, one must be chosen by its function's name."""
    file = tmp_path / "carriers.py"
    second = PYTHON[PYTHON.index("@pipeline") :].replace("carriers", "others")
    file.write_text(f"{PYTHON}\n\n{second}")
    with pytest.raises(ConfigurationError, match="there are several pipelines, carriers, others: say which"):
        load(str(file))
    assert load(f"{file}:others").name == "others"
    with pytest.raises(ConfigurationError, match="there is no @pipeline third: known are carriers, others"):
        load(f"{file}:third")


def test_ids_of_schemas(tmp_path: Path) -> None:
    """Which schema an id before a body stands for is in the definition, for this schema and for older ones."""
    decode = "{avro: '\"long\"', framing: confluent, schemaId: 9, writers: [{id: 8, avro: '\"int\"'}]}"
    text = GOOD.replace('{json: "carrier STRING, delay BIGINT"}', decode)
    made = load(written(tmp_path, text)).flows[0].source.decode
    assert made is not None
    assert (made.schema, made.schema_id, made.writers) == ('"long"', 9, {8: '"int"'})


@pytest.mark.parametrize(
    ("decode", "expected"),
    [
        ("framing: confluent", r"set the id of this schema in the registry \(schemaId\)"),
        ("schemaId: 9", "are for the framing confluent only"),
        ("framing: confluent, schemaId: x", "'x' is not an id of a schema"),
        ("framing: confluent, writers: [{id: 8}]", "has no avro: the schema of that id"),
    ],
)
def test_ids_that_are_wrong(tmp_path: Path, decode: str, expected: str) -> None:
    """A definition by which bodies could be read into the wrong columns is refused, with its line."""
    text = GOOD.replace('{json: "carrier STRING, delay BIGINT"}', "{avro: '\"long\"', " + decode + "}")
    with pytest.raises(ConfigurationError, match=f"carriers.yaml:15: .*{expected}"):
        load(written(tmp_path, text))
