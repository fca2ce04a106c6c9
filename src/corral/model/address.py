"""What an address on the network says about who can listen in."""


def is_loopback(host: str) -> bool:
    """Whether this numeric address never leaves the machine; False for a name, which may mean any address."""
    from ipaddress import ip_address

    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback
