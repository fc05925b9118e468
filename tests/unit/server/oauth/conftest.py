"""What tests of tokens and their keys share."""

from collections.abc import Iterator

import pytest

from tests.tokens import Issuer
from tests.unit.server.oauth.site import Site


@pytest.fixture(scope="module")
def issuer() -> Issuer:
    return Issuer()


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    yield site
    site.close()
