"""What is read of the image of a container before it runs: on a node that has it, or in its registry."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class ImageFacts:
    """The part of an image's configuration that preflight reads.

    Attributes:
        variables, labels: those whose names a vendor reads (`corral.vendors.vendor.ImageNames`).
        entrypoint, command: the words that a container runs if its pod names no others.
    """

    variables: Mapping[str, str]
    labels: Mapping[str, str]
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ContainerProgram:
    """The program of a container.

    Attributes:
        image: its name as a registry knows it.
        command, args: as a pod has them; without a command the image's own entry point runs, and without both of them
            also the image's own arguments.
        env: the variables that the container gets besides those of its image, which they replace.
        forced_by: how its owner has it accepted although preflight says that it cannot run, for a message.
    """

    image: str
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    forced_by: str = "--force submits it anyway"


class ImageRegistry(Protocol):
    """Reads images in the registries that the site lists."""

    def lists(self, image: str) -> bool:
        """Return whether the image is in a listed registry."""
        ...

    def facts(self, image: str) -> ImageFacts:
        """Return the facts about an image. It takes a few seconds at most. Raises BackendFailed with the reason if
        they cannot be read.
        """
        ...
