"""The address of the broker. It can stay outside of a query's plan, which would show its password."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import flintmq.client as fc
from flintmq.base.errors import ConfigurationError

CONNECT_SECONDS: Final = 10.0


@dataclass(frozen=True)
class Endpoint:
    """A URL, or the name of an environment variable or the path of a file that holds it; the others are empty."""

    url: str = field(default="", repr=False)
    env: str = ""
    file: str = ""

    @property
    def described(self) -> str:
        """The option that the user set, for errors; it never contains the URL."""
        if self.env:
            return f"the variable {self.env} (option urlEnv)"
        return f"the file {self.file} (option urlFile)" if self.file else "the option url"

    def connect(self) -> fc.Connection:
        """Connect to the broker. Raises FlintError if it cannot be reached, or refuses the login."""
        return fc.connect(self.resolve(), timeout=CONNECT_SECONDS)

    def resolve(self) -> str:
        """The URL, as the driver or this executor finds it. Raises ConfigurationError if it cannot be read here."""
        if self.env:
            url = os.environ.get(self.env, "")
            if not url:
                raise ConfigurationError(
                    f"the environment variable {self.env}, named by the option urlEnv, is not set here; for executors "
                    f"set spark.executorEnv.{self.env}"
                )
            return url
        if self.file:
            try:
                return Path(self.file).read_text(encoding="utf-8").strip()
            except OSError as error:
                raise ConfigurationError(
                    f"the file {self.file}, named by the option urlFile, cannot be read here ({error.strerror}): the "
                    "driver and every executor need it"
                ) from error
            except UnicodeDecodeError as error:
                raise ConfigurationError(
                    f"the file {self.file}, named by the option urlFile, is not UTF-8 text"
                ) from error
        return self.url
