"""Command lines of OpenSSH for one host, and what its messages mean for a person. Pure.

Only `ssh` knows how a host is reached: its configuration has jump hosts, users, ports and certificates.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from corral.core.model.errors import BackendFailed
from corral.core.model.printable import printable

CONNECT_S = 10.0
"""The time that `ssh` waits for a connection."""

ALIVE_INTERVAL_S = 5
ALIVE_MISSED = 3
"""A connection that carries nothing for this many intervals is closed: its host is cut off."""

NO_PROGRAM = 127
NOT_EXECUTABLE = 126
"""Exit statuses of shells for a command that does not exist, or that cannot be run."""

_LAST_CHARACTERS = 300

FIND_AGENT = (
    "sh -c '"
    "for each in /usr/local/lib/corral-agent ~/.local/lib/corral-agent; do "
    '[ -x "$each/current/bin/corral" ] && exec "$each/current/bin/corral" agent connect; '
    "done; exec corral agent connect'"
)
"""The command that joins the agent of a host whose key is not restricted to that command."""


@dataclass(frozen=True, slots=True)
class SshRoute:
    """How `ssh` reaches one host.

    Attributes:
        destination: the host, as `ssh` knows it.
        control: the socket of the connection that all sessions share.
        config: a configuration file in place of the account's own.
        identity: the server's own key, on hosts where it reaches the agent alone.
    """

    destination: str
    control: Path
    config: str | None = None
    identity: Path | None = None

    def first_session(self, command: str, *, accept_new: bool = False) -> list[str]:
        """Return the command line of the session that makes the connection, which others then share."""
        return self._words(["ControlMaster=yes", *_checks(accept_new)], command)

    def further_session(self, command: str) -> list[str]:
        """Return the command line of a session through the connection. It never makes a connection of its own."""
        return self._words(["ControlMaster=no", "ProxyCommand=false"], command)

    def single_session(self, command: str, *, accept_new: bool = False, verbose: bool = False) -> list[str]:
        """Return the command line of a session with a connection of its own, with all the account's keys.

        `verbose` adds debugging messages, among them the host's key.
        """
        plain = SshRoute(self.destination, Path("none"), self.config)
        return plain._words([*_checks(accept_new)], command, *(["-v"] if verbose else []))

    def _words(self, options: list[str], command: str, *flags: str) -> list[str]:
        own = [] if self.identity is None else ["-i", str(self.identity), "-o", "IdentitiesOnly=yes"]
        config = [] if self.config is None else ["-F", self.config]
        given = [word for option in (*_ALWAYS, *options) for word in ("-o", option)]
        return ["ssh", *config, *own, *flags, "-T", "-S", str(self.control), *given, "--", self.destination, command]


_ALWAYS = (
    "BatchMode=yes",
    "ForwardAgent=no",
    "ForwardX11=no",
    "ClearAllForwardings=yes",
    "PermitLocalCommand=no",
    "ControlPersist=no",
    "EscapeChar=none",
    "RequestTTY=no",
    f"ConnectTimeout={CONNECT_S:.0f}",
    f"ServerAliveInterval={ALIVE_INTERVAL_S}",
    f"ServerAliveCountMax={ALIVE_MISSED}",
)


def _checks(accept_new: bool) -> tuple[str, ...]:
    return (f"StrictHostKeyChecking={'accept-new' if accept_new else 'yes'}",)


@dataclass(frozen=True, slots=True)
class SshFailure:
    """Why a session ended or could not begin.

    Attributes:
        reason: a sentence without its full stop, for a person.
        by_person: whether a person must change something first.
        unknown_key: whether the host's key is unknown.
        not_installed: whether there is no agent on the host, or none that runs.
        place: the file and line with the old key of a host whose key has changed, for administrators alone.
    """

    reason: str
    by_person: bool = False
    unknown_key: bool = False
    not_installed: bool = False
    place: str | None = None


class SshFailed(BackendFailed):
    """A session did not begin, or was cut off."""

    def __init__(self, failure: SshFailure) -> None:
        super().__init__(failure.reason)
        self.failure = failure


def failure_of(destination: str, status: int | None, messages: str) -> SshFailure:
    """Return why `ssh` ended with this exit status (None: it was ended after its time) and these messages."""
    said = _last_line(messages)
    if "REMOTE HOST IDENTIFICATION HAS CHANGED" in messages:
        found = re.search(r"^(?:Offending|Add correct) .*?(?:key in|in) (\S+:\d+)", messages, re.MULTILINE)
        return SshFailure(
            f"the host key of {destination} has changed; if that was intended, remove the old key: "
            f"ssh-keygen -R {destination}",
            by_person=True,
            place=printable(found[1]) if found else None,
        )
    if "Host key verification failed" in messages:
        return SshFailure(f"the host key of {destination} is unknown", by_person=True, unknown_key=True)
    if "Permission denied" in messages and status == 255:
        asked = re.search(r"Permission denied \(([^)]*)\)", messages)
        ways = f" (it accepts {asked[1]})" if asked else ""
        return SshFailure(
            f"{destination} does not accept the keys of the server's account{ways}; passwords are never asked for: "
            f"add a key there, so that `ssh -o BatchMode=yes {destination} true` works for that account",
            by_person=True,
        )
    if status in (NO_PROGRAM, NOT_EXECUTABLE):
        return SshFailure(f"Corral is not installed on {destination}", by_person=True, not_installed=True)
    if "no agent of Corral answers" in messages:
        return SshFailure(f"on {destination} {said}", not_installed=True)
    if status is None:
        return SshFailure(f"{destination} did not answer in time")
    if status == 255:
        return SshFailure(f"{destination} cannot be reached: {said}" if said else f"{destination} cannot be reached")
    return SshFailure(f"on {destination} the agent cannot be joined: {said or f'exit status {status}'}", by_person=True)


def fingerprint_in(messages: str) -> str | None:
    """Return the type and fingerprint of the host's key in debugging messages of `ssh`."""
    found = re.search(r"Server host key: (\S{1,60} SHA256:\S{1,80})", messages)
    return printable(found[1]) if found else None


def _last_line(messages: str) -> str:
    lines = [line for line in messages.splitlines() if line.strip() and not line.startswith("debug")]
    return printable(lines[-1].strip())[:_LAST_CHARACTERS].rstrip(".") if lines else ""
