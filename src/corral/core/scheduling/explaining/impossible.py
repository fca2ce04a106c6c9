"""Explains why no node could ever serve a request, and the most that may be requested instead."""

from collections.abc import Sequence
from dataclasses import replace

from corral.core.model.audience import Audience
from corral.core.model.devices.device import FIRST_VENDOR, Device
from corral.core.model.devices.means import Means
from corral.core.model.devices.model_and_profile_match import model_matches, profile_matches
from corral.core.model.errors import Refused, nearest
from corral.core.model.jobs.job import Request
from corral.core.model.jobs.submission import Submission
from corral.core.model.placing.allocation import Placement
from corral.core.model.placing.fit import LEAST_MPS_MILLI
from corral.core.model.placing.placement_rules import allows
from corral.core.model.units import MILLI_PER_DEVICE, count_of, format_memory, format_share, slot_milli
from corral.core.model.version import dotted, version_tuple
from corral.core.model.view import View
from corral.core.scheduling.explaining.phrases import (
    count_of_cpus,
    flags_of,
    nodes_called,
    selectors_called,
    short_model,
)
from corral.core.scheduling.explaining.power_lack import power_lack
from corral.core.scheduling.explaining.suggestions import smaller_requests
from corral.core.scheduling.placing.eligible_nodes import emptied
from corral.core.scheduling.placing.node_by_node import choose, fits, speed_on
from corral.core.scheduling.state.draft import Draft, PlacementRequest


def impossible(
    view: View,
    request: Request,
    speeds: tuple[tuple[str, float], ...] = (),
    closed_pools: tuple[str, ...] = (),
    *,
    audience: Audience = Audience.COMMAND_LINE,
) -> str | None:
    """A sentence on why no node could ever serve the request, with the most that it may ask for; None if one could.

    `speeds` are the speeds of the job, as in `JobSpec`. `closed_pools` are the pools that the job never gets.
    While the inventory is incomplete (a driver is down, a node has not answered yet) the result is None.
    """
    if not view.nodes or not view.silences.keys() <= view.nodes.keys():
        return None
    unknown = _unknown_device(view, request)
    if unknown is not None:
        return unknown
    if request.tells_nodes_apart:
        allowed = {name: node for name, node in view.nodes.items() if request.allows_node(name)}
        if not allowed:
            return _no_node_left(view, request)
        view = replace(view, nodes=allowed)
    empty, request = emptied(view), replace(request.without_neighbours(), avoided=())
    answer = choose(empty, PlacementRequest(request))
    if isinstance(answer, Placement):
        wanted = PlacementRequest(request, speeds=speeds)
        apart = replace(wanted, closed_pools=closed_pools)
        return _too_slow(view, empty, wanted) or _set_apart(empty, apart, audience)
    member = replace(request, gang_size=1)
    if request.gang_size > 1 and fits(empty, PlacementRequest(member)):
        if request.spread and request.gang_size > len(view.nodes):
            return _too_few_nodes(view, empty, request, audience)
        most = _largest_gang(empty, request)
        return f"all nodes together can hold {most} such members at once; ask for {most} at most"
    return _lacking(view, empty, member, audience)


def refuse_impossible(view: View, submission: Submission, closed_pools: tuple[str, ...] = ()) -> None:
    """Raise Refused if no node could ever serve the submission; the message names the most that it may ask for.

    `closed_pools` are the pools that the job never gets.
    """
    never = impossible(view, submission.request, submission.speeds, closed_pools)
    if never is not None:
        raise Refused(never, field="request")


def _too_slow(view: View, empty: Draft, wanted: PlacementRequest) -> str | None:
    """The message if only devices on which the job does not run could serve the request; None if other devices can."""
    if not wanted.speeds or fits(empty, wanted):
        return None
    models = {device.model for node in view.nodes.values() for device in node.devices}
    able = [short_model(model) for model in sorted(models) if speed_on(wanted.speeds, model) > 0]
    runs = f"of those here it runs on {', '.join(able)} alone" if able else "it runs on no model that is here"
    return f"no node has enough GPUs on which the job runs: by --speed, {runs}; ask for fewer, or drop a speed of 0"


def _set_apart(empty: Draft, wanted: PlacementRequest, audience: Audience) -> str | None:
    """The message if only devices of closed pools could serve the request; None if other devices can."""
    if not wanted.closed_pools or fits(empty, wanted):
        return None
    smaller = (replace(wanted, request=request) for request in smaller_requests(wanted.request))
    fewer = next((each.request for each in smaller if fits(empty, each)), None)
    most = f"the most you can ask for is {flags_of(fewer, wanted.request, audience)}" if fewer else "ask their owners"
    closed = wanted.closed_pools
    apart = f"pools {' and '.join(closed)}, which are" if len(closed) > 1 else f"pool {closed[0]}, which is"
    return f"too few GPUs are left beside {apart} set apart for others; {most}"


def _too_few_nodes(view: View, empty: Draft, request: Request, audience: Audience) -> str:
    """The message for a gang that wants each member on a node of its own and has more members than there are nodes."""
    on_one = replace(request, gang_size=1, spread=False, devices=request.gang_size * request.devices)
    nodes = f"{len(view.nodes)} nodes are" if len(view.nodes) > 1 else "one node is"
    instead = f"the most you can ask for is {count_of(len(view.nodes), 'node')}"
    if fits(empty, PlacementRequest(on_one)):
        instead = f"ask for one node and {flags_of(on_one, audience=audience)}"
    return f"{request.gang_size} nodes are asked for, a member of the gang on each, and {nodes} here; {instead}"


def _largest_gang(empty: Draft, request: Request) -> int:
    size = request.gang_size - 1
    while size > 1 and not fits(empty, PlacementRequest(replace(request, gang_size=size))):
        size -= 1
    return size


def _unknown_device(view: View, request: Request) -> str | None:
    known = {device.uuid for node in view.nodes.values() for device in node.devices}
    for uuid in request.device_uuids:
        if uuid not in known:
            return f"no GPU here has the UUID {uuid}; {nearest(uuid, known) or 'there is none at all'}"
    if request.device_uuids and request.split_milli is None and len(request.device_uuids) != request.devices:
        named = count_of(len(request.device_uuids), "GPU")
        return f"{named} named but {request.devices} asked for; the numbers must agree"
    return None


def _no_node_left(view: View, request: Request) -> str:
    """The message if the nodes that the request names or excludes leave no node."""
    unknown = [name for name in request.named_nodes if name not in view.nodes]
    if unknown:
        return f"there is no node {unknown[0]} here; {nearest(unknown[0], view.nodes)}"
    excluded = nodes_called([name for name in sorted(view.nodes) if name in request.excluded_nodes])
    if request.named_nodes:
        return f"all nodes that it names are excluded: {excluded}; leave one of them out of the excluded nodes"
    return f"all nodes here are excluded: {excluded}; exclude fewer"


def _lacking(view: View, empty: Draft, request: Request, audience: Audience) -> str:
    """The part that no node can serve of a request without a gang. Simple parts are checked first."""
    nodes = [view.nodes[name] for name in sorted(view.nodes)]
    here = "this machine" if len(nodes) == 1 else "the largest node"
    if len(request.named_nodes) == 1:
        here = f"node {request.named_nodes[0]}"
    most = max(len(node.devices) for node in nodes)
    if request.devices > most:
        if most == 0 and audience is not Audience.COMMAND_LINE:
            return f"{here} has no GPU that Corral can see, as {audience.look('corral doctor')} shows"
        if most == 0:
            return (
                f"{here} has no GPU that Corral can see; `corral doctor` shows why. With --gpus 0 a job needs "
                "none, and `corral up --mock` serves mock GPUs"
            )
        gpus = count_of(most, "GPU")
        return f"{here} has {gpus}; the most you can ask for is {gpus}" + (" on one node" if len(nodes) > 1 else "")
    for words in (_host_lack(view, request), _node_lack(view, request), _device_lack(view, request)):
        if words is not None:
            return words
    for count in range(request.devices - 1, 0, -1):
        if fits(empty, PlacementRequest(replace(request, devices=count))):
            return f"no node has {request.devices} such GPUs; the most you can ask for is {count} of them on one node"
    if request.split_milli is not None and not request.may_fragment:
        wanted = format_share(request.split_milli)
        return (
            f"{wanted} GPUs need parts of several GPUs, which its may_fragment or the site's split_fragments "
            "forbids; ask for --gpus 1 or less, or for whole GPUs"
        )
    return "no node has all of this together; ask for less, or leave out a condition"


def _host_lack(view: View, request: Request) -> str | None:
    lacks = (
        (request.cpu_milli, max(node.cpu_milli for node in view.nodes.values()), count_of_cpus, ""),
        (request.host_memory_mib, max(node.memory_mib for node in view.nodes.values()), format_memory, " of memory"),
        (request.disk_mib, max(node.disk_mib for node in view.nodes.values()), format_memory, " of disk"),
    )
    for wanted, most, in_words, kind in lacks:
        if wanted > most:
            return f"no node has {in_words(wanted)}{kind}; the most you can ask for is {in_words(most)}"
    return None


def _node_lack(view: View, request: Request) -> str | None:
    labels = {label for node in view.nodes.values() for label in node.labels}
    for key, value in request.labels:
        if (key, value) not in labels:
            others = sorted(v for k, v in labels if k == key)
            known = nearest(key, {k for k, _ in labels}) or "no node has labels"
            there = f"{key} is one of {', '.join(others)}" if others else known
            return f"no node has the label {key}={value}; {there}"
    if request.rules is not None and not any(
        allows(request.rules, node.labels, name) for name, node in view.nodes.items()
    ):
        return f"no node has the labels that its node affinity asks for: {selectors_called(request.rules.nodes)}"
    if request.min_driver is not None:
        drivers = [version_tuple(node.driver_version) or () for node in view.nodes.values()]
        if max(drivers) < request.min_driver:
            return f"no node has driver {_dotted(request.min_driver)} or newer; the newest is {_dotted(max(drivers))}"
    if request.min_cuda is not None:
        cudas = [node.cuda_version or () for node in view.nodes.values()]
        if max(cudas) < request.min_cuda:
            return f"no node has CUDA {_dotted(request.min_cuda)} or newer; the newest is {_dotted(max(cudas))}"
    return None


def _device_lack(view: View, request: Request) -> str | None:
    devices = [device for name in sorted(view.nodes) for device in view.nodes[name].devices]
    if not devices:
        return None
    vendor = request.vendor or FIRST_VENDOR
    makers = sorted({device.vendor for device in devices})
    if vendor not in makers:
        return (
            f"the job needs GPUs made by {vendor}, and all GPUs here are made by {' and '.join(makers)}; ask "
            "for a maker that is here"
        )
    devices = [device for device in devices if device.vendor == vendor]
    if not any(model_matches(request.models, device.model) for device in devices):
        counts: dict[str, int] = {}
        for device in devices:
            counts[short_model(device.model)] = counts.get(short_model(device.model), 0) + 1
        there = ", ".join(f"{model} ({count})" for model, count in sorted(counts.items()))
        return f"no GPU here is of model {' or '.join(request.models)}; there are: {there}"
    able = [device for device in devices if _is_meant(request, device)]
    if not able:
        return f"no named GPU is of model {' or '.join(request.models)}; remove the GPUs or the model"
    nodes = [view.nodes[name].devices for name in sorted(view.nodes)]
    meant = [[device for device in node if _is_meant(request, device)] for node in nodes]
    unshared = _resource_lack(view, able, request) or sharing_lack(meant, request)
    if unshared is not None:
        return unshared
    none = _none_of(request)
    memory = max(device.memory_mib or 0 for device in able)
    least = max(request.min_memory_mib or 0, request.memory_mib or 0)
    if least > memory:
        wanted, most = format_memory(least), format_memory(memory)
        if wanted == most:
            wanted, most = f"{least}M", f"{memory}M"
        return f"{none} has {wanted} of memory; the most you can ask for is {most}"
    compute: tuple[int, ...] = max(device.compute_capability or () for device in able)
    if request.min_compute is not None and compute < request.min_compute:
        return (
            f"{none} has compute capability {_dotted(request.min_compute)} or higher; the highest is {_dotted(compute)}"
        )
    unlimited = power_lack(able, request, none)
    if unlimited is not None:
        return unlimited
    if request.share_milli > MILLI_PER_DEVICE:
        return "a share is at most the whole GPU, 1"
    return None


def _resource_lack(view: View, devices: Sequence[Device], request: Request) -> str | None:
    if request.offered_as is None or any(request.offered_as in device.offered_as for device in devices):
        return None
    offered = sorted({name for device in devices for name in device.offered_as})
    there = f"its GPUs are given by {' and '.join(offered)}" if offered else "its GPUs are given by no resource"
    kept = [f"; node {name}: {why}" for name in sorted(view.nodes) if (why := view.nodes[name].kept_to) is not None]
    more = f", and {len(kept) - 1} more like it" if len(kept) > 1 else ""
    return f"no node of this cluster gives GPUs by {request.offered_as}; {there}{''.join(kept[:1])}{more}"


def _is_meant(request: Request, device: Device) -> bool:
    named = not request.device_uuids or device.uuid in request.device_uuids
    made = device.vendor == (request.vendor or FIRST_VENDOR)
    return made and named and model_matches(request.models, device.model)


def _none_of(request: Request) -> str:
    """The subject of a sentence on the devices that the request allows: "no GPU here", "no GPU of model A100 here"."""
    if request.device_uuids:
        return "none of the GPUs that are named"
    return f"no GPU of model {' or '.join(request.models)} here" if request.models else "no GPU here"


def _dotted(version: tuple[int, ...]) -> str:
    return dotted(version) or "unknown"


def sharing_lack(nodes: Sequence[Sequence[Device]], request: Request) -> str | None:
    """A sentence if the way in which the devices are shared rules the request out; None otherwise.

    `nodes` has the devices of each node that are of the models and UUIDs that the request names.
    """
    devices = [device for node in nodes for device in node]
    such = "such GPU" if request.models or request.device_uuids else "GPU here"
    if request.mig_profile is not None:
        return _slice_lack(devices, request.mig_profile)
    plain = [device for device in devices if device.mig_profile is None]
    if not plain:
        return f"a MIG slice is asked for by its profile: {_slices(devices)}" if devices else None
    if all(device.mig_enabled or device.means is Means.MIG for device in plain):
        by_mps = "MPS does not run on a MIG device, and " if request.means is Means.MPS else ""
        return f"{by_mps}every {such} is cut into MIG slices; ask for one of those: {_slices(devices)}"
    if request.means not in (None, Means.EXCLUSIVE) and all(device.means is not request.means for device in plain):
        means = sorted({device.means.value for device in plain})
        return f"--share: no {such} is shared by {request.means}; they are: {', '.join(means)}"
    if request.means is Means.EXCLUSIVE and all(device.replica for device in plain):
        return f"--share: the cluster shares every {such} among several jobs, so no job gets one alone"
    if request.whole:
        return None
    if all(device.means in (Means.EXCLUSIVE, Means.MIG) or device.replica for device in plain):
        return f"every {such} is allocated whole; ask for --gpus 1 or more"
    too_small = not request.share_of_memory and request.share_milli < LEAST_MPS_MILLI
    if too_small and all(device.means is Means.MPS for device in plain if request.means in (None, device.means)):
        return f"a share of a GPU on MPS is at least {format_share(LEAST_MPS_MILLI)}; ask for that"
    slots = [device.clients.slots for device in plain if device.means is Means.MPS]
    if len(slots) == len(plain) and (fewest := min((one or 1 for one in slots), default=1)) > 1:
        most = format_share(slot_milli(fewest))
        return f"an equal slot of a GPU on MPS is {most} of it with 1/{fewest} of its memory; ask for no more, or for 1"
    return _split_lack(nodes, request.split_milli or 0)


def _slice_lack(devices: Sequence[Device], wanted: str) -> str | None:
    offered = [device.mig_profile for device in devices if device.mig_profile is not None]
    if any(profile_matches(wanted, profile) for profile in offered):
        return None
    there = f"they offer {', '.join(sorted(set(offered)))}" if offered else "no device is sliced (see `corral mig`)"
    return f"--mig: no device has a slice {wanted}; {there}"


def _slices(devices: Sequence[Device]) -> str:
    profiles = {device.mig_profile for device in devices if device.mig_profile is not None}
    profiles |= {partition.profile for device in devices for partition in device.partitions}
    return ", ".join(f"--mig {profile}" for profile in sorted(profiles)) or "there is none yet"


def _split_lack(nodes: Sequence[Sequence[Device]], split_milli: int) -> str | None:
    """A sentence if no node has enough splittable devices for a share above 1; None otherwise."""
    if split_milli <= MILLI_PER_DEVICE:
        return None
    plain = [[device for device in node if device.mig_profile is None] for node in nodes]
    most = max(sum(device.means is Means.TIMESLICE for device in node) for node in plain)
    if split_milli <= most * MILLI_PER_DEVICE:
        return None
    if any(device.means is not Means.TIMESLICE for node in plain for device in node):
        shared = f"only GPUs shared by timeslice are split: {count_of(most, 'GPU')}"
        gpus = count_of(max(1, most), "GPU")
        return f"no node has so much to split ({shared}); the most you can ask for is {gpus}, or whole ones"
    return f"no node has so much; the most you can ask for is {count_of(most, 'GPU')} on one node"
