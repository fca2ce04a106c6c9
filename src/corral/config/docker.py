"""Read the site's rules for containers of jobs, for hosts that run them with Docker."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from corral.config.groups import lines_of, read_group, several
from corral.config.keys import keys_of
from corral.config.readers import absolute_path
from corral.core.model.field import Field

if TYPE_CHECKING:
    from yaml.nodes import Node


@dataclass(frozen=True, slots=True)
class DockerSettings:
    """The options that jobs may ask for.

    Attributes:
        host_paths: directories of the hosts that jobs may mount as volumes, with everything below them.
        networks: Docker networks that jobs may name; `host` is the host's own.
        any_user: jobs may run as any user within their containers, including root.
        max_processes: the most processes and threads in a container.
    """

    host_paths: tuple[str, ...] = ()
    networks: tuple[str, ...] = ("bridge", "none")
    any_user: bool = False
    max_processes: Annotated[int, Field(least=16, most=4_194_304)] = 16384


def read_docker(path: Path, node: "Node") -> DockerSettings:
    """Read the group `docker`. Raises Refused with file and line."""
    return DockerSettings(**read_group(path, lines_of(node), _KEYS, "docker.").values)


_KEYS = keys_of(DockerSettings, host_paths=several(absolute_path))
