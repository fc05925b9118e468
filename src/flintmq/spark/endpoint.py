"""Where the broker is, said so that the password need not stand in a query's plan, and resolved where it is used."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import flintmq.client as fc
from flintmq.base.errors import ConfigurationError

CONNECT_SECONDS: Final = 10.0


@dataclass(frozen=True)
class Endpoint:
    """One of a URL, the name of an environment variable that holds it, and the path of a file that does."""

    url: str = field(default="", repr=False)
    env: str = ""
    file: str = ""

    @property
    def described(self) -> str:
        """By what the user gave it, never with what is in it."""
        if self.env:
            return f"the variable {self.env} (option urlEnv)"
        return f"the file {self.file} (option urlFile)" if self.file else "the option url"

    def connect(self) -> fc.Connection:
        """Raises FlintError."""
        return fc.connect(self.resolve(), timeout=CONNECT_SECONDS)

    def resolve(self) -> str:
        """Raises ConfigurationError. The driver and every executor resolve for themselves."""
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
                raise ConfigurationError(f"the file {self.file}, named by the option urlFile, is no text") from error
        return self.url
