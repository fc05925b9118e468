"""Settings of a cluster that would let strangers in, or do not fit together."""

from pathlib import Path

import pytest

from flintmq.base.errors import ConfigurationError
from flintmq.server import config

SECRET = "0123456789abcdef"
PEM = Path("a.pem")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"secret": "0123456789abcde"}, "cluster.secret has 15 characters: choose one of at least 16"),
        ({"secret": SECRET + "\n"}, "cluster.secret has characters that cannot be printed"),
        ({"host": "10.0.0.1"}, "cluster.host 10.0.0.1 is not a loopback address: set cluster.secret"),
        ({"host": "node-a"}, "cluster.host node-a is not a loopback address: set cluster.secret"),
        ({"address": "10.0.0.1:5670"}, "cluster.address 10.0.0.1 is not a loopback address: set cluster.secret"),
        ({"host": "0.0.0.0", "secret": SECRET}, "cluster.host 0.0.0.0 stands for all addresses"),
        ({"host": "::", "secret": SECRET}, "set cluster.address"),
        ({"address": "node-a"}, "cluster.address 'node-a' is not an address"),
        ({"address": "node-a:0", "secret": SECRET}, "is not an address"),
        ({"address": "node-a:65536", "secret": SECRET}, "is not an address"),
        ({"address": "0.0.0.0:5670", "secret": SECRET}, "is not an address"),
        ({"certificate": PEM}, "cluster.ca: name the file"),
        ({"ca": PEM}, "cluster.ca has no effect without cluster.certificate"),
        ({"key": PEM}, "cluster.key has no effect without cluster.certificate"),
        ({"node": "a/b"}, "cluster.node 'a/b' has a slash"),
        ({"etcd": " "}, "cluster.etcd: name at least one URL"),
        ({"etcd": "127.0.0.1:2379"}, "cluster.etcd '127.0.0.1:2379' is not a URL"),
        ({"etcd": "localhost:2379"}, "begins with http:// or https://"),
        ({"etcd": "http://a:2379 ftp://b"}, "'ftp://b'"),
        ({"etcd": "http://"}, "has a host"),
        ({"etcd": "http://a:x"}, "'http://a:x' is not a URL"),
        ({"etcd": "http://u:p@a"}, "set cluster.etcd_user and cluster.etcd_password instead"),
        ({"etcd": "https://a http://b", "etcd_ca": PEM}, "cluster.etcd_ca has no effect with http"),
        ({"etcd_certificate": PEM}, "cluster.etcd_certificate has no effect with http"),
        ({"etcd": "https://a", "etcd_key": PEM}, "cluster.etcd_key has no effect without cluster.etcd_certificate"),
        ({"etcd_user": "u"}, "cluster.etcd_password: set the password of 'u'"),
        ({"etcd_password": "p"}, "cluster.etcd_user: name the user"),
    ],
)
def test_wrong_settings(given: dict[str, str | Path], words: str) -> None:
    """Each is an error that names the setting and says what to do; without a cluster they are of no account."""
    with pytest.raises(ConfigurationError) as caught:
        config.ClusterSettings(name="c", **given)  # type: ignore[arg-type]
    assert words in str(caught.value)
    config.ClusterSettings(**given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"host": "localhost", "address": "127.0.0.2:5670"},
        {"host": "::1", "address": "[::1]:5670"},
        {"host": "10.0.0.1", "secret": SECRET},
        {"host": "0.0.0.0", "address": "node-a:5670", "secret": SECRET},
        {"certificate": PEM, "ca": PEM},
        {"etcd": "https://a:2379 https://[::1]:2379/", "etcd_ca": PEM, "etcd_certificate": PEM, "etcd_key": PEM},
        {"etcd": "https://a http://b", "etcd_user": "u", "etcd_password": "p"},
    ],
)
def test_right_settings(given: dict[str, str | Path]) -> None:
    """Nothing more has to be set."""
    config.ClusterSettings(name="c", **given)  # type: ignore[arg-type]


def test_a_name_of_a_cluster_has_no_slash() -> None:
    """Its keys in etcd would be among those of another cluster."""
    with pytest.raises(ConfigurationError, match="cluster.name 'a/b' has a slash"):
        config.ClusterSettings(name="a/b")


def test_secrets_are_not_shown() -> None:
    """Neither where settings are printed nor where a change of them is logged."""
    before = config.from_document({"cluster": {"name": "c", "secret": SECRET}})
    after = config.from_document({"cluster": {"secret": "f" * 16, "etcd_user": "u", "etcd_password": "hidden"}})
    assert SECRET not in repr(before)
    assert "hidden" not in repr(after)
    changes = config.changes(before, after)
    assert (changes["cluster.secret"], changes["cluster.etcd_password"]) == ("", "")
