import json
from pathlib import Path

import pytest

from flintmq.base.errors import FlintError
from tests.unit.cli.stub import StubApi, run


def test_definitions_of_a_broker_that_runs(tmp_path: Path) -> None:
    """With --live, definitions are read and written over the API; only the owner can read the exported file."""
    file = tmp_path / "definitions.json"
    with StubApi({"GET definitions": (200, {"users": []})}) as stub:
        run(stub, "definitions", "export", str(file), "--live")
        assert json.loads(file.read_text()) == {"users": []}
        assert file.stat().st_mode & 0o077 == 0
        run(stub, "definitions", "import", str(file), "--live")
        assert stub.asked[-1] == ("POST definitions", {"users": []})
        file.write_text("[]")
        with pytest.raises(FlintError, match="has no definitions"):
            run(stub, "definitions", "import", str(file), "--live")
