import socket
from pathlib import Path

import pytest

from flintmq.server import service_manager


@pytest.mark.parametrize("is_abstract", [True, False])
def test_what_systemd_hears(tmp_path: Path, is_abstract: bool) -> None:
    """One datagram per state, at a path or at a name of Linux's abstract kind."""
    name = f"@{tmp_path.name}-notify" if is_abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(name.replace("@", "\0", 1) if is_abstract else name)
        listener.settimeout(60)
        service_manager.notify(service_manager.READY, {"NOTIFY_SOCKET": name})
        assert listener.recv(100) == b"READY=1"


def test_nobody_to_be_told(tmp_path: Path) -> None:
    """Started by hand, or with nobody at the other end, a broker says nothing and minds nothing."""
    service_manager.notify(service_manager.READY, {})
    service_manager.notify(service_manager.READY, {"NOTIFY_SOCKET": str(tmp_path / "gone")})
