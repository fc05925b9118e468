"""How a program that runs clusters ends, so that it leaves no processes and files behind."""

import logging
import signal
import sys
from collections.abc import Callable
from typing import Final, NoReturn

# What clients say when their node is gone is what these programs are about.
_CLIENTS: Final = ("pika", "aiormq")
_INTERRUPTED: Final = 130
_TERMINATED: Final = 143


def exit_with(main: Callable[[], int]) -> NoReturn:
    """Run `main`, and exit with what it returns. Ctrl-C and SIGTERM end it as exceptions do."""
    for name in _CLIENTS:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(_TERMINATED))
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
