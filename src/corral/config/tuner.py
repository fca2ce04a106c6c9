"""Read the site's settings of the autotuner: the place of models, and images and health checks of inference servers."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from corral.config.groups import Key, NodeReader, lines_of, one, read_group
from corral.config.keys import keys_of
from corral.config.readers import Reader, absolute_path, text
from corral.core.model.errors import Refused
from corral.core.model.jobs.container import Container, check_container

if TYPE_CHECKING:
    from yaml.nodes import Node, ScalarNode


@dataclass(frozen=True, slots=True)
class TunerSettings:
    """The parts of inference servers that differ from site to site.

    Attributes:
        model_root: the directory of models that a task names by a single word.
        images: container images by engine, in place of those in the engines' files.
        health_paths: by engine, or by runtime of a cluster, the path that answers 200 once requests are served.
    """

    model_root: str = "/mnt/data/models"
    images: tuple[tuple[str, str], ...] = ()
    health_paths: tuple[tuple[str, str], ...] = ()


def read_tuner(path: Path, node: "Node") -> TunerSettings:
    """Read the group `tuner`. Raises Refused with file and line."""
    return TunerSettings(**read_group(path, lines_of(node), _KEYS, "tuner.").values)


def _by_name(read: Reader, group: str) -> NodeReader:
    """A reader of lines of NAME: VALUE, sorted by name."""

    def read_all(path: Path, node: "Node") -> tuple[tuple[str, str], ...]:
        lines = lines_of(node)
        keys = {str(key.value): Key(str(key.value), one(read)) for key, _ in lines.value}
        return tuple(sorted(read_group(path, lines, keys, f"tuner.{group}.").values.items()))

    return read_all


def _image(node: "ScalarNode") -> str:
    image = text(node)
    check_container(Container(image))
    return image


def _url_path(node: "ScalarNode") -> str:
    path = text(node)
    if not (path.startswith("/") and path.isascii() and path.isprintable() and " " not in path):
        raise Refused(f"{path!r:.100} is not the path of a URL; write one such as /health")
    return path


_KEYS = keys_of(
    TunerSettings,
    model_root=one(absolute_path),
    images=_by_name(_image, "images"),
    health_paths=_by_name(_url_path, "health_paths"),
)
