"""Whether definitions belong to the messages they are beside: all that they do not know would be of no queue."""

from pathlib import Path

from flintmq.base.errors import StorageError
from flintmq.storage.definitions.catalogue import DefinitionsRecord
from flintmq.storage.definitions.database import Marks, recovery_advice


def check_marks(definitions: Path, marks: Marks, described: DefinitionsRecord | None) -> None:
    """`marks` are those of the definitions; `described` is what the journal said last of them.

    The journal never has a generation before the definitions do. Raises StorageError.
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
            f"{definitions} is older than the messages in {directory}: these were written after change "
            f"{described.generation} of the definitions, and it has changes up to {marks.generation} (its log may be "
            f"missing, the file of the same name with -wal): {recovery_advice(directory)}"
        )


def check_ids(definitions: Path, next_id: int, highest_id: int) -> None:
    """`highest_id` is of those that the data knows of, and the definitions do not.

    Definitions are on the disk before anything that needs them, and no id is given twice. Raises StorageError.
    """
    if highest_id >= next_id:
        directory = definitions.parent
        raise StorageError(
            f"{definitions} is older than the messages in {directory}, which know of a queue with the number "
            f"{highest_id}, where it has given none above {next_id - 1}: {recovery_advice(directory)}"
        )
