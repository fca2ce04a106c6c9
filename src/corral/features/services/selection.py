"""The options by which the node of a model service is chosen: the same in commands, in tuning tasks and in Python."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from corral.core.model.errors import Refused
from corral.wire import from_plain

UTILIZATION_THRESHOLD = 30.0
MEMORY_THRESHOLD = 50.0

MOST_PREFERRED = 100
LONGEST_NAME = 317
"""The longest key of a label of Kubernetes, with its prefix; names of nodes are shorter."""

LONGEST_WINDOW_S = 7 * 86_400.0


class NodeAffinity(StrEnum):
    """Whether Kubernetes should put a service on the chosen node, must, or chooses by itself."""

    PREFERRED = "preferred"
    REQUIRED = "required"
    ANY = "any"


class Fallback(StrEnum):
    """The choice if no node has enough idle GPUs: Kubernetes decides, or the node of lowest utilisation is taken."""

    KUBERNETES = "kubernetes"
    PIN = "pin"


@dataclass(frozen=True, slots=True)
class NodeSelection:
    """How the node of a service is chosen.

    Attributes:
        affinity: "any" chooses no node.
        fallback: the choice if no node has enough idle GPUs.
        utilization_threshold, memory_threshold: percent; a GPU at or over one of them is not idle.
        prefer_nodes: names of nodes that come first, if they have enough idle GPUs.
        prefer_labels: labels of nodes that come first; nodes with more of them come before others.
        whole_nodes_last: whether a service that needs a part of a node goes to one in use rather than to a free one.
        count_hosts: whether the node must also have room for the CPUs, the memory and the pod.
        window_s: the seconds over which the use of a GPU is averaged, by Prometheus; 0 is its last reading.
        prometheus_url: a Prometheus that scrapes dcgm-exporter; None is that of CORRAL_PROMETHEUS_URL, if it is set.
        exec_nvidia_smi: whether nvidia-smi is run in pods whose GPUs have no other readings.
    """

    affinity: NodeAffinity = NodeAffinity.PREFERRED
    fallback: Fallback = Fallback.KUBERNETES
    utilization_threshold: float = UTILIZATION_THRESHOLD
    memory_threshold: float = MEMORY_THRESHOLD
    prefer_nodes: tuple[str, ...] = ()
    prefer_labels: Mapping[str, str] = field(default_factory=dict)
    whole_nodes_last: bool = False
    count_hosts: bool = False
    window_s: float = 0.0
    prometheus_url: str | None = None
    exec_nvidia_smi: bool = False


USUAL = NodeSelection()


def selection_of(options: Mapping[str, Any]) -> NodeSelection:
    """Return the selection with these options, as people write them. Raises Refused with the option's name."""
    given = dict(options)
    if isinstance(given.get("prefer_nodes"), tuple):
        given["prefer_nodes"] = list(given["prefer_nodes"])
    selection = from_plain(NodeSelection, given)
    check_selection(selection)
    return selection


def check_selection(selection: NodeSelection, field: str = "") -> None:
    """Raise Refused for a value out of bounds. `field` is the name of the selection in messages, with a dot."""
    for name in ("prefer_nodes", "prefer_labels"):
        wishes = getattr(selection, name)
        if len(wishes) > MOST_PREFERRED or not all(0 < len(one) <= LONGEST_NAME for one in wishes):
            raise Refused(
                f"{field}{name} are at most {MOST_PREFERRED} names of 1 to {LONGEST_NAME} characters",
                field=f"{field}{name}",
            )
    for name, most in (("utilization_threshold", 100.0), ("memory_threshold", 100.0), ("window_s", LONGEST_WINDOW_S)):
        value = getattr(selection, name)
        if not 0 <= value <= most:
            raise Refused(f"{field}{name} must be from 0 to {most:g}, not {value:g}", field=f"{field}{name}")


def command_words(selection: NodeSelection) -> list[str]:
    """Return the options of `corral deploy` that mean the same selection; [] for the usual one."""
    words: list[str] = []
    for name, flag in _FLAGS.items():
        value = getattr(selection, name)
        if value == getattr(USUAL, name):
            continue
        if value is True:
            words.append(flag)
        elif isinstance(value, Mapping):
            words += [word for key, label in value.items() for word in (flag, f"{key}={label}")]
        elif isinstance(value, tuple):
            words += [word for one in value for word in (flag, one)]
        else:
            unit = "s" if name.endswith("_s") else ""
            words += [flag, f"{value:g}{unit}" if isinstance(value, int | float) else str(value)]
    return words


_FLAGS = {
    "affinity": "--node",
    "fallback": "--fallback",
    "utilization_threshold": "--utilization-threshold",
    "memory_threshold": "--memory-threshold",
    "prefer_nodes": "--prefer-node",
    "prefer_labels": "--prefer",
    "whole_nodes_last": "--whole-nodes-last",
    "count_hosts": "--count-hosts",
    "window_s": "--window",
    "prometheus_url": "--prometheus",
    "exec_nvidia_smi": "--exec-nvidia-smi",
}
