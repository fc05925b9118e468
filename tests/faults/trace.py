"""Reads what strace wrote, and finds confirms that were sent before what they confirm was on the disk.

The law: a message counts as synced when a write of its bytes has returned that was told to sync them (RWF_DSYNC), or
when an fdatasync or fsync of the file has returned that began after the write had returned. A system call that sends
a confirm has to begin later than that.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from flintmq.wire.amqp091.frames import FRAME_METHOD

# "pid call(descriptor<what it is>, the rest"; then "= result", unless another thread's call is shown in between.
_CALL: Final = re.compile(r"^(\d+) +(\w+)\((\d+)<(.*?)>([,) ].*)$")
_RESUMED: Final = re.compile(r"^(\d+) +<\.\.\. (\w+) resumed>(.*)$")
_RESULT: Final = re.compile(r"= (-?\d+)(?: .*)?$")
_STRING: Final = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')
_BYTE: Final = re.compile(r"\\x([0-9a-f]{2})")
_MARK: Final = re.compile(rb"audit-(\d+)-(\d+);")
_PEER: Final = re.compile(r"->.*:(\d+)\]$")

_SYNCS: Final = ("fdatasync", "fsync")
_FILE_WRITES: Final = ("pwritev2", "pwritev", "pwrite64")
_SENDS: Final = ("write", "writev", "sendto", "sendmsg")
# What strace is to show.
CALLS: Final = ",".join(_SYNCS + _FILE_WRITES + _SENDS)
_BASIC_ACK: Final = bytes.fromhex("003c0050")


def mark(publisher: int, number: int) -> bytes:
    """What a body begins with, so that it is found in what was written. `number` is its delivery tag."""
    return b"audit-%d-%d;" % (publisher, number)


@dataclass
class _Call:
    name: str
    target: str
    text: str
    # Of a sync: what was written to the file before it began.
    covers: set[tuple[int, int]] = field(default_factory=set)


@dataclass
class Audit:
    """`ports` are those of the publishers' sockets, in the order of their numbers."""

    ports: list[int]
    syncs: int = 0
    early: list[str] = field(default_factory=list)
    _open: dict[str, _Call] = field(default_factory=dict)
    # By file, what was written and not synced.
    _written: dict[str, set[tuple[int, int]]] = field(default_factory=dict)
    _synced: set[tuple[int, int]] = field(default_factory=set)
    _sent: dict[int, bytearray] = field(default_factory=dict)
    _confirmed: set[tuple[int, int]] = field(default_factory=set)
    # By publisher, up to which number all are confirmed.
    _answered: dict[int, int] = field(default_factory=dict)

    @property
    def confirmed(self) -> int:
        return len(self._confirmed)

    def read(self, lines: Iterable[str]) -> None:
        for line in lines:
            if match := _CALL.match(line):
                pid, name, _, target, text = match.groups()
                call = _Call(name, _plain(target), text)
                if name in _SYNCS:
                    call.covers = set(self._written.get(call.target, ()))
                elif call.target.startswith("TCP"):
                    self._send(call)
                if not self._end(call, text):
                    self._open[pid] = call
            elif match := _RESUMED.match(line):
                pid, _, text = match.groups()
                waiting = self._open.pop(pid, None)
                if waiting is not None:
                    self._end(waiting, text)

    def _end(self, call: _Call, text: str) -> bool:
        """False when the line does not tell how the call ended."""
        result = _RESULT.search(text)
        if result is None:
            return False
        size = int(result[1])
        if call.name in _SYNCS and size == 0:
            self.syncs += 1
            self._synced |= call.covers
            self._written.get(call.target, set()).difference_update(call.covers)
        elif call.name in _FILE_WRITES and call.target.endswith((".journal", ".stream")):
            data = _bytes(call.text)
            found = {(int(match[1]), int(match[2])) for match in _MARK.finditer(data)}
            if "RWF_DSYNC" in call.text + text and size == len(data):
                self.syncs += 1
                self._synced |= found
            elif size == len(data):
                self._written.setdefault(call.target, set()).update(found)
        return True

    def _send(self, call: _Call) -> None:
        """What a call is about to send; that it sends all of it is checked by the frames that follow."""
        peer = _PEER.search(call.target)
        if peer is None or int(peer[1]) not in self.ports:
            return
        publisher = self.ports.index(int(peer[1]))
        sent = self._sent.setdefault(publisher, bytearray())
        sent += _bytes(call.text)
        for tag, is_multiple in _acks(sent):
            first = self._answered.get(publisher, 0) + 1 if is_multiple else tag
            news = {(publisher, number) for number in range(first, tag + 1)} - self._confirmed
            self._confirmed |= news
            self.early += [f"publisher {publisher}, message {number}" for _, number in sorted(news - self._synced)]
            if is_multiple:
                self._answered[publisher] = max(self._answered.get(publisher, 0), tag)


def _plain(text: str) -> str:
    return _BYTE.sub(lambda match: chr(int(match[1], 16)), text)


def _bytes(text: str) -> bytes:
    return b"".join(bytes.fromhex(match[1].replace("\\x", "")) for match in _STRING.finditer(text))


def _acks(sent: bytearray) -> Iterator[tuple[int, bool]]:
    """The confirms in what was sent; whole frames are taken out of it."""
    while len(sent) >= 7:
        size = int.from_bytes(sent[3:7], "big")
        if len(sent) < size + 8:
            return
        if sent[0] == FRAME_METHOD and sent[7:11] == _BASIC_ACK:
            yield int.from_bytes(sent[11:19], "big"), bool(sent[19] & 1)
        del sent[: size + 8]
