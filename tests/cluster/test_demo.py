"""`make cluster-demo` on this machine."""

import pytest

from tests.cluster import __main__ as demo
from tests.etcd import EtcdProcess


@pytest.mark.process
@pytest.mark.skipif(not EtcdProcess.is_installed(), reason="etcd (Debian's package etcd-server) is not installed")
@pytest.mark.timeout(240)
def test_the_demo_finds_nothing_lost(capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever becomes of the leader, confirms come back and nothing that was confirmed is lost."""
    assert demo.main() == 0, capsys.readouterr().out


def test_without_etcd_the_demo_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is started, and the exit code is not that of a cluster that has lost something."""
    monkeypatch.setenv("PATH", "")
    assert demo.main() == demo.NOT_INSTALLED
    assert "apt-get install etcd-server" in capsys.readouterr().out
