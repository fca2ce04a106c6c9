"""Hosts that are joined to the server of another host by SSH: how each is reached, and the state of its link."""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from corral.core.model.errors import Refused
from corral.core.model.field import Field

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", re.ASCII)
_DESTINATION = re.compile(r"(?!-)[A-Za-z0-9_.@:%\[\]+-]{1,255}", re.ASCII)
_ADDRESS = re.compile(r"[A-Za-z0-9][A-Za-z0-9.:%_-]{0,254}", re.ASCII)


@dataclass(frozen=True, slots=True)
class HostEntry:
    """One host of a site.

    Attributes:
        name: the name of its node.
        ssh: the destination, as the `ssh` of the server's account knows it; None is the name.
        address: the address at which other hosts reach it, for gangs; None is the address that SSH reached.
        mock: a file on that host with mock devices, in place of its own.
    """

    name: str
    ssh: str | None = None
    address: str | None = None
    mock: Annotated[str | None, Field(longest=4096)] = None

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            why = f"{self.name!r:.80} cannot be the name of a node: use letters, digits and . _ -"
            raise Refused(why, field="name")
        if self.ssh is not None and not _DESTINATION.fullmatch(self.ssh):
            raise Refused(f"{self.ssh!r:.80} is no destination of ssh, such as gpu-05 or admin@gpu-05", field="ssh")
        if self.address is not None and not _ADDRESS.fullmatch(self.address):
            raise Refused(f"{self.address!r:.80} is no address of a host, such as 10.0.0.5", field="address")

    @property
    def destination(self) -> str:
        """The destination for `ssh`."""
        return self.ssh or self.name


@dataclass(frozen=True, slots=True)
class JoinOrder:
    """How a host is to be joined.

    Attributes:
        install: install Corral's agent there first, and let the server's own key reach nothing but the agent.
        accept_new: accept an unknown host key.
    """

    install: bool = False
    accept_new: bool = False


class HostState(StrEnum):
    """The state of the link to a host.

    CONNECTING: it is being reached, or Corral is being installed there. READY: its agent answers. UNREACHABLE: it does
    not answer, and is tried again. REFUSED: something there or here must be changed by a person; it is tried again.
    """

    CONNECTING = "connecting"
    READY = "ready"
    UNREACHABLE = "unreachable"
    REFUSED = "refused"


UPGRADE = "upgrade"
"""Stands before the steps of an upgrade, and before why it failed."""


@dataclass(frozen=True, slots=True)
class JoinedHost:
    """One host as `hosts list` shows it.

    Attributes:
        ssh: its destination for `ssh`.
        address: the address at which other hosts reach it; None while it is unknown.
        state: connecting, ready, unreachable or refused.
        since: since when, in the server's time.
        reason: the reason for that state, for a person; None for a ready host.
        step: what is being done now, for a person; None if nothing is.
        version: the version of Corral there; None while it is unknown.
        from_settings: it is listed in the settings, which also remove it.
    """

    name: str
    ssh: str
    address: str | None = None
    state: HostState = HostState.CONNECTING
    since: float | None = None
    reason: str | None = None
    step: str | None = None
    version: str | None = None
    from_settings: bool = False
