"""Hosts that are joined by SSH: add, list, check and remove them."""

from typing import TYPE_CHECKING
from urllib.parse import quote

from corral.client.connecting.transport import Transport
from corral.client.submitting.arguments import flag, optional, text
from corral.wire import from_answer, to_plain

if TYPE_CHECKING:
    from corral.core.model.devices.joined_host import JoinedHost
    from corral.features.hosts.answers import HostList

_NAME = "'gpu-05'"


class Hosts:
    """Joins hosts by SSH, for administrators. `ssh` runs as the server's account, on the server's machine."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self) -> "HostList":
        """All hosts, by name, with the state of each."""
        from corral.features.hosts.answers import HostList

        return from_answer(HostList, self._transport.get("/hosts"))

    def add(
        self,
        name: str,
        *,
        ssh: str | None = None,
        address: str | None = None,
        mock: str | None = None,
        install: bool = False,
        accept_new: bool = False,
    ) -> "JoinedHost":
        """Begin to join a host. `list` tells what becomes of it.

        `ssh` is its destination, by default its name. `address` is where other hosts reach it, for gangs. `install`
        installs Corral's agent there first. `accept_new` accepts an unknown host key.
        """
        from corral.core.model.devices.joined_host import HostEntry, JoinedHost, JoinOrder

        host = HostEntry(
            text(name, "name", _NAME),
            optional(text, ssh, "ssh", "'admin@gpu-05'"),
            optional(text, address, "address", "'10.0.0.5'"),
            optional(text, mock, "mock", "'/root/mock.toml'"),
        )
        order = JoinOrder(flag(install, "install"), flag(accept_new, "accept_new"))
        return from_answer(
            JoinedHost, self._transport.post("/hosts", {"host": to_plain(host), "order": to_plain(order)})
        )

    def check(self, name: str) -> "JoinedHost":
        """Try to reach a host now."""
        from corral.core.model.devices.joined_host import JoinedHost

        return from_answer(JoinedHost, self._transport.post(_path(name, "check")))

    def upgrade(self, name: str) -> "JoinedHost":
        """Bring a host's agent to the server's version; its jobs run on. `list` tells what becomes of it."""
        from corral.core.model.devices.joined_host import JoinedHost

        return from_answer(JoinedHost, self._transport.post(_path(name, "upgrade")))

    def remove(self, name: str, *, force: bool = False) -> "HostList":
        """Remove a host from the pool. With `force` also while jobs run there, which are then ended."""
        from corral.features.hosts.answers import HostList

        body = {"force": flag(force, "force")}
        return from_answer(HostList, self._transport.post(_path(name, "remove"), body))


def _path(name: str, what: str) -> str:
    return f"/hosts/{quote(text(name, 'name', _NAME), safe='')}/{what}"
