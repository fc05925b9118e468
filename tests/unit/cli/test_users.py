from pathlib import Path

from tests.unit.cli.stub import StubApi, run


def test_passwords_come_from_files(tmp_path: Path) -> None:
    """Passwords are read from a file; tags change without the password, and the password without the tags."""
    file = tmp_path / "password"
    file.write_text("n3w\n")
    known = {"tags": ["management"], "password_hash": "h", "hashing_algorithm": "argon2id"}
    with StubApi({"GET users/u": (200, known)}) as stub:
        run(stub, "user", "add", "u", "--tag", "administrator", "--new-password-file", str(file))
        run(stub, "user", "password", "u", "--new-password-file", str(file))
        run(stub, "user", "tags", "u", "monitoring")
        assert [each for each in stub.asked if each[0].startswith("PUT")] == [
            ("PUT users/u", {"password": "n3w", "tags": "administrator"}),
            ("PUT users/u", {"password": "n3w", "tags": ["management"]}),
            ("PUT users/u", {"password_hash": "h", "hashing_algorithm": "argon2id", "tags": "monitoring"}),
        ]
