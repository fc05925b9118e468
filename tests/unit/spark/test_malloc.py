"""What malloc does with freed memory, in a process of its own: it is the same for all of one."""

import platform
import subprocess
import sys

import pytest

# As a task does: pieces that were received become a chunk, and both are freed.
_WORK = """
import resource
from flintmq.spark.malloc import keep_freed_memory

def chunk():
    pieces = [b"x" * 1024 * 1024 for _ in range(12)]
    return len(b"".join(pieces))

keep_freed_memory()
chunk()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    chunk()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries do as they like")
def test_freed_memory_is_used_again() -> None:
    """240 MiB, which would be 60,000 pages, take no new ones."""
    ran = subprocess.run([sys.executable, "-c", _WORK], capture_output=True, text=True, check=True)  # noqa: S603 - our own
    assert int(ran.stdout) < 1000
