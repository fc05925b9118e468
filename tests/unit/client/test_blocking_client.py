"""The tool that generates the blocking clients, and its output in the repository."""

from pathlib import Path

import pytest

from tools import blocking_client

HERE = Path(__file__)


def generated(*lines: str) -> list[str]:
    text = blocking_client.blocking("\n".join((*lines, "")), HERE)
    assert text.startswith(blocking_client.HEADER)
    return text.removeprefix(blocking_client.HEADER).splitlines()


@pytest.mark.parametrize("target", blocking_client.FILES, ids=lambda path: path.parent.name)
def test_the_blocking_clients_are_up_to_date(target: Path) -> None:
    """Each blocking client is, byte for byte, what the tool makes of its asyncio client today."""
    source = blocking_client.FILES[target].read_text(encoding="utf-8")
    expected = blocking_client.blocking(source, target).encode()
    assert target.read_bytes() == expected, "run `make client`"


def test_all_asyncio_clients_have_a_blocking_one() -> None:
    """No aio.py of the client is left out."""
    assert sorted(blocking_client.FILES.values()) == sorted(blocking_client.CLIENT.rglob("aio.py"))


def test_nothing_of_asyncio_is_left() -> None:
    """`await`, `async` and the names of asyncio are gone; comments, blank lines and other characters stay."""
    assert generated(
        "async def get(driver: LoopDriver) -> AsyncIterator[str]:",
        '    name = "é", await driver.answer(await driver.ask())  # é await',
        "",
        "    async for one in driver.all():",
        "        # A comment.",
        "        yield one",
    ) == [
        "def get(driver: SocketDriver) -> Iterator[str]:",
        '    name = "é", driver.answer(driver.ask())  # é await',
        "",
        "    for one in driver.all():",
        "        # A comment.",
        "        yield one",
    ]


def test_what_is_marked_is_left_out() -> None:
    """A marked statement goes with its comment, and a marked `with` leaves its body behind."""
    assert generated(
        "async def publish(self) -> None:",
        "    # A comment for asyncio.",
        "    self.watch(1)  # asyncio only",
        "    async with self.lock:  # asyncio only",
        "        await self.send(",
        "            1,",
        "        )",
        "        async with self.other:",
        "            pass",
    ) == [
        "def publish(self) -> None:",
        "    self.send(",
        "        1,",
        "    )",
        "    with self.other:",
        "        pass",
    ]


def test_examples_in_docstrings_are_blocking() -> None:
    """Docstrings of the asyncio client become docstrings of the blocking one, other strings stay as they are."""
    assert generated(
        "async def connect() -> None:",
        '    """Connect.',
        "",
        "    Example::",
        "",
        "        async with await aio.connect(url) as connection:",
        "            channel = await connection.channel()",
        '    """',
        '    print("await ")',
    ) == [
        "def connect() -> None:",
        '    """Connect.',
        "",
        "    Example::",
        "",
        "        with connect(url) as connection:",
        "            channel = connection.channel()",
        '    """',
        '    print("await ")',
    ]
