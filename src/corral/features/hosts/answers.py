"""Answers about hosts that are joined by SSH."""

from dataclasses import dataclass

from corral.core.model.devices.joined_host import JoinedHost


@dataclass(frozen=True, slots=True)
class HostList:
    """The hosts that are joined by SSH, by name."""

    hosts: tuple[JoinedHost, ...] = ()
