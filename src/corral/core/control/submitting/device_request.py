"""Completes the request of a submission: other systems' resource names, the vendor, the site's rules for shares."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from corral.config import Settings
from corral.core.control.submitting.containers import NO_MPS, beside_mps, with_container
from corral.core.model.answers.site import ResourceNameRow
from corral.core.model.devices.device import FIRST_VENDOR, Device, Node
from corral.core.model.devices.means import Means
from corral.core.model.devices.model_and_profile_match import model_matches, profile_matches
from corral.core.model.errors import Refused, nearest
from corral.core.model.home import Home
from corral.core.model.jobs.job import JobKind, Request
from corral.core.model.jobs.requested_devices import Ask
from corral.core.model.jobs.submission import Submission
from corral.core.model.placing.split import Strategy
from corral.core.model.view import View
from corral.core.ports.containers import Containers
from corral.core.sharing.definitions import Catalogue, NamesInForce, load_catalogue, own_catalogue
from corral.core.sharing.resources import to_ask
from corral.vendors.registry import vendors

_ASKED = ("devices", "share_milli", "split_milli", "memory_mib", "memory_percent", "cores_percent", "mig_profile")
"""Fields of a request that resource names also set."""


@dataclass(frozen=True, slots=True)
class RequestRules:
    """The site's rules for completing requests.

    Attributes:
        catalogue: the known resource names; None means the names that come with Corral.
        split, may_fragment: how a share without room on any single device is split over several, and whether it may be
            split into parts. A request may choose how to split, and refuse to be split into parts. By default, shares
            by other systems' names are split evenly, as their users expect, and other shares fill devices.
        min_compute: the minimum compute capability of devices that jobs may use; None for any. With a minimum, a device
            whose capability is unknown is not used.
        default_vendor: the vendor of requests that name none; None if the site has no default.
        names: the known resource names, if they may change; else None, and `catalogue` counts.
        containers: the rules for the containers of jobs; None if jobs are processes.
    """

    catalogue: Catalogue | None = None
    split: Strategy | None = None
    may_fragment: bool = True
    min_compute: tuple[int, int] | None = None
    containers: Containers | None = None
    default_vendor: str | None = None
    names: NamesInForce | None = None

    def settle(
        self, submission: Submission, user: str, nodes: Iterable[Node] = ()
    ) -> tuple[Submission, tuple[str, ...]]:
        """Return the submission with a complete request, and notes for the user about rounded amounts. `nodes` are the
        site's.

        Raises Refused for invalid resource names and amounts, for devices requested in two ways, and for requests that
        cannot run here.
        """
        meant = with_vendor(submission.request, submission.resources, nodes, self.default_vendor)
        asked = submission if meant is submission.request else replace(submission, request=meant)
        submission = with_container(asked, self.containers)
        request = submission.request
        notes: tuple[str, ...] = ()
        if submission.resources:
            named = self._of_resources(submission)
            request, notes = named.request(request), named.notes
        if request.split_milli is not None:
            usual = Strategy.EVENLY if submission.resources else Strategy.FILL
            request = replace(
                request,
                split=request.split or self.split or usual,
                may_fragment=request.may_fragment and self.may_fragment,
            )
        elif request.split is not None:
            request = replace(request, split=None)
        if self.min_compute is not None and request.devices:
            least = max(self.min_compute, request.min_compute or (0, 0))
            request = replace(request, min_compute=least, site_min_compute=self.min_compute)
        if self.containers is not None and self.containers.every_job and submission.packable:
            raise Refused("packable: pods do not share a GPU in this way; remove --packable", field="packable")
        if self._without_mps(submission):
            request = beside_mps(request, packable=submission.packable)
        if submission.kind is not JobKind.RUN and request.devices and not request.whole:
            request = _reserved(request)
        tenant = user if request.devices and not request.whole else None
        _refuse_fields_of_scheduler(request)
        if request.tenant != tenant or request.avoided:
            request = replace(request, tenant=tenant, avoided=())
        if request.power_limit_w is not None and not request.whole:
            raise Refused(
                "power_limit: a power limit is for a whole GPU, and these resource names ask for a part of one",
                field="power_limit_w",
            )
        if request is submission.request and not submission.resources:
            return submission, notes
        return replace(submission, request=request, resources={}), notes

    def resource_names(self) -> tuple[ResourceNameRow, ...]:
        """Return the resource names that submissions may use, in the order of their definitions."""
        return tuple(
            ResourceNameRow(
                one.key,
                one.group,
                integer=one.data_type == "integer",
                default=one.default_value or None,
                required=one.required,
                descriptions=one.descriptions,
                limits=one.limits,
                requests=one.requests,
            )
            for one in self._known().resources.values()
        )

    def _known(self) -> Catalogue:
        return self.catalogue or own_catalogue() if self.names is None else self.names.catalogue

    def explained(self, never: str, submission: Submission, view: View) -> str:
        """Return `never`, the reason why no device can serve a submission, with the rules of this site that exclude
        devices.
        """
        request = submission.request
        devices = [device for node in view.nodes.values() for device in node.devices] if request.devices else []
        least = self.min_compute
        if least is not None and any((device.compute_capability or (0, 0)) < least for device in devices):
            words = f"this site uses no GPU below compute capability {least[0]}.{least[1]}"
            never = f"{never} ({words}: min_compute_capability)"
        by_mps = any(device.means is Means.MPS for device in devices) and not request.whole
        return f"{never} ({NO_MPS})" if by_mps and self._without_mps(submission) else never

    def _without_mps(self, submission: Submission) -> bool:
        return submission.container is not None and self.containers is not None and not self.containers.reach_daemons

    def _of_resources(self, submission: Submission) -> Ask:
        plain = Request()
        for field in _ASKED:
            if getattr(submission.request, field) != getattr(plain, field):
                raise Refused(
                    f"{', '.join(sorted(submission.resources))}: the request already sets {field}; "
                    "use either --resource or the GPU flags",
                    field=field,
                )
        asked = to_ask(submission.resources, catalogue=self._known())
        for field, flag in (("cpu_milli", "--cpus"), ("host_memory_mib", "--host-memory")):
            if getattr(submission.request, field) and getattr(asked, field):
                raise Refused(f"{flag} and a resource name ask for the same; remove one of them", field=field)
        return asked


def site_catalogue(settings: Settings, home: Home) -> Catalogue | None:
    """Return the resource names of the site; None if it has none of its own. Raises Refused for an invalid file."""
    names = settings.resource_names
    return None if names is None else load_catalogue([home.root / names])


def request_rules(
    settings: Settings, home: Home, containers: Containers | None = None, names: NamesInForce | None = None
) -> RequestRules:
    """Return the rules by these settings. Raises Refused for an invalid file of resource names.

    `names` are those of an engine whose cluster defines some of them.
    """
    return RequestRules(
        site_catalogue(settings, home),
        settings.split,
        settings.split_fragments,
        settings.min_compute,
        containers,
        settings.default_vendor,
        names,
    )


def with_profile_named(submission: Submission, nodes: Iterable[Node]) -> Submission:
    """Replace a MIG slice given by its memory ("10g") by the profile, if only one profile has that memory.

    So the hours of one profile are counted together, whatever its users call it.
    """
    wanted = submission.request.mig_profile
    if wanted is None:
        return submission
    offered = {device.mig_profile for node in nodes for device in node.devices if device.mig_profile is not None}
    meant = sorted(profile for profile in offered if profile_matches(wanted, profile))
    if len(meant) != 1 or meant[0] == wanted:
        return submission
    return replace(submission, request=replace(submission.request, mig_profile=meant[0]))


def with_whole_node(submission: Submission, nodes: Iterable[Node]) -> Submission:
    """Turn an exclusive submission into one for all devices of the largest node that it may use.

    Raises Refused if it also gives a number of devices.
    """
    if not submission.exclusive:
        return submission
    request = submission.request
    if request.devices != 1 or not request.whole or request.mig_profile or request.device_uuids or submission.resources:
        raise Refused("exclusive: it takes all GPUs of a node; remove the number of GPUs", field="exclusive")
    counts = [
        sum(
            device.means is not Means.MIG and device.mig_profile is None and model_matches(request.models, device.model)
            for device in node.devices
        )
        for node in nodes
        if request.allows_node(node.name)
    ]
    request = replace(request, devices=max(1, *counts) if counts else 1)
    return replace(submission, request=request, exclusive=False)


def _refuse_fields_of_scheduler(request: Request) -> None:
    for field in ("power_within_mw", "pack"):
        if getattr(request, field) is not None:
            raise Refused(f"{field}: the scheduler sets it; leave it out", field=field)


def _reserved(request: Request) -> Request:
    """A reserved share uses time slicing: Corral cannot give limits to processes that it does not start."""
    if request.means not in (None, Means.TIMESLICE):
        raise Refused(
            f"--share {request.means}: a reserved part of a GPU is always shared by timeslice; "
            "remove --share, or submit the work as a job",
            field="means",
        )
    return replace(request, means=Means.TIMESLICE)


def with_vendor(request: Request, resources: Collection[str], nodes: Iterable[Node], default: str | None) -> Request:
    """Return the request with its vendor.

    The vendor follows from the first of these that is known: the request's own vendor, or options that need one vendor;
    the devices, models or slices that the request names; the site's `default`; the only vendor of the site's devices;
    the first vendor. `resources` are the request's resource names of other systems.

    Raises Refused for an unknown vendor, and if options of the request need GPUs of different vendors.
    """
    if not request.devices:
        return request
    known = vendors()
    if request.vendor is not None and request.vendor not in known:
        hint = nearest(request.vendor, known)
        raise Refused(f"vendor: {request.vendor!r:.60} is not a known maker of GPUs; {hint}", field="vendor")
    asked = request.vendor
    for name, vendor in known.items():
        if vendor.means_it(request, resources):
            if asked not in (None, name):
                words = (
                    f"vendor: other options of this request need GPUs made by {name}, not by {asked}; remove "
                    "one of them"
                )
                raise Refused(words, field="vendor")
            asked = name
    devices = [device for node in nodes for device in node.devices]
    meant = asked or _of_named(request, devices) or default or _only({device.vendor for device in devices})
    return request if meant in (None, request.vendor or FIRST_VENDOR) else replace(request, vendor=meant)


def _of_named(request: Request, devices: Iterable[Device]) -> str | None:
    """Return the only vendor of the devices that the request names by UUID, model or profile. None if it names none, or
    if their vendors differ.
    """
    if not (request.device_uuids or request.models or request.mig_profile):
        return None
    return _only({device.vendor for device in devices if _is_named(request, device)})


def _is_named(request: Request, device: Device) -> bool:
    profile = request.mig_profile
    return (
        (not request.device_uuids or device.uuid in request.device_uuids)
        and model_matches(request.models, device.model)
        and (profile is None or (device.mig_profile is not None and profile_matches(profile, device.mig_profile)))
    )


def _only(names: Collection[str]) -> str | None:
    return next(iter(names)) if len(names) == 1 else None
