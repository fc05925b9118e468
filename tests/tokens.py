"""An issuer of tokens: keys, the set of them that is published, and tokens signed with one."""

import json
import time
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm


class Issuer:
    """`audience` is whom its tokens are for."""

    def __init__(self, audience: str = "flintmq") -> None:
        self.audience = audience
        self.keys: dict[str, rsa.RSAPrivateKey] = {}
        self.add_key("key-1")

    def add_key(self, key_id: str) -> None:
        self.keys[key_id] = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    @property
    def key_set(self) -> dict[str, Any]:
        return {
            "keys": [
                {**RSAAlgorithm.to_jwk(key.public_key(), as_dict=True), "kid": key_id, "use": "sig"}
                for key_id, key in self.keys.items()
            ]
        }

    def publish(self, file: Path) -> Path:
        file.write_text(json.dumps(self.key_set))
        return file

    def token(
        self, *scopes: str, seconds: float = 3_600, key_id: str = "key-1", algorithm: str = "RS256", **claims: object
    ) -> str:
        """A token that is good for so long; a claim that is None is left out."""
        said = {
            "sub": "anna",
            "aud": self.audience,
            "exp": int(time.time() + seconds),
            "scope": " ".join(f"{self.audience}.{scope}" for scope in scopes),
            **claims,
        }
        said = {name: value for name, value in said.items() if value is not None}
        return jwt.encode(said, self.keys[key_id], algorithm, headers={"kid": key_id})
