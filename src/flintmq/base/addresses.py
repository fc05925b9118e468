"""Where clients come from."""

from ipaddress import IPv6Address, ip_address


def is_loopback(address: str) -> bool:
    """Whether it is of this machine. What is no address is of another one."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return False
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is not None:
        parsed = parsed.ipv4_mapped
    return parsed.is_loopback


def network(address: str) -> str:
    """Who is taken for one: a client of IPv6 has 2^64 addresses at least."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, IPv6Address):
        if parsed.ipv4_mapped is not None:
            return str(parsed.ipv4_mapped)
        return str(IPv6Address(int(parsed) >> 64 << 64))
    return str(parsed)
