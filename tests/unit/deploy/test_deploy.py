"""What a machine gets beside the code: a unit for systemd, a Dockerfile, and clusters for Docker and Kubernetes.

Their words have to be ours.
"""

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
from ruamel.yaml import YAML

from flintmq.base.errors import ConfigurationError
from flintmq.cli.main import exit_code
from flintmq.server import config
from tests.commands import check_line

ROOT: Final = Path(__file__).parents[3]
DEPLOY: Final = ROOT / "deploy"
UNIT: Final = DEPLOY / "flintmq.service"
DOCKERFILE: Final = ROOT / "Dockerfile"
KUBERNETES: Final = DEPLOY / "kubernetes"
# Files that git has: secrets may be beside them.
FILES: Final = [
    DOCKERFILE,
    *(path for path in sorted(DEPLOY.rglob("*")) if path.suffix in (".yaml", ".toml", ".service")),
]
SECRETS: Final = {"FLINTMQ_CLUSTER_SECRET": "a secret of the test", "FLINTMQ_DEFAULT_USER_PASSWORD": "a password"}


@cache
def documents(path: Path) -> list[Any]:
    """The documents of a YAML file."""
    return list(YAML(typ="safe").load_all(path.read_text()))


def image_settings() -> dict[str, str]:
    """The variables that the image sets."""
    return dict(re.findall(r"(FLINTMQ_(?!BUILD|CONFIG)\w+)=(\S+)", DOCKERFILE.read_text()))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_all_words_are_ours(path: Path) -> None:
    """Each variable is a setting, and each command is one, with options and arguments that it has."""
    text = path.read_text()
    variables = set(re.findall(r"\bFLINTMQ_[A-Z_]+", text)) - {"FLINTMQ_BUILD", config.FILE_VARIABLE}
    assert variables == set(config.variables_in(dict.fromkeys(variables, "")))
    for line in re.findall(r"\bflintmq (?:serve|ping|cluster)\b[^\n']*", text):
        check_line(line)


# -- systemd and the image -----------------------------------------------------------------------------------------


def test_the_unit_calls_the_broker_as_it_is_called() -> None:
    """SIGHUP is what reloads, and a wrong setting is not tried again."""
    unit = UNIT.read_text()
    (start,) = re.findall(r"^ExecStart=(.*)$", unit, re.MULTILINE)
    assert Path(shlex.split(start)[0]).name == "flintmq"
    assert "ExecReload=/bin/kill -HUP $MAINPID" in unit
    assert f"RestartPreventExitStatus={exit_code(ConfigurationError(''))}\n" in unit


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not here to ask")
def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    """systemd's own check finds nothing, once the program is where the unit has it."""
    unit = tmp_path / "flintmq.service"
    unit.write_text(UNIT.read_text().replace("/opt/flintmq/bin/flintmq", sys.executable))
    command = ["systemd-analyze", "verify", "--man=no", str(unit)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - a unit of ours
    assert "flintmq.service" not in ran.stderr, ran.stderr


def test_the_image_is_set_up_by_settings_that_there_are() -> None:
    """What the image runs and how its health is asked are commands; its ports are the defaults; nobody is root."""
    text = DOCKERFILE.read_text()
    settings = config.load(None, image_settings(), {})
    assert settings.storage.directory == Path("/var/lib/flintmq")
    assert settings.listen.host == settings.management.host == "0.0.0.0"
    (health,) = re.findall(r'HEALTHCHECK.*CMD \["(.*)"\]', text)
    check_line(health.replace('", "', " "))
    (exposed,) = re.findall(r"^EXPOSE (.*)$", text, re.MULTILINE)
    ports = [settings.listen.port, settings.tls.port, settings.management.port, settings.management.tls_port]
    assert {*map(int, exposed.split())} == {*ports, settings.cluster.port}
    assert "'.[cluster]'" in text
    assert text.rindex("USER flintmq") > text.rindex("FROM ")
    assert "VOLUME /var/lib/flintmq" in text


# -- compose -------------------------------------------------------------------------------------------------------


def test_the_cluster_of_compose() -> None:
    """Nodes have names and addresses of their own, ports and volumes that fit, time to stop, and find etcd."""
    (compose,) = documents(DEPLOY / "compose.yaml")
    services = compose["services"]
    nodes = {name: service for name, service in services.items() if service["image"] == "flintmq"}
    etcds = {name: service for name, service in services.items() if name not in nodes}
    assert len(nodes) == len(etcds) == 3
    names, published = set(), []
    for name, service in nodes.items():
        given = {key: SECRETS[key] if "${" in value else value for key, value in service["environment"].items()}
        settings = config.load(None, image_settings() | given, {})
        names.add(settings.cluster.node)
        assert settings.cluster.address == f"{name}:{settings.cluster.port}"
        assert settings.cluster.etcd.split() == [
            each["environment"]["ETCD_ADVERTISE_CLIENT_URLS"] for each in etcds.values()
        ]
        assert service["volumes"] == [f"{name}:{settings.storage.directory}"]
        ports = [each.rsplit(":", 1) for each in service["ports"]]
        assert [int(inside) for _, inside in ports] == [settings.listen.port, settings.management.port]
        assert all(outside.startswith("127.0.0.1:") for outside, _ in ports)
        published += [outside for outside, _ in ports]
        assert service["stop_grace_period"] == "60s"
        assert service["depends_on"] == list(etcds)
        assert "$$FLINTMQ_CLUSTER_NODE" in service["healthcheck"]["test"]
    assert len(names) == 3
    assert len(set(published)) == len(published) == 6
    for name, service in etcds.items():
        given = service["environment"]
        assert given["ETCD_NAME"] == name
        assert f"{name}={given['ETCD_INITIAL_ADVERTISE_PEER_URLS']}" in given["ETCD_INITIAL_CLUSTER"].split(",")
        assert service["volumes"] == [f"{name}:{given['ETCD_DATA_DIR']}"]
    assert set(compose["volumes"]) == set(services)
    # An image is built once: several builds of one name at the same time would fail.
    built = {service["image"]: service["build"] for service in services.values() if "build" in service}
    assert (DEPLOY / built["flintmq"] / "Dockerfile").samefile(DOCKERFILE)
    assert (DEPLOY / built["flintmq-etcd"]["context"] / built["flintmq-etcd"]["dockerfile"]).is_file()
    assert sum("build" in service for service in services.values()) == len(built) == 2
    assert all("build" in service or service["pull_policy"] == "never" for service in services.values())


# -- Kubernetes ----------------------------------------------------------------------------------------------------


def objects(kind: str) -> dict[str, Any]:
    """The objects of a kind by name."""
    found = [each for path in sorted(KUBERNETES.glob("*.yaml")) for each in documents(path) if each["kind"] == kind]
    return {each["metadata"]["name"]: each for each in found} if kind != "Kustomization" else {"": found[0]}


def environment(container: dict[str, Any], pod: str) -> dict[str, str]:
    """The variables of a container in this pod; those of secrets are left out."""
    given: dict[str, str] = {}
    for each in container["env"]:
        if "value" in each:
            given[each["name"]] = re.sub(r"\$\((\w+)\)", lambda found: given[found[1]], each["value"])
        else:
            assert each["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.name"
            given[each["name"]] = pod
    return given


def pods() -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """The name of each pod, its StatefulSet and its container."""
    for name, found in objects("StatefulSet").items():
        (container,) = found["spec"]["template"]["spec"]["containers"]
        for number in range(found["spec"]["replicas"]):
            yield f"{name}-{number}", found["spec"], container


def test_the_nodes_in_kubernetes() -> None:
    """Each has its pod's name and an address that others resolve, in a directory of its volume, and finds etcd."""
    (urls,) = {
        tuple(
            environment(container, pod)["ETCD_ADVERTISE_CLIENT_URLS"]
            for pod, _, container in pods()
            if container["name"] == "etcd"
        )
    }
    nodes = [each for each in pods() if each[2]["name"] == "flintmq"]
    assert len(nodes) == len(urls) == 3
    for pod, stateful_set, container in nodes:
        given = environment(container, pod)
        del given[config.FILE_VARIABLE]
        settings = config.load(KUBERNETES / "flintmq.toml", image_settings() | SECRETS | given, {})
        assert settings.cluster.node == pod
        assert settings.cluster.address == f"{pod}.{stateful_set['serviceName']}:{settings.cluster.port}"
        assert tuple(settings.cluster.etcd.split()) == urls
        assert {each["name"]: each["containerPort"] for each in container["ports"]} == {
            "amqp": settings.listen.port,
            "http": settings.management.port,
            "cluster": settings.cluster.port,
        }
        mounts = {each["name"]: Path(each["mountPath"]) for each in container["volumeMounts"]}
        assert mounts["data"] in settings.storage.directory.parents
        assert Path(environment(container, pod)[config.FILE_VARIABLE]) == mounts["settings"] / "flintmq.toml"
        assert "FLINTMQ_CLUSTER_NODE" in container["readinessProbe"]["exec"]["command"][-1]
        for probe in ("startupProbe", "livenessProbe"):
            assert container[probe]["tcpSocket"]["port"] == "cluster"
        assert f"--uid {stateful_set['template']['spec']['securityContext']['runAsUser']} " in DOCKERFILE.read_text()


def test_etcd_in_kubernetes() -> None:
    """Its nodes know each other by the names that their service gives them, and run as the user of the image."""
    image = (DEPLOY / "etcd.Dockerfile").read_text()
    for pod, stateful_set, container in pods():
        if container["name"] == "etcd":
            assert f"--uid {stateful_set['template']['spec']['securityContext']['runAsUser']} " in image
            given = environment(container, pod)
            peer = f"{pod}={given['ETCD_INITIAL_ADVERTISE_PEER_URLS']}"
            assert peer in given["ETCD_INITIAL_CLUSTER"].split(",")
            assert f"//{pod}.etcd:" in peer


def test_who_is_selected_in_kubernetes() -> None:
    """Services, budgets and affinities select the pods of one StatefulSet; ports have names that the pods know."""
    sets = objects("StatefulSet")
    labels = {name: each["spec"]["template"]["metadata"]["labels"] for name, each in sets.items()}
    ports = {pod[:-2]: [each["name"] for each in container["ports"]] for pod, _, container in pods()}
    budgets = [each["spec"]["selector"]["matchLabels"] for each in objects("PodDisruptionBudget").values()]
    assert sorted(map(str, budgets)) == sorted(map(str, labels.values()))
    for service in objects("Service").values():
        (name,) = [name for name, each in labels.items() if each == service["spec"]["selector"]]
        assert {each["targetPort"] for each in service["spec"]["ports"]} <= set(ports[name])
    for name, each in sets.items():
        spec = each["spec"]
        assert spec["selector"]["matchLabels"] == labels[name]
        headless = objects("Service")[spec["serviceName"]]["spec"]
        assert headless["clusterIP"] == "None"
        assert headless["publishNotReadyAddresses"]
        pod = spec["template"]["spec"]
        # The variables of the services would be taken for settings.
        assert pod["enableServiceLinks"] is False
        (apart,) = pod["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        assert apart["labelSelector"]["matchLabels"] == labels[name]


def test_the_kustomization_has_every_file() -> None:
    """No manifest is forgotten."""
    kustomization = objects("Kustomization")[""]
    named = [*kustomization["resources"], *kustomization["configMapGenerator"][0]["files"], "kustomization.yaml"]
    assert sorted(named) == sorted(path.name for path in FILES if path.parent == KUBERNETES)


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not here to ask")
def test_kubectl_understands_the_kustomization(tmp_path: Path) -> None:
    """It puts the image, the settings and the secrets where the manifests name them."""
    shutil.copytree(KUBERNETES, tmp_path / "kubernetes", ignore=shutil.ignore_patterns("secrets.env"))
    (tmp_path / "kubernetes" / "secrets.env").write_text("".join(f"{key}={value}\n" for key, value in SECRETS.items()))
    command = ["kubectl", "kustomize", str(tmp_path / "kubernetes")]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - manifests of ours
    assert ran.returncode == 0, ran.stderr
    made = list(YAML(typ="safe").load_all(ran.stdout))
    (nodes,) = [each for each in made if each["kind"] == "StatefulSet" and each["metadata"]["name"] == "flintmq"]
    (container,) = nodes["spec"]["template"]["spec"]["containers"]
    names = {each["kind"]: each["metadata"]["name"] for each in made}
    assert container["envFrom"][0]["secretRef"]["name"] == names["Secret"] != "flintmq"
    assert nodes["spec"]["template"]["spec"]["volumes"][0]["configMap"]["name"] == names["ConfigMap"] != "flintmq"
    assert container["image"] != "flintmq"
