"""The state of the link to one host: a value, and the changes to it. Several threads change it, each in one step."""

import threading
from collections.abc import Callable
from dataclasses import replace

import corral
from corral.core.model.devices.joined_host import HostState, JoinedHost
from corral.core.model.printable import printable
from corral.engines.hosts.ssh import SshFailure

_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 60.0
_MOST_DOUBLINGS = 10
_LONGEST_VERSION = 80


class HostLinkRow:
    """The row of one host. Thread-safe: no change is lost, and readers never wait."""

    def __init__(self, row: JoinedHost) -> None:
        self.value = row
        self._lock = threading.Lock()

    def change(self, change: Callable[[JoinedHost], JoinedHost]) -> None:
        """Replace the row by what `change` makes of it."""
        with self._lock:
            self.value = change(self.value)


def in_state(row: JoinedHost, state: HostState, now: float, reason: str | None = None) -> JoinedHost:
    """Return the row of a host in this state since `now`, or since before if it was in it."""
    return replace(row, state=state, reason=reason, since=row.since if state is row.state else now, step=None)


def of_version(row: JoinedHost, version: object) -> JoinedHost:
    """Return the row with what the agent says of its version."""
    return replace(row, version=printable(version)[:_LONGEST_VERSION]) if isinstance(version, str) else row


def state_after(failure: SshFailure) -> HostState:
    """Return the state of a host that cannot be reached for this reason."""
    return HostState.REFUSED if failure.by_person or failure.not_installed else HostState.UNREACHABLE


def other_version(row: JoinedHost) -> str | None:
    """Return what to do if the agent is of another version of Corral than this server."""
    if row.version is None or row.version == corral.__version__:
        return None
    versions = f"its agent is of version {row.version}, and this server of {corral.__version__}"
    return f"{versions}: corral hosts upgrade {row.name}"


def pause_s(failures: int) -> float:
    """Return the seconds before the next attempt, after so many in succession (1 or more) have failed."""
    return min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2.0 ** min(failures - 1, _MOST_DOUBLINGS))
