"""Notifications to systemd: the broker is ready, reloads its settings, or stops."""

import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

_VARIABLE: Final = "NOTIFY_SOCKET"
READY: Final = "READY=1"
STOPPING: Final = "STOPPING=1"


def notify(state: str, environment: Mapping[str, str] = os.environ) -> None:
    """Send a state to the service manager, if there is one. Errors are ignored (sd_notify(3))."""
    address = environment.get(_VARIABLE, "")
    if not address:
        return
    # The name of an abstract socket begins with a zero byte, which the variable has as "@".
    place = f"\0{address[1:]}" if address.startswith("@") else address
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as speaker:
        speaker.connect(place)
        speaker.send(state.encode())
