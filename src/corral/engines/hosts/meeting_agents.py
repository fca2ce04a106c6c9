"""Agents whose gangs meet at an address that other hosts reach."""

import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from corral.core.ports.node import NodeAgent, Rendezvous
from corral.host.node.agent_calls import CarriedAgent, Method

Address = Callable[[], str | None]
"""Returns the address at which other hosts reach a node; None if only its agent knows."""

_ANY_PORT = 9
_LOOPBACK = "127.0.0.1"


class MeetingAgent(CarriedAgent):
    """Implements `corral.core.ports.node.NodeAgent` through another agent."""

    def __init__(self, agent: NodeAgent, address: Address) -> None:
        super().__init__(self._carry)
        self._agent = agent
        self._address = address

    def close(self) -> None:
        """Close the agent, as far as it is this server's."""
        self._agent.close()

    def _carry(self, method: Method, *values: Any, **named: Any) -> Any:
        found = method.of(self._agent)(*values, **named)
        return self._placed(found) if isinstance(found, Rendezvous) else found

    def _placed(self, meeting: Rendezvous) -> Rendezvous:
        address = self._address()
        return meeting if address is None else replace(meeting, address=address)


class OwnAgent(MeetingAgent):
    """The agent of a node of this machine, which has the address of its loopback until other hosts are joined."""

    def __init__(self, agent: NodeAgent, address: Address) -> None:
        super().__init__(agent, address)
        for part in CarriedAgent.__annotations__:
            if part != "launches":
                setattr(self, part, getattr(agent, part))

    def _placed(self, meeting: Rendezvous) -> Rendezvous:
        return super()._placed(meeting) if meeting.address == _LOOPBACK else meeting


def address_towards(host: str) -> str | None:
    """Return the address of this machine in connections to another host; None without a route. Nothing is sent."""
    with suppress(OSError):
        family, kind, protocol, _, there = socket.getaddrinfo(host, _ANY_PORT, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.connect(there)
            return str(probe.getsockname()[0])
    return None
