"""Known troubles of pods with GPUs and of the software that gives GPUs out, as checks of `corral doctor`.

Pods are those of any scheduler. A pod is judged by what its object says, with the rules of submissions; its image is
not looked at. All of it is untrusted text.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from corral.core.model.devices.device import VirtualLayer
from corral.core.model.devices.means import Means
from corral.core.model.devices.version_labels import VERSION_LABELS
from corral.core.model.units import MILLI_PER_DEVICE, count_of
from corral.core.model.version import dotted
from corral.core.ports.preflight import Finding, Place, Workload
from corral.core.preflight.command_line import read_command
from corral.core.preflight.precision import canonical
from corral.core.preflight.rules import check
from corral.engines.kubernetes.cluster.gpu_resources import gpu_labels, gpu_resources, vendor_of_node
from corral.engines.kubernetes.cluster.node_facts import NodeFacts
from corral.engines.kubernetes.cluster.objects import mapping, sequence, text
from corral.engines.kubernetes.cluster.pod_facts import ENDED
from corral.engines.kubernetes.shares.share_layers import share_layers
from corral.formatting.check_result import OK, WARNING, CheckResult
from corral.untrusted import Unread, guarded
from corral.vendors.registry import vendors
from corral.vendors.vendor import ShareLayer

_WHOLE = 100
"""The units of a resource of parts that are a device."""

_MOST_WORDS = 512
_MOST_CHARS = 4096
_SHOWN = 3


@cache
def _part_layers() -> Mapping[str, ShareLayer]:
    """Return the software whose resource counts hundredths of a node's devices, by that resource."""
    return {layer.core: layer for layer, _ in share_layers() if layer.by_core}


@cache
def _plugin_sets() -> frozenset[str]:
    return frozenset(name for vendor in vendors().values() for name in vendor.kubernetes.plugin_sets)


@dataclass(frozen=True, slots=True)
class GpuProgram:
    """A container with GPUs of a pod that is bound to a node and has not ended.

    Attributes:
        resource: by which it has them.
        amount: of that resource.
        refusal: why the software that gives parts cannot serve it; None if it can.
    """

    pod: str
    node: str
    resource: str
    amount: int
    work: Workload
    refusal: str | None = None


@dataclass(frozen=True, slots=True)
class PluginPod:
    """A pod of a DaemonSet that gives out devices, and why it does not serve; None if it does."""

    pod: str
    node: str
    plugin: str
    trouble: str | None


Kept = GpuProgram | PluginPod


def keep_for_troubles(item: Mapping[str, Any]) -> tuple[Kept, ...] | None:
    """Return what these checks need of a Pod object; None if it is nothing, or cannot be read."""
    found = guarded("a pod", lambda: tuple(_kept(item)))
    return None if isinstance(found, Unread) or not found else found


def _kept(item: Mapping[str, Any]) -> Iterable[Kept]:
    metadata, spec, status = (mapping(item.get(part)) for part in ("metadata", "spec", "status"))
    node, phase = text(spec.get("nodeName")), status.get("phase")
    if node is None or phase in ENDED:
        return
    name = f"{metadata.get('namespace')}/{metadata.get('name')}"
    for owner in sequence(metadata.get("ownerReferences")):
        if owner.get("kind") == "DaemonSet" and str(owner.get("name")) in _plugin_sets():
            yield PluginPod(name, node, str(owner["name"]), _why_not_serving(status))
    for container in sequence(spec.get("containers")):
        limits = mapping(mapping(container.get("resources")).get("limits"))
        for resource in (*gpu_resources(), *_part_layers()):
            amount = str(limits.get(resource, "0"))
            if re.fullmatch(r"[0-9]{1,6}", amount) and int(amount):
                yield _program(name, node, container, resource, int(amount))


def _why_not_serving(status: Mapping[str, Any]) -> str | None:
    for one in sequence(status.get("containerStatuses")):
        if one.get("ready") is not True:
            state = mapping(one.get("state"))
            told = mapping(state.get("waiting")) or mapping(state.get("terminated"))
            return text(told.get("reason")) or "not ready"
    return None if status.get("phase") == "Running" else str(status.get("phase") or "not begun")


def _program(pod: str, node: str, container: Mapping[str, Any], resource: str, amount: int) -> GpuProgram:
    words = [*_words(container.get("command")), *_words(container.get("args"))]
    env = {str(one.get("name")): str(one.get("value") or "")[:_MOST_CHARS] for one in sequence(container.get("env"))}
    line = read_command(words) if words else None
    framework = None if line is None else line.framework
    image = str(container.get("image") or "")[:_MOST_CHARS]
    if framework is None and "paddle" in image.rpartition("/")[2].lower():
        framework = "paddle"
    work = Workload(
        runtime=next((found for vendor in vendors().values() if (found := vendor.kubernetes.runtime(env))), None),
        framework=framework,
        dtype=None if line is None else canonical(line.dtype),
        quantization=None if line is None else canonical(line.quantization),
        allocator=env.get("FLAGS_allocator_strategy"),
    )
    layer = _part_layers().get(resource)
    refusal = None if layer is None or amount >= _WHOLE else layer.env_refusal(env)
    return GpuProgram(pod, node, resource, amount, work, refusal)


def _words(value: object) -> list[str]:
    return [str(word)[:_MOST_CHARS] for word in value[:_MOST_WORDS]] if isinstance(value, list) else []


@dataclass(frozen=True, slots=True)
class Troubles:
    """The pods and nodes that are looked at. `nodes` are those with GPUs or parts of some, by name."""

    nodes: Mapping[str, NodeFacts]
    pods: Sequence[Kept]

    def results(self) -> Mapping[str, Callable[[], CheckResult]]:
        """Return the checks, by what each is about."""
        return {
            "precision": self._precision,
            "runtimes": self._runtimes,
            "allocator": self._allocator,
            "sharing": self._sharing,
            "version labels": self._version_labels,
            "plugins": self._plugins,
        }

    def _precision(self) -> CheckResult:
        return self._by_rules("precision", ("precision", "framework"), "pods compute in formats that their GPUs have")

    def _runtimes(self) -> CheckResult:
        refused = [one for one in self.pods if isinstance(one, GpuProgram) and one.refusal is not None]
        if refused:
            told = "; ".join(f"{one.pod}: {one.refusal}" for one in refused[:_SHOWN])
            advice = f"kubectl -n {refused[0].pod.partition('/')[0]} describe pod {refused[0].pod.partition('/')[2]}"
            return CheckResult("runtimes", WARNING, told + _more(len(refused)), advice)
        rules = ("driver-runtime", "runtime-device")
        return self._by_rules("runtimes", rules, "programs that say their version fit the drivers of their nodes")

    def _allocator(self) -> CheckResult:
        return self._by_rules("allocator", ("paddle-allocator",), "no PaddlePaddle grows its memory on a part of a GPU")

    def _by_rules(self, about: str, rules: Sequence[str], well: str) -> CheckResult:
        found = [
            (program.pod, finding)
            for program in self.pods
            if isinstance(program, GpuProgram) and program.node in self.nodes
            for finding in check(program.work, _place(self.nodes[program.node], program))
            if finding.rule in rules
        ]
        if not found:
            return CheckResult(about, OK, well)
        told = "; ".join(f"{pod}: {finding.what}, {finding.why}" for pod, finding in found[:_SHOWN])
        return CheckResult(about, WARNING, told + _more(len(found)), f"in the pod's template: {found[0][1].fix}")

    def _sharing(self) -> CheckResult:
        """Check whether nodes that offer parts of GPUs have GPUs and drivers that can be shared so."""
        found = []
        for name, node in sorted(self.nodes.items()):
            for resource, layer in _part_layers().items():
                if node.allocatable.others.get(resource):
                    found += [f"{name} offers {resource}: {one.what}; {one.why}" for one in _unfit(node, layer)]
        if not found:
            return CheckResult("sharing", OK, "nodes that offer parts of GPUs can give them")
        advice = "label such nodes for one plugin alone: that of whole GPUs, where the hardware cannot do the other"
        return CheckResult("sharing", WARNING, "; ".join(found[:_SHOWN]) + _more(len(found)), advice)

    def _version_labels(self) -> CheckResult:
        """Check whether the version labels that people write are what the driver runs."""
        wrong = []
        for name, node in sorted(self.nodes.items()):
            written = [node.labels.get(label) for label in VERSION_LABELS[1:]]
            runs = gpu_labels(node).cuda_version
            if runs is not None and any(written) and written != [str(part) for part in runs]:
                said = ".".join(part or "?" for part in written)
                wrong.append((name, f"{name} says {said} and its driver runs {dotted(runs)}", runs))
        if not wrong:
            return CheckResult("version labels", OK, "no label of a version differs from the node's driver")
        name, _, runs = wrong[0]
        labels = " ".join(f"{label}={part}" for label, part in zip(VERSION_LABELS[1:], runs, strict=True))
        told = "; ".join(what for _, what, _ in wrong[:_SHOWN]) + _more(len(wrong))
        advice = f"kubectl label node {name} --overwrite {labels}"
        return CheckResult("version labels", WARNING, f"affinity goes by labels that are wrong: {told}", advice)

    def _plugins(self) -> CheckResult:
        """Check whether the pods that give out GPUs run."""
        plugins = [pod for pod in self.pods if isinstance(pod, PluginPod)]
        broken = [pod for pod in plugins if pod.trouble is not None]
        if not broken:
            named = f"{count_of(len(plugins), 'pod')} of {' and '.join(sorted({pod.plugin for pod in plugins}))} serve"
            return CheckResult("plugins", OK, named if plugins else "no DaemonSet of another plugin gives out GPUs")
        told = "; ".join(f"{one.pod} on {one.node}: {one.trouble}" for one in broken[:_SHOWN]) + _more(len(broken))
        namespace, _, pod = broken[0].pod.partition("/")
        advice = f"kubectl -n {namespace} logs {pod} --previous; kubectl -n {namespace} describe pod {pod}"
        return CheckResult("plugins", WARNING, told, advice)


def _place(node: NodeFacts, program: GpuProgram) -> Place:
    layer = _part_layers().get(program.resource)
    part = _WHOLE if layer is None else min(program.amount, _WHOLE)
    return _place_on(node, None, sliced=False, share_milli=part * MILLI_PER_DEVICE // _WHOLE)


def _unfit(node: NodeFacts, layer: ShareLayer) -> Iterable[Finding]:
    """Why the software cannot give parts of the node's GPUs, by the rules for half of one and an unknown program."""
    slices = vendor_of_node(node).kubernetes.slices
    sliced = gpu_labels(node).profile is not None or any(
        count and slices is not None and resource.startswith(slices)
        for resource, count in node.allocatable.others.items()
    )
    return check(Workload(), _place_on(node, layer, sliced=sliced, share_milli=MILLI_PER_DEVICE // 2))


def _place_on(node: NodeFacts, layer: ShareLayer | None, *, sliced: bool, share_milli: int) -> Place:
    labels = gpu_labels(node)
    return Place(
        labels.product or "its GPU",
        labels.driver_version,
        labels.cuda_version,
        labels.compute,
        None if layer is None or layer.means is not Means.HOOK else VirtualLayer(layer.name, (0, 0)),
        Means.EXCLUSIVE if layer is None else layer.means,
        sliced,
        share_milli=share_milli,
        vendor=vendor_of_node(node).name,
    )


def _more(count: int) -> str:
    return f" and {count - _SHOWN} more" if count > _SHOWN else ""
