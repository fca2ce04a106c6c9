"""Numeric network addresses: do they stay on this machine, where nobody else can listen?"""


def is_loopback(host: str) -> bool:
    """Whether this numeric address never leaves the machine; False for a name, which may mean any address."""
    from ipaddress import ip_address

    try:
        return ip_address(plain_address(host)).is_loopback
    except ValueError:
        return False


def plain_address(host: str) -> str:
    """A numeric address without its interface suffix (%eth0). An IPv4 address mapped to IPv6 becomes plain IPv4."""
    from ipaddress import IPv6Address, ip_address

    address = ip_address(host.partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(mapped or address)
