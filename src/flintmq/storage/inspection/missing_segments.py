"""Missing segments: other files or the definitions show that they existed."""

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

from flintmq.storage.block import Damage
from flintmq.storage.inspection.directory import DataDirectory, number_of
from flintmq.storage.inspection.report import JOURNAL_SEGMENT, MISSING, SEALED, STREAM_SEGMENT, FileReport
from flintmq.storage.journal.chain import END_IS_MISSING, missing_behind, missing_between
from flintmq.storage.journal.files import SUFFIX as JOURNAL_SUFFIX
from flintmq.storage.layout import JOURNAL, is_index
from flintmq.storage.stream.files import INDEX_SUFFIX
from flintmq.storage.stream.files import SUFFIX as STREAM_SUFFIX
from flintmq.storage.stream.index import decode_index, missing_records


def missing_of_journal(
    directory: DataDirectory, named: Mapping[str, int], reports: list[FileReport]
) -> list[FileReport]:
    """Find missing segments of the journal.

    `named` maps each segment's path to the number of the previous segment, as its header has it. If only the end of the
    last segment is missing, the damage is added to its report in `reports`.
    """
    paths = directory.written_segments
    by_number = {number_of(path): path for path in paths}
    missing = missing_between(list(by_number), lambda number: named.get(by_number[number], 0))
    if not directory.is_running and directory.marks is not None:
        # A running broker may have written more segments since the definitions were read.
        missing += missing_behind(list(by_number), directory.marks.journal_written)
        _check_end(directory, by_number.get(directory.marks.journal_ended, ""), reports)
    gaps = [(f"{JOURNAL}/{number:020d}{JOURNAL_SUFFIX}", reason) for number, reason in missing]
    return [
        _missing(directory, path, JOURNAL_SEGMENT, reason) for path, reason in gaps if _is_gap(directory, path, paths)
    ]


def _check_end(directory: DataDirectory, ended: str, reports: list[FileReport]) -> None:
    if ended not in directory.tails:
        return
    for report in reports:
        if report.path == ended and report.state != SEALED:
            report.damage.append(Damage(str(directory.path / ended), report.end, END_IS_MISSING))


def missing_of_streams(
    directory: DataDirectory, ends: Mapping[str, int], reports: list[FileReport]
) -> list[FileReport]:
    """Find missing segments of streams, by gaps between offsets and by indexes without a segment.

    `ends` maps the path of each segment to the offset after its last record.
    """
    damaged = {report.path for report in reports if report.damage}
    indexes: dict[str, list[str]] = {}
    for path in filter(is_index, directory.files):
        indexes.setdefault(path.rpartition("/")[0], []).append(path)
    found: list[FileReport] = []
    for log in sorted({*indexes, *directory.logs} - {JOURNAL}):
        segments = directory.logs.get(log, [])[::-1]
        known = {number_of(path): max(ends.get(path, 0), _stored_end(directory.path / path)) for path in segments}
        gaps: dict[int, int] = {}
        for path in indexes.get(log, ()):
            # Retention removes the oldest segments first, and the index of a segment after it.
            if number_of(path) not in known and number_of(path) > min(known, default=-1):
                gaps[number_of(path)] = _stored_end(directory.path / path)
        for earlier, later in pairwise(segments):
            end = known[number_of(earlier)]
            if end < number_of(later) and earlier not in damaged:
                gaps.setdefault(end, number_of(later))
        for first, end in sorted(gaps.items()):
            path = f"{log}/{first:020d}{STREAM_SUFFIX}"
            if end >= 0 and _is_gap(directory, path, segments):
                found.append(_missing(directory, path, STREAM_SEGMENT, missing_records(first, end)))
    return found


def _stored_end(segment: Path) -> int:
    """The offset after a segment's last record according to its index; -1 if there is no readable index."""
    index = segment.with_suffix(INDEX_SUFFIX)
    try:
        found = decode_index(index.read_bytes(), str(index))
    except FileNotFoundError:
        return -1
    return -1 if found is None or found.first_offset != int(segment.stem) else found.next_offset


def _is_gap(directory: DataDirectory, path: str, segments: list[str]) -> bool:
    """Tell whether a segment is really missing: a running broker may have created it meanwhile, or removed the segments
    before it.
    """
    is_oldest_there = all((directory.path / segment).exists() for segment in segments[:1])
    return is_oldest_there and not (directory.path / path).exists()


def _missing(directory: DataDirectory, path: str, kind: str, reason: str) -> FileReport:
    return FileReport(path, kind, 0, MISSING, damage=[Damage(str(directory.path / path), 0, reason)])
