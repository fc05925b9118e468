"""A library that is not installed."""

from flintmq.base.errors import ConfigurationError


def missing(format: str, library: str) -> ConfigurationError:
    return ConfigurationError(
        f"the format {format} needs {library}, which is not installed here: pip install 'flintmq[lake]', for the "
        "driver and on every executor"
    )
