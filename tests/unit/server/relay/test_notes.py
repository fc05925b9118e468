"""Notes between a broker and its workers."""

from dataclasses import replace
from pathlib import Path

import pytest

from flintmq import __version__
from flintmq.base.errors import FlintError
from flintmq.server.config import TlsSettings
from flintmq.server.relay import notes
from flintmq.server.relay.notes import Certificates, Listening, Order

ORDER = Order((Listening(7, True),), Certificates(TlsSettings(certificate=Path("/a.pem")), (), {"/a.pem": b"\xff"}))


def test_an_order_arrives_as_it_was() -> None:
    """With paths, and contents of files that are no text."""
    assert notes.order(notes.encode(ORDER)) == ORDER


@pytest.mark.parametrize(
    "payload", [notes.encode(replace(ORDER, version="99.1")), b'{"accept": "all", "version": "99.1"}', b'{"accept": 1}']
)
def test_a_broker_of_another_version(payload: bytes) -> None:
    """Its orders are refused with what to do, whatever else is in them."""
    with pytest.raises(FlintError, match=f"{__version__} is installed.*(99.1|unknown): restart the broker"):
        notes.order(payload)
