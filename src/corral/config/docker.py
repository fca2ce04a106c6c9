"""Reads what a site lets jobs' containers be, where its hosts run them with Docker."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from corral.config.groups import Key, lines_of, one, read_group, several
from corral.config.readers import absolute_path, integer, text, yes_or_no

if TYPE_CHECKING:
    from yaml.nodes import Node


@dataclass(frozen=True, slots=True)
class DockerSettings:
    """What jobs may ask for.

    Attributes:
        host_paths: directories of the hosts that they may see as volumes, with all that is below them.
        networks: Docker's networks that they may name; `host` is the host's own.
        any_user: they may be whom they like within their containers, root included.
        max_processes: so many processes and threads a container may have.
    """

    host_paths: tuple[str, ...] = ()
    networks: tuple[str, ...] = ("bridge", "none")
    any_user: bool = False
    max_processes: int = 16384


def read_docker(path: Path, node: "Node") -> DockerSettings:
    """The group `docker`. Raises Refused with file and line."""
    return DockerSettings(**read_group(path, lines_of(node), _KEYS, "docker.").values)


_KEYS = {
    "host_paths": Key("host_paths", several(absolute_path)),
    "networks": Key("networks", several(text)),
    "any_user": Key("any_user", one(yes_or_no)),
    "max_processes": Key("max_processes", one(integer(16, 4_194_304))),
}
