"""Whose agent this is: an agent on another host serves one server, and keeps on disk which.

The first frame on a connection to such an agent is the server's claim. The agent greets a connection of its own server
and refuses every other, until its server, or a person on that host, sets it free.
"""

import json
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from corral.core.model.errors import Conflict, Forbidden, Refused
from corral.core.model.home import Home
from corral.core.model.printable import printable
from corral.files import read_own_end, write_whole
from corral.wire import from_plain, to_plain

MAX_CLAIM_BYTES = 16 * 1024
_UNIX_SOCKETS = Path("/proc/net/unix")
_CONNECTED = "03"
"""The state there of a socket with another end (SS_CONNECTED of linux/net.h)."""

_MAX_WORDS = 500


@dataclass(frozen=True, slots=True)
class ServerClaim:
    """The first frame of a server on a connection.

    Attributes:
        server: the tag of the server, which no other server has.
        name: the name of the node in that server.
        home: where the server runs, for a person: "root@head:/var/lib/corral".
        user: the one user whose jobs the server runs; None if it runs those of all users.
        releases: whether the server sets the agent free, and calls nothing on this connection.
    """

    server: str
    name: str
    home: str
    user: str | None = None
    releases: bool = False


class Claims:
    """The claim of an agent, in its home. Thread-safe."""

    def __init__(self, home: Home) -> None:
        self._path = home.claim_file
        self._lock = threading.Lock()

    def owner(self) -> ServerClaim | None:
        """Return the claim on record; None if the agent is free. Raises Conflict if the file cannot be read."""
        try:
            return read_claim(json.loads(read_own_end(self._path, MAX_CLAIM_BYTES)))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, Refused) as error:
            raise Conflict(
                f"{self._path} says whose agent this is, and cannot be read: {error}; `corral agent release` removes it"
            ) from None

    def admit(self, claim: ServerClaim) -> None:
        """Take the claim of a server, unless the agent has another. A server that releases its agent sets it free.

        Raises Forbidden if the agent is another server's, or is another node of this server. Raises Conflict if the
        claim cannot be kept.
        """
        with self._lock:
            owner = self.owner()
            if owner is not None and owner.server != claim.server:
                raise Forbidden(
                    f"the agent there serves another server, {owner.home}, as node {owner.name}: remove the host there "
                    f"(corral hosts remove {owner.name}), or run `corral agent release` on that host"
                )
            if owner is not None and owner.name != claim.name:
                raise Forbidden(
                    f"that host is node {owner.name} of this server already: a host is joined once; to rename it, "
                    f"remove it first (corral hosts remove {owner.name})"
                )
            if claim.releases:
                self._path.unlink(missing_ok=True)
            elif owner != claim:
                self._keep(claim)

    def release(self) -> ServerClaim | None:
        """Set the agent free, whatever is on record. Return the claim that it had."""
        with self._lock:
            try:
                owner = self.owner()
            except Conflict:
                owner = None
            self._path.unlink(missing_ok=True)
            return owner

    def _keep(self, claim: ServerClaim) -> None:
        try:
            write_whole(self._path, json.dumps(to_plain(claim)))
        except OSError as error:
            raise Conflict(f"the agent cannot record its server in {self._path}: {error.strerror}") from None


def read_claim(plain: Any) -> ServerClaim:
    """Return the claim in a received frame. Raises Refused if it is none."""
    claim = from_plain(ServerClaim, plain, field="claim")
    for words in (claim.server, claim.name, claim.home, claim.user or "-"):
        if not 0 < len(words) <= _MAX_WORDS:
            raise Refused(f"claim: from 1 to {_MAX_WORDS} characters are allowed, not {len(words)}", field="claim")
    return replace(claim, name=printable(claim.name), home=printable(claim.home))


def main(argv: Sequence[str] | None = None) -> int:
    """Free the agent with this home: `corral agent release`."""
    (root,) = sys.argv[1:] if argv is None else argv
    home = Home(Path(root))
    claims = Claims(home)
    if _is_connected(home):
        print(_claimed_again(claims), file=sys.stderr)
        return 1
    try:
        owner = claims.release()
    except OSError as error:
        print(f"the agent in {root} cannot be freed: {error.strerror}", file=sys.stderr)
        return 1
    print(f"The agent in {root} served {'no server' if owner is None else owner.home}. It is free.")
    return 0


def _is_connected(home: Home) -> bool:
    """Whether somebody has a connection to the agent's socket: its server, which keeps one while it lives."""
    shown = home.agent_socket
    # The kernel has the path with which the agent was started, and its home may lead to that.
    paths = {str(shown), str(shown.readlink())} if shown.is_symlink() else {str(shown)}
    rows = [line.split(maxsplit=7) for line in _UNIX_SOCKETS.read_text(errors="replace").splitlines()]
    return any(row[5] == _CONNECTED and paths.issuperset(row[7:]) and row[7:] for row in rows[1:])


def _claimed_again(claims: Claims) -> str:
    try:
        owner = claims.owner()
    except Conflict:
        owner = None
    whose, name = ("its server", "NAME") if owner is None else (f"the server {owner.home}", owner.name)
    return (
        f"{whose} is connected to this agent, and would claim it again at once: remove the host there "
        f"(corral hosts remove {name}). If nobody can, take the server's line out of authorized_keys here, stop the "
        "agent, and run this again"
    )


if __name__ == "__main__":
    sys.exit(main())
