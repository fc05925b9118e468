"""Verification of a data directory: reads all of it, counts the contents of each file, and reports damage. It never
writes.
"""

from contextlib import suppress
from pathlib import Path
from typing import final

from flintmq.base.errors import StorageError
from flintmq.broker.ports import Definitions
from flintmq.storage.backup import manifest
from flintmq.storage.backup.manifest import Manifest, Progress
from flintmq.storage.block import KIND_JOURNAL, KIND_STREAM, TYPE_JOURNAL, TYPE_STREAM, Damage
from flintmq.storage.definitions.consistency import check_ids
from flintmq.storage.inspection.directory import DataDirectory
from flintmq.storage.inspection.live_messages import LiveMessages
from flintmq.storage.inspection.missing_segments import missing_of_journal, missing_of_streams
from flintmq.storage.inspection.records import (
    BrokenBlock,
    journal_records,
    stream_records,
)
from flintmq.storage.inspection.report import (
    DEFINITIONS_FILE,
    JOURNAL_SEGMENT,
    OPEN,
    OTHER,
    QUARANTINED,
    SEALED,
    STREAM_INDEX,
    STREAM_SEGMENT,
    TO_BE_MADE,
    TORN,
    USABLE,
    WRITTEN_TO,
    FileReport,
    Report,
)
from flintmq.storage.journal.records import RECORD_MESSAGE, RECORD_MOVED, RECORD_RETURN, RECORD_SETTLEMENT
from flintmq.storage.layout import DEFINITIONS, is_segment
from flintmq.storage.quarantine import DIRECTORY as QUARANTINE
from flintmq.storage.segment_reader import Block, SegmentReader
from flintmq.storage.stream.files import INDEX_SUFFIX
from flintmq.storage.stream.index import decode_index


@final
class Verification:
    """Verifies a data directory once. `total` is the number of bytes to read. Raises StorageError if `directory` is not
    a data directory.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = DataDirectory(directory)
        self._manifest = Manifest.load(directory) if self._directory.is_backup else None
        # The number of the previous segment, as the header of each journal segment has it, by path.
        self._named: dict[str, int] = {}
        # The offset after the last record of each stream segment, by path.
        self._ends: dict[str, int] = {}
        self._sizes = {path: _size(directory / path) for path in self._directory.files}
        self.total = sum(self._sizes.values()) + (self._manifest.total_bytes if self._manifest else 0)

    def run(self, progress: Progress) -> Report:
        directory = self._directory
        definitions, definitions_report = self._definitions()
        queues = {queue.id for queue in definitions.queues} if definitions else set()
        termini = {terminus.id for terminus in definitions.termini} if definitions else set()
        leases = {lease.id for lease in definitions.leases} if definitions else set()
        stages = {stage.id for stage in definitions.stages} if definitions else set()
        live_messages = LiveMessages(queues | termini | leases | stages)
        reports = [definitions_report]
        for path in sorted(directory.files):
            report = self._segment(path, live_messages, progress) if is_segment(path) else self._other(path, progress)
            if report is not None:
                reports.append(report)
        if definitions is not None and not directory.is_running:
            # A running broker may have given more ids since the definitions were read.
            self._check_ids(definitions, max([int(live_messages.highest_id), *directory.streams]), definitions_report)
        reports += missing_of_journal(directory, self._named, reports)
        reports += missing_of_streams(directory, self._ends, reports)
        live = live_messages.live()
        for report in reports:
            if report.kind == JOURNAL_SEGMENT:
                report.live = sum(ranges.count for ranges in live.get(report.path, {}).values())
                report.dead -= report.live
        self._compare_with_manifest(reports, progress)
        reports += self._quarantine()
        return Report(
            str(directory.path),
            directory.is_running,
            directory.is_backup,
            reports,
            _counts(definitions) if definitions else None,
            sum(ranges.count for found in live.values() for queue, ranges in found.items() if queue in queues),
            sum(report.live for report in reports if report.kind == STREAM_SEGMENT),
        )

    def _definitions(self) -> tuple[Definitions | None, FileReport]:
        path = self._directory.path / DEFINITIONS
        report = FileReport(DEFINITIONS, DEFINITIONS_FILE, _size(path))
        try:
            return self._directory.definitions(), report
        except StorageError as error:
            report.damage.append(Damage(str(path), 0, str(error)))
            return None, report

    def _check_ids(self, definitions: Definitions, highest_id: int, report: FileReport) -> None:
        path = self._directory.path / DEFINITIONS
        try:
            check_ids(path, definitions.next_queue_id, highest_id)
        except StorageError as error:
            report.damage.append(Damage(str(path), 0, str(error)))

    def _other(self, path: str, progress: Progress) -> FileReport:
        progress(self._sizes[path])
        report = FileReport(path, OTHER, self._sizes[path])
        if path.endswith(INDEX_SUFFIX):
            report.kind = STREAM_INDEX
            with suppress(FileNotFoundError):
                data = (self._directory.path / path).read_bytes()
                report.state = TO_BE_MADE if decode_index(data, path) is None else USABLE
        return report

    def _quarantine(self) -> list[FileReport]:
        """Reports of the files in the quarantine. They are no damage by themselves: a started broker has handled it."""
        found = sorted((self._directory.path / QUARANTINE).glob("*"))
        return [FileReport(f"{QUARANTINE}/{path.name}", QUARANTINED, _size_of_all(path)) for path in found]

    def _segment(self, path: str, live_messages: LiveMessages, progress: Progress) -> FileReport | None:
        with self._directory.segment(path) as reader:
            if reader is None:
                return None
            is_journal = path.startswith("journal/")
            report = FileReport(path, JOURNAL_SEGMENT if is_journal else STREAM_SEGMENT, reader.size)
            self._check_header(path, reader, is_journal)
            self._named[path] = 0 if reader.header is None else reader.header.extra
            stream = _StreamTally(report)
            tally = _JournalTally(path, live_messages, report) if is_journal else stream
            reported = 0
            for block in reader.blocks(self._directory.synced_position(path, reader)):
                report.blocks += 1
                tally.add(block)
                progress(reader.end - reported)
                reported = reader.end
            self._ends[path] = stream.next_offset
            report.end = reader.end
            report.damage = reader.damage + report.damage
            self._check_tail(path, reader, report, is_journal)
            progress(self._sizes[path] - reported)
        # A segment that was removed meanwhile may have been overwritten while it was read, so its report is dropped.
        return report if self._directory.is_unchanged(path) else None

    def _check_header(self, path: str, reader: SegmentReader, is_journal: bool) -> None:
        header = reader.header
        if header is None:
            return
        number = int(Path(path).stem)
        if header.kind != (KIND_JOURNAL if is_journal else KIND_STREAM) or header.number != number:
            reader.damage.append(Damage(reader.name, 0, f"the file is not what its name says, but has {header.number}"))

    def _check_tail(self, path: str, reader: SegmentReader, report: FileReport, is_journal: bool) -> None:
        """Report the state of a segment, and what can be read after its end."""
        if reader.sealed:
            report.state = SEALED
        elif self._directory.is_running:
            report.state = WRITTEN_TO
        elif path not in self._directory.tails:
            report.state = OPEN
        else:
            report.state = TORN if reader.has_remains() else OPEN
            for block in reader.torn():
                report.lost_blocks += 1
                report.lost_messages += _messages_in(block, is_journal)

    def _compare_with_manifest(self, reports: list[FileReport], progress: Progress) -> None:
        """Compare a backup with its manifest; in a backup each byte must be unchanged."""
        if self._manifest is None:
            return
        directory = self._directory.path
        listed = {entry.path for entry in self._manifest.files}
        by_path = {report.path: report for report in reports}
        for damage in manifest.check(directory, self._manifest, progress):
            path = str(Path(damage.file).relative_to(directory))
            report = by_path.get(path)
            if report is None:
                report = FileReport(path, OTHER, 0)
                reports.append(report)
            report.damage.append(damage)
        for report in reports:
            if report.path not in listed:
                report.damage.append(Damage(str(directory / report.path), 0, "the file is not of this backup"))


@final
class _JournalTally:
    def __init__(self, path: str, live_messages: LiveMessages, report: FileReport) -> None:
        self._path = path
        self._live_messages = live_messages
        self._report = report

    def add(self, block: Block) -> None:
        report = self._report
        data = block.data
        try:
            if block.type != TYPE_JOURNAL:
                raise BrokenBlock
            for position in journal_records(data, block.at, block.length):
                report.records += 1
                kind = data[position]
                if kind in (RECORD_MESSAGE, RECORD_MOVED):
                    report.messages += 1
                    # All entries count as dead until the live ones are known.
                    report.dead += self._live_messages.message(self._path, data, position)
                elif kind == RECORD_SETTLEMENT:
                    self._live_messages.settlement(data, position)
                elif kind == RECORD_RETURN:
                    self._live_messages.returned(data, position)
        except BrokenBlock:
            report.damage.append(Damage(report.path, block.start, "the block's records do not fill it"))


@final
class _StreamTally:
    def __init__(self, report: FileReport) -> None:
        self.next_offset = 0
        self._report = report

    def add(self, block: Block) -> None:
        report = self._report
        try:
            if block.type != TYPE_STREAM:
                raise BrokenBlock
            for offset, _ in stream_records(block.data, block.at, block.length):
                self.next_offset = int(offset) + 1
                report.records += 1
                report.messages += 1
                report.live += 1
        except BrokenBlock:
            report.damage.append(Damage(report.path, block.start, "the block's records do not fill it"))


def _messages_in(block: Block, is_journal: bool) -> int:
    try:
        if not is_journal:
            return sum(1 for _ in stream_records(block.data, block.at, block.length))
        positions = journal_records(block.data, block.at, block.length)
        return sum(block.data[position] in (RECORD_MESSAGE, RECORD_MOVED) for position in positions)
    except BrokenBlock:
        return 0


def _counts(definitions: Definitions) -> dict[str, int]:
    return {
        "vhosts": len(definitions.vhosts),
        "users": len(definitions.users),
        "exchanges": len(definitions.exchanges),
        "queues": len(definitions.queues),
        "bindings": len(definitions.bindings),
        "rules": len(definitions.rules),
    }


def _size_of_all(path: Path) -> int:
    """The size of a file, or of all files in a directory."""
    return sum(map(_size, path.iterdir())) if path.is_dir() else _size(path)


def _size(path: Path) -> int:
    """The size of a file in bytes; 0 if it is missing, or was removed meanwhile."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
