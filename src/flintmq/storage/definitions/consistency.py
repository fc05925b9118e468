"""Checks that the definitions belong to the messages beside them. Messages of queues that the definitions do not know
would be removed.
"""

from pathlib import Path

from flintmq.base.errors import StorageError
from flintmq.storage.definitions.catalogue import DefinitionsRecord
from flintmq.storage.definitions.database import Marks, recovery_advice


def check_marks(definitions: Path, marks: Marks, described: DefinitionsRecord | None) -> None:
    """Check the marks of the definitions against the journal's latest definitions record.

    The journal never has a generation before the definitions have it. Raises StorageError if the definitions belong to
    another journal, or are older than this one.
    """
    if described is None:
        return
    directory = definitions.parent
    if described.identity != marks.identity:
        raise StorageError(
            f"{definitions} does not belong to the messages in {directory}, but to those of another broker: "
            f"{recovery_advice(directory)}"
        )
    if described.generation > marks.generation:
        raise StorageError(
            f"{definitions} is older than the messages in {directory}: they were written after change "
            f"{described.generation} of the definitions, but the file ends at change {marks.generation} (its "
            f"write-ahead log, the file of the same name with -wal, may be missing): {recovery_advice(directory)}"
        )


def check_ids(definitions: Path, next_id: int, highest_id: int) -> None:
    """Check that the definitions are not older than the data.

    `next_id` is the next id that the definitions would give; `highest_id` is the highest id that the data mentions and
    the definitions do not know. Definitions are synced before anything that needs them, and no id is used twice, so an
    id from `next_id` on means that the definitions are too old. Raises StorageError.
    """
    if highest_id >= next_id:
        directory = definitions.parent
        raise StorageError(
            f"{definitions} is older than the messages in {directory}: they mention a queue with id {highest_id}, but "
            f"the definitions have given no id above {next_id - 1}: {recovery_advice(directory)}"
        )
