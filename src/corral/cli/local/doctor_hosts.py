"""The findings of `corral doctor` about hosts that are joined by SSH."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import corral
from corral.cli.local.doctor_devices import devices_finding
from corral.client import Client, DeviceRow, NodeRow
from corral.core.model.devices.joined_host import HostState, JoinedHost
from corral.core.model.units import format_duration
from corral.formatting.check_result import OK, WARNING, CheckResult


class _Trouble(NamedTuple):
    found: str
    advice: str


def hosts_findings(client: Client) -> list[CheckResult]:
    """A finding for each host: its connection, its agent's version, clock, GPUs, Docker, and accounts there."""
    hosts = client.hosts.list().hosts
    if not hosts:
        return []
    nodes = {row.name: row for row in client.nodes.list()}
    devices = client.devices.list()
    return [host_finding(one, nodes.get(one.name), [row for row in devices if row.node == one.name]) for one in hosts]


def host_finding(host: JoinedHost, node: NodeRow | None, devices: Sequence[DeviceRow]) -> CheckResult:
    """The finding about one host, whose node has these devices; None if it is no node yet."""
    if host.state is not HostState.READY:
        found = f"{host.name} is {host.state}" + (f": {host.reason}" if host.reason else "")
        return CheckResult("host", WARNING, found, f"then try it again: corral hosts check {host.name}")
    gpus = devices_finding(devices, "")
    docker = "Docker" if node is None or node.no_docker is None else f"no containers ({node.no_docker})"
    good = f"{host.name}: ready by ssh {host.ssh}, version {host.version or 'unknown'}, {gpus.found}, {docker}"
    bad = list(_troubles(host, node))
    if gpus.state != OK:
        bad.append(_Trouble("", gpus.advice))
    found = "; ".join([good, *(one.found for one in bad if one.found)])
    return CheckResult("host", WARNING if bad else OK, found, "; ".join(one.advice for one in bad if one.advice))


def _troubles(host: JoinedHost, node: NodeRow | None) -> Iterator[_Trouble]:
    if host.version not in (None, corral.__version__):
        yield _Trouble(f"this command is {corral.__version__}", f"upgrade it: corral hosts upgrade {host.name}")
    if node is None:
        yield _Trouble("it is no node yet", "")
        return
    if node.state != "ready":
        yield _Trouble(f"its node is {node.state}" + (f" ({node.reason})" if node.reason else ""), "")
    if node.clock_ahead_s:
        way = "ahead of" if node.clock_ahead_s > 0 else "behind"
        yield _Trouble(
            f"its clock is {format_duration(abs(node.clock_ahead_s))} {way} the server's",
            "turn on NTP there: timedatectl set-ntp true",
        )
    for user, why in sorted(node.barred.items()):
        yield _Trouble(f"it cannot run jobs of {user}: {why}", "")
