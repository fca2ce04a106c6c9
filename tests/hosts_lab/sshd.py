"""Keys and settings of OpenSSH: of a lab's hosts, and of the account of its server."""

import subprocess
from pathlib import Path

SSHD_CONFIG = """HostKey /etc/ssh/ssh_host_ed25519_key
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
PidFile /run/sshd.pid
"""
"""As Debian has it, but for PAM: what is not said, as the most sessions of a connection, is as by default."""


def make_key(path: Path, comment: str) -> str:
    """Make a pair of keys, in place of one that was there; the public one."""
    path.unlink(missing_ok=True)
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(path)],
        check=True,
        stdin=subprocess.DEVNULL,
    )
    return path.with_name(f"{path.name}.pub").read_text()


def known_host(names: str, public_key: str) -> str:
    """A line of known_hosts."""
    kind, key, *_ = public_key.split()
    return f"{names} {kind} {key}\n"


def config_entry(name: str, address: str, user: str, more: str = "") -> str:
    """What ~/.ssh/config has of a host."""
    lines = [f"Host {name}", f"  HostName {address}", f"  HostKeyAlias {name}", f"  User {user}", *more.splitlines()]
    return "\n".join(lines) + "\n"
