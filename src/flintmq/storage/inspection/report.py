"""Reports of inspection, as text for people and as JSON for programs."""

from dataclasses import dataclass, field
from typing import Final

from flintmq.base.plurals import counted
from flintmq.storage.block import Damage

# Kinds of files.
DEFINITIONS_FILE: Final = "definitions"
JOURNAL_SEGMENT: Final = "journal"
STREAM_SEGMENT: Final = "stream"
STREAM_INDEX: Final = "index"
# Copies of damaged bytes in the quarantine.
QUARANTINED: Final = "quarantine"
OTHER: Final = "other"

# States of segments: sealed; without a seal and with nothing after the last block; with bytes after the last block,
# which a crash has torn; being written by a running broker.
SEALED: Final = "sealed"
OPEN: Final = "open"
TORN: Final = "torn"
WRITTEN_TO: Final = "written to"
# Other files show that this segment existed.
MISSING: Final = "missing"
# States of an index: valid, or to be created again from the segment.
USABLE: Final = "usable"
TO_BE_MADE: Final = "to be made again"


@dataclass
class FileReport:
    """The contents of a file.

    `end` is the position after its last valid block. `messages` counts records of messages. `live` and `dead` count
    entries on queues: a message that went to three queues has three. `lost_blocks` and `lost_messages` count what can
    be read after the end of a torn segment: a start cuts it off, and no client got a confirm for it.
    """

    path: str
    kind: str
    bytes: int
    state: str = ""
    end: int = 0
    blocks: int = 0
    records: int = 0
    messages: int = 0
    live: int = 0
    dead: int = 0
    lost_blocks: int = 0
    lost_messages: int = 0
    damage: list[Damage] = field(default_factory=list)

    def fields(self) -> dict[str, object]:
        damage = [{"position": damage.position, "reason": damage.reason} for damage in self.damage]
        return {**vars(self), "damage": damage}

    def line(self) -> str:
        facts = [counted(self.bytes, "byte")]
        if self.state:
            facts.append(self.state)
        if self.kind in (JOURNAL_SEGMENT, STREAM_SEGMENT):
            facts += [counted(self.blocks, "block"), counted(self.messages, "message"), f"{self.live:,} live"]
        if self.kind == JOURNAL_SEGMENT:
            facts.append(f"{self.dead:,} dead")
        if self.lost_blocks:
            lost = counted(self.lost_messages, "message")
            facts.append(f"a start cuts off {lost} in {counted(self.lost_blocks, 'block')}")
        return f"{self.path}: {', '.join(facts)}"


@dataclass
class Report:
    """The result of verification. `definitions` counts the defined objects by kind; it is None if they cannot be read.
    `messages` counts the messages on queues.
    """

    directory: str
    is_running: bool
    is_backup: bool
    files: list[FileReport]
    definitions: dict[str, int] | None
    messages: int
    stream_records: int

    @property
    def damage(self) -> list[Damage]:
        return [damage for file in self.files for damage in file.damage]

    def fields(self) -> dict[str, object]:
        """The report as a JSON object."""
        return {
            "directory": self.directory,
            "running": self.is_running,
            "backup": self.is_backup,
            "intact": not self.damage,
            "messages": self.messages,
            "stream_records": self.stream_records,
            "definitions": self.definitions,
            "files": [file.fields() for file in self.files],
        }

    def lines(self) -> list[str]:
        """The report as lines of text; the last line is the verdict."""
        lines = [file.line() for file in self.files]
        if self.definitions is not None:
            # The keys are plurals; `counted` adds the "s" itself.
            lines.append(", ".join(counted(count, what.removesuffix("s")) for what, count in self.definitions.items()))
        on_queues, in_streams = counted(self.messages, "message"), counted(self.stream_records, "record")
        lines.append(f"{on_queues} on queues, {in_streams} in streams")
        lines += [f"damaged: {damage}" for damage in self.damage]
        files = sum(bool(file.damage) for file in self.files)
        places = counted(len(self.damage), "place")
        lines.append(f"damaged in {places}, in {counted(files, 'file')}" if files else "intact")
        return lines
