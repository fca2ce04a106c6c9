"""`corral hosts`: join hosts by SSH, list, check and remove them."""

import sys
import time
from collections.abc import Collection, Iterator

from corral.cli.screen import print_json, room, told, write_lines, write_painted
from corral.cli.tables.text_table import TextTable
from corral.client import Client
from corral.core.model.devices.joined_host import UPGRADE, HostState, JoinedHost
from corral.core.model.errors import BackendFailed, CorralError, Refused
from corral.features.hosts import commands
from corral.formatting.times import clock_time

_LOOK_S = 0.2
_NODES_S = 10.0


def add(given: commands.HostsAddCommand) -> None:
    """Run `corral hosts add`."""
    if given.ssh is not None and len(given.hosts) > 1:
        raise Refused("--ssh is for one host; add the others by commands of their own", field="ssh")
    with Client() as client:
        for name in given.hosts:
            client.hosts.add(
                name,
                ssh=given.ssh,
                address=given.address,
                mock=given.mock,
                install=given.install,
                accept_new=given.accept_new,
            )
        rows = _follow(client, given.hosts, json=given.json)
        _await_nodes(client, [row.name for row in rows if row.state is HostState.READY])
        _shown(rows, json=given.json)


def check(given: commands.HostsCheckCommand) -> None:
    """Run `corral hosts check`."""
    with Client() as client:
        names = given.hosts or [row.name for row in client.hosts.list().hosts]
        for name in names:
            client.hosts.check(name)
        _shown(_follow(client, names, json=given.json), json=given.json)


def hosts(given: commands.HostsCommand) -> None:
    """Run `corral hosts`."""
    _list(json=given.json)


def upgrade(given: commands.HostsUpgradeCommand) -> None:
    """Run `corral hosts upgrade`: one host after the other, so that the others answer, until one fails."""
    with Client() as client:
        names = given.hosts or [row.name for row in client.hosts.list().hosts]
        rows: list[JoinedHost] = []
        for done, name in enumerate(names):
            try:
                client.hosts.upgrade(name)
                (row,) = _follow(client, [name], json=given.json)
                rows.append(row)
                if row.state is not HostState.READY or (row.reason or "").startswith(f"{UPGRADE}: "):
                    raise BackendFailed(f"host {name} could not be upgraded")
            except CorralError as error:
                if not (rest := names[done + 1 :]):
                    raise
                raise BackendFailed(f"{str(error).rstrip('.')}; not upgraded either: {', '.join(rest)}") from None
    if given.json:
        print_json(rows)


def list_hosts(given: commands.HostsListCommand) -> None:
    """Run `corral hosts list`."""
    _list(json=given.json)


def _list(*, json: bool) -> None:
    with Client() as client:
        found = client.hosts.list()
    if json:
        print_json(found)
    else:
        write_painted(*host_lines(found.hosts))


def remove(given: commands.HostsRemoveCommand) -> None:
    """Run `corral hosts remove`."""
    with Client() as client:
        for name in given.hosts:
            client.hosts.remove(name, force=given.force)
            write_lines(f"{name} has left the pool")


def host_lines(rows: Collection[JoinedHost]) -> Iterator[str]:
    """The table of hosts, with the reason of each that is not ready below it."""
    if not rows:
        yield "No host is joined by SSH. Join one: corral hosts add HOST --install"
        return
    table = TextTable(("HOST", "STATE", "SINCE", "SSH", "ADDRESS", "VERSION"))
    for row in rows:
        since = "" if row.since is None else clock_time(row.since)
        table.add(row.name, row.state.value, since, row.ssh, row.address or "", row.version or "")
    yield from table.lines()
    for row in rows:
        if row.reason is not None:
            yield from told(_of_host(row.name, row.reason), room())


def _follow(client: Client, names: Collection[str], *, json: bool) -> list[JoinedHost]:
    """Show what becomes of these hosts, until nothing is being done there. Return their rows then."""
    shown: dict[str, str] = {}
    settled: dict[str, JoinedHost] = {}
    while True:
        found = [row for row in client.hosts.list().hosts if row.name in names]
        for row in found:
            word = _progress(row)
            if not json and row.name not in settled and shown.get(row.name) != word:
                shown[row.name] = word
                write_lines(*told(_of_host(row.name, word), room()))
                # Whoever reads it through a pipe is to see it while it goes on.
                sys.stdout.flush()
            if _is_settled(row):
                # What fails is tried again, which is not followed.
                settled.setdefault(row.name, row)
        if len(settled) >= len(found):
            break
        time.sleep(_LOOK_S)
    return list(settled.values())


def _await_nodes(client: Client, names: Collection[str]) -> None:
    """Wait a moment until jobs can start on these nodes: what has just come is first compared with the ledger."""
    until = time.monotonic() + _NODES_S
    while time.monotonic() < until and any(row.state == "silent" for row in client.nodes.list() if row.name in names):
        time.sleep(_LOOK_S)


def _shown(rows: Collection[JoinedHost], *, json: bool) -> None:
    """Print the rows as JSON if that was asked for. Raises BackendFailed if a host is not ready."""
    if json:
        print_json(rows)
    failed = [row.name for row in rows if row.state is not HostState.READY]
    if failed:
        raise BackendFailed(
            f"not ready: {', '.join(failed)}. The server tries again by itself; to give up: corral hosts remove "
            f"{' '.join(failed)}"
        )


def _of_host(name: str, said: str) -> str:
    """What is said of a host, with its name once."""
    return said if said.startswith((f"{name}: ", f"{name} ")) else f"{name}: {said}"


def _is_settled(row: JoinedHost) -> bool:
    return row.state is not HostState.CONNECTING and row.step is None


def _progress(row: JoinedHost) -> str:
    if not _is_settled(row):
        return row.step or "connecting"
    return "ready" if row.reason is None else row.reason
