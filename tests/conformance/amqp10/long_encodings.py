"""Values in encodings longer than they have to be, as a sender may choose them (part 1 §1.6)."""


def _sized(code: int, count: int, content: bytes) -> bytes:
    return bytes([code]) + (len(content) + 4).to_bytes(4, "big") + count.to_bytes(4, "big") + content


def list32(*items: bytes) -> bytes:
    return _sized(0xD0, len(items), b"".join(items))


def map32(*items: bytes) -> bytes:
    return _sized(0xD1, len(items), b"".join(items))


def string32(value: str) -> bytes:
    return b"\xb1" + len(value).to_bytes(4, "big") + value.encode()


def binary32(value: bytes) -> bytes:
    return b"\xb0" + len(value).to_bytes(4, "big") + value


def symbol32(value: str) -> bytes:
    return b"\xb3" + len(value).to_bytes(4, "big") + value.encode()


def uint32(value: int) -> bytes:
    return b"\x70" + value.to_bytes(4, "big")


def ulong64(value: int) -> bytes:
    return b"\x80" + value.to_bytes(8, "big")


def described(descriptor: bytes, value: bytes) -> bytes:
    return b"\x00" + descriptor + value


NULL = b"\x40"
TRUE = b"\x56\x01"
FALSE = b"\x56\x00"
