"""Read the hosts that a server joins by SSH."""

from pathlib import Path
from typing import TYPE_CHECKING

from corral.config.groups import line_of, lines_of, read_group
from corral.config.keys import keys_of
from corral.config.mistakes import Placed
from corral.core.model.devices.joined_host import HostEntry
from corral.core.model.errors import Refused

if TYPE_CHECKING:
    from yaml.nodes import Node

_EXAMPLE = "such as `[gpu-05, {name: gpu-06, ssh: admin@10.0.0.6}]`"


def read_hosts(path: Path, node: "Node") -> tuple[HostEntry, ...]:
    """Read the list of hosts: the name of each, or a group. Raises Refused, with file and line, for an invalid host."""
    from yaml.nodes import MappingNode, ScalarNode, SequenceNode

    if not isinstance(node, SequenceNode):
        raise Refused(f"write a list of hosts, {_EXAMPLE}")
    hosts: list[HostEntry] = []
    for each in node.value:
        place = f"{path}, {line_of(each)}: hosts"
        if isinstance(each, MappingNode):
            said = read_group(path, lines_of(each), _KEYS, "hosts.").values
        elif isinstance(each, ScalarNode):
            said = {"name": str(each.value)}
        else:
            raise Placed(f"{place}: write each host as a name or a group, {_EXAMPLE}", field="hosts")
        if "name" not in said:
            raise Placed(f"{place}: name is missing; write the name of the host's node, {_EXAMPLE}", field="hosts")
        try:
            host = HostEntry(**said)
        except Refused as refused:
            raise Placed(f"{place}: {refused}", field="hosts") from None
        if any(host.name == other.name for other in hosts):
            raise Placed(f"{place}: host {host.name} is listed twice; remove one", field="hosts")
        hosts.append(host)
    return tuple(hosts)


_KEYS = keys_of(HostEntry)
