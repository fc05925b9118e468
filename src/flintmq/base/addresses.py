"""IP addresses and networks of clients."""

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Network = IPv4Network | IPv6Network


def is_loopback(address: str) -> bool:
    """Tell whether an address is a loopback address. A text that is not an address is not."""
    parsed = _parsed(address)
    return parsed is not None and parsed.is_loopback


def networks(texts: Iterable[str]) -> tuple[Network, ...]:
    """Parse networks such as 10.0.0.7, 10.0.0.0/24 and fd00::/8. Raises ValueError for other texts."""
    return tuple(ip_network(text) for text in texts)


def is_within(address: str, those: Iterable[Network]) -> bool:
    """Tell whether an address is in one of these networks. A text that is not an address is not."""
    parsed = _parsed(address)
    return parsed is not None and any(parsed in each for each in those)


def _parsed(address: str) -> IPv4Address | IPv6Address | None:
    """Parse an address; an IPv4-mapped IPv6 address becomes IPv4. None if it is not an address."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return None
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is not None:
        return parsed.ipv4_mapped
    return parsed


def network(address: str) -> str:
    """The network that counts as one client: /64 for IPv6, because one IPv6 client has 2^64 addresses; otherwise the
    address.
    """
    parsed = _parsed(address)
    if parsed is None:
        return address
    if isinstance(parsed, IPv6Address):
        return str(IPv6Address(int(parsed) >> 64 << 64))
    return str(parsed)
