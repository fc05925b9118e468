"""FlintMQ: a message broker in Python."""

from typing import Final

from flintmq.base import errors

__version__: Final = "0.1.0"

# Whether the hot path runs as compiled by mypyc. It is compiled whole or not at all, so one module tells.
compiled: Final[bool] = not errors.__file__.endswith(".py")
