"""Where clients come from."""

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Network = IPv4Network | IPv6Network


def is_loopback(address: str) -> bool:
    """Whether it is of this machine. What is no address is of another one."""
    parsed = _parsed(address)
    return parsed is not None and parsed.is_loopback


def networks(texts: Iterable[str]) -> tuple[Network, ...]:
    """Of texts such as 10.0.0.7, 10.0.0.0/24 and fd00::/8. Raises ValueError for what is none."""
    return tuple(ip_network(text) for text in texts)


def is_within(address: str, those: Iterable[Network]) -> bool:
    """Whether it is in one of them. What is no address is in none."""
    parsed = _parsed(address)
    return parsed is not None and any(parsed in each for each in those)


def _parsed(address: str) -> IPv4Address | IPv6Address | None:
    """IPv4 by way of IPv6 is IPv4; None for what is no address."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return None
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is not None:
        return parsed.ipv4_mapped
    return parsed


def network(address: str) -> str:
    """Who is taken for one: a client of IPv6 has 2^64 addresses at least."""
    parsed = _parsed(address)
    if parsed is None:
        return address
    if isinstance(parsed, IPv6Address):
        return str(IPv6Address(int(parsed) >> 64 << 64))
    return str(parsed)
