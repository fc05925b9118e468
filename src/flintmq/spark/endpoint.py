"""The address of the broker, or of the nodes of a cluster. It can stay outside of a query's plan, which would show its
password.
"""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import flintmq.client as fc
from flintmq.base.errors import ConfigurationError, ConnectionForced, ConnectionLost
from flintmq.client.url import parse

CONNECT_SECONDS: Final = 10.0
# One of several nodes that says nothing for so long hangs, or waits for a leader: another one may serve.
NODE_SECONDS: Final = 3.0


@dataclass(frozen=True)
class Endpoint:
    """A URL, or the name of an environment variable or the path of a file that holds it; the others are empty.

    For a cluster, it is the URLs of the nodes, separated by white space.
    """

    url: str = field(default="", repr=False)
    env: str = ""
    file: str = ""

    @property
    def described(self) -> str:
        """The option that the user set, for errors; it never contains the URL."""
        if self.env:
            return f"the variable {self.env} (option urlEnv)"
        return f"the file {self.file} (option urlFile)" if self.file else "the option url"

    def connect(self, first: int = 0) -> fc.Connection:
        """Connect to the broker, or to the first node of the cluster that serves clients.

        The nodes are tried in turn, from number `first` on; numbers go on with the first node behind the last one.

        Raises FlintError if none can be reached, or the login is refused; InvalidUrl if one of the URLs is wrong.
        """
        urls = self.resolve().split() or [""]
        for url in urls:
            parse(url)
        begin = first % len(urls)
        urls = urls[begin:] + urls[:begin]
        for url in urls[:-1]:
            try:
                return fc.connect(url, timeout=NODE_SECONDS)
            except fc.FlintError as error:
                if not is_passing(error):
                    raise
        return fc.connect(urls[-1], timeout=CONNECT_SECONDS if len(urls) == 1 else NODE_SECONDS)

    def resolve(self) -> str:
        """The URL or URLs, as the driver or this executor finds them. Raises ConfigurationError if that fails here."""
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


def is_passing(error: fc.FlintError) -> bool:
    """Whether the broker may answer later, or another node of its cluster may: it restarts, or another one leads."""
    # Other closes have lasting reasons, such as a wrong password or an unknown vhost.
    is_forced = isinstance(error, fc.ConnectionClosed) and error.code == ConnectionForced.code
    return is_forced or isinstance(error, (ConnectionLost, fc.ConnectFailed, fc.TimedOut))
