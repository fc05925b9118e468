"""What a check of `flintmq doctor` has found."""

from dataclasses import dataclass
from typing import Literal

Verdict = Literal["fine", "doubtful", "wrong"]


@dataclass(frozen=True)
class Finding:
    """`about` is the subject, in a word or two; `text` says what to do if the verdict is not fine."""

    about: str
    verdict: Verdict
    text: str
