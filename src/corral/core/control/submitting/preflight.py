"""Preflight of submissions: finds at submission the reasons for which the job would fail when it runs.

The rules are loaded with the first job that asks for a GPU, so that the server starts faster.
"""

from collections.abc import Hashable, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from corral.core.access.caller import Caller
from corral.core.control.submitting.candidate_nodes import EligibleNodes
from corral.core.control.submitting.file_findings import FileFindings
from corral.core.control.submitting.image_findings import ImageFinding, unknown_note
from corral.core.control.submitting.start_checks import lacks_what_starts, listed, start_notes, where
from corral.core.model.devices.device import Device, Node
from corral.core.model.devices.means import Means
from corral.core.model.errors import Refused
from corral.core.model.jobs.job import JobKind, Request
from corral.core.model.jobs.submission import Submission
from corral.core.model.placing.fit import could_use, grant_memory_mib
from corral.core.model.placing.state import slot_of
from corral.core.model.units import MILLI_PER_DEVICE
from corral.core.model.view import View
from corral.core.ports.images import ContainerProgram
from corral.untrusted import Unread, guarded

if TYPE_CHECKING:
    from corral.core.ports.preflight import Finding, Place
    from corral.core.preflight.detect import Detection

_MOST_REQUESTS = 256
_FORCED_BY = "--force submits it anyway"


class _Judged(NamedTuple):
    """The findings for the job on one kind of device; `nodes` have these devices and these files."""

    place: "Place"
    nodes: Sequence[str]
    findings: "tuple[Finding, ...]"


class SubmissionPreflight:
    """Checks submissions with the rules of preflight. Thread-safe."""

    def __init__(self, eligible: EligibleNodes, *, strict: bool = False) -> None:
        self._eligible = eligible
        self._strict = strict
        self._places: tuple[
            Mapping[str, Node] | None, dict[tuple[Request, tuple[str, ...]], dict[Place, tuple[str, ...]]]
        ] = (None, {})

    def notes(
        self, view: View, submission: Submission, caller: Caller, files: FileFindings, *, all_told: bool = False
    ) -> tuple[str, ...]:
        """Return warnings for the job's owner; () if no problem was found.

        With `all_told` they also say what could not be checked because the site lists no registry: each job of such a
        site would have this note.

        Raises Refused if the job could be started on none of the inspected nodes (`start_checks`). Unless `force` is
        set, it also raises Refused, with the fixes, if the job can run on none of the devices that it may get.
        """
        if (contained := _contained(submission, files)) is not None:
            notes, image = self.container_notes(view, submission, caller, *contained), contained[1]
            if all_told and image is not None and not image.failed and _is_unknown(submission, image):
                return (*notes, unknown_note(image))
            return notes
        if not _finds_files_on_its_node(submission):
            return ()
        notes = start_notes(view, submission, caller, files)
        if not submission.request.devices or not files.nodes:
            return notes
        unread = [node for node, found in files.nodes.items() if found.detection is None]
        if unread:
            late = f"could not be read in time (3 s){where(view, unread)}, so they were not checked"
            notes += (f"preflight: the files of the command {late}",)
        judged = self._judged(view, submission, caller, files)
        return (*notes, *self._verdict(submission, judged, _FORCED_BY))

    def container_notes(
        self,
        view: View,
        submission: Submission,
        caller: Caller,
        program: ContainerProgram,
        image: ImageFinding | None,
    ) -> tuple[str, ...]:
        """Return warnings for the owner of a container, by the rules that need no files of its node.

        `image` is the finding about its image; None if it is still being read. Raises as `notes`.
        """
        judged = self._judged_in_container(view, submission, caller, program, image)
        notes = self._verdict(submission, judged, program.forced_by)
        if image is not None and image.failed and _is_unknown(submission, image):
            return (*notes, unknown_note(image))
        return notes

    def container_overrides(
        self,
        view: View,
        submission: Submission,
        caller: Caller,
        program: ContainerProgram,
        image: ImageFinding | None,
    ) -> bool:
        """Return whether a container is accepted only because of `force`."""
        return submission.force and _blocked(self._judged_in_container(view, submission, caller, program, image))

    def _verdict(self, submission: Submission, judged: Sequence[_Judged], forced_by: str) -> tuple[str, ...]:
        """Return a note for each finding. Raises Refused if no device can run the job, unless it is forced."""
        from corral.core.preflight.rules import blocking

        if _blocked(judged) and not submission.force:
            sentences = _sentences([_Judged(one.place, one.nodes, blocking(one.findings)) for one in judged])
            raise Refused(
                f"preflight: {'; '.join(sentences)}. `corral check` shows more; {forced_by}",
                field="command",
            )
        return tuple(f"preflight: {sentence}" for sentence in _sentences(judged))

    def overrides(self, view: View, submission: Submission, caller: Caller, files: FileFindings) -> bool:
        """Return whether the submission is accepted only because of `force`."""
        if (contained := _contained(submission, files)) is not None:
            return self.container_overrides(view, submission, caller, *contained)
        if not submission.force or not _finds_files_on_its_node(submission):
            return False
        if lacks_what_starts(submission, files):
            return True
        if not submission.request.devices:
            return False
        return _blocked(self._judged(view, submission, caller, files))

    def _judged_in_container(
        self,
        view: View,
        submission: Submission,
        caller: Caller,
        program: ContainerProgram,
        image: ImageFinding | None,
    ) -> list[_Judged]:
        """Return the findings for each kind of device; [] if the command crashes its reader, and without GPUs."""
        if not submission.request.devices:
            return []
        from corral.core.preflight.detect import detection_in_container

        facts = None if image is None else image.facts
        detection = guarded(
            f"the command {program.command[:1]!r:.60} of a container",
            lambda: detection_in_container(program, facts, submission.request.min_cuda),
        )
        # Going through the devices of a large cluster takes long, and nodes of a cluster change all the time.
        if isinstance(detection, Unread) or not detection.tells:
            return []
        return [
            _Judged(place, nodes, self._found(submission, detection, place))
            for place, nodes in self._places_of(view, submission, caller).items()
        ]

    def _judged(self, view: View, submission: Submission, caller: Caller, files: FileFindings) -> list[_Judged]:
        """Return the findings for each kind of device that the job may get, with the files of the nodes that have it.

        If the files of none of these nodes are known, those of the node where it could start soonest are used.
        """
        known = {node: found.detection for node, found in files.nodes.items() if found.detection is not None}
        if not known:
            return []
        return [
            _Judged(place, having, self._found(submission, detection, place))
            for place, nodes in self._places_of(view, submission, caller).items()
            for detection, having in _alike(known, nodes)
        ]

    def _found(self, submission: Submission, detection: "Detection", place: "Place") -> "tuple[Finding, ...]":
        """Return the findings on one kind of device; () if the command or its files crash the rules."""
        from corral.core.preflight.rules import check

        found = guarded(
            f"the command {submission.command[:1]!r:.60} and its files",
            lambda: check(detection.work_in(place), place, strict=self._strict),
        )
        return () if isinstance(found, Unread) else found

    def _places_of(self, view: View, submission: Submission, caller: Caller) -> "dict[Place, tuple[str, ...]]":
        """Return `places_of` for the nodes that could serve the submission. The result is cached while the nodes stay
        the same.
        """
        nodes, places = self._places
        if nodes is not view.nodes or len(places) >= _MOST_REQUESTS:
            nodes, places = self._places = view.nodes, {}
        key = submission.request, self._eligible(view, submission, caller.user)
        if key not in places:
            places[key] = places_of(view, *key)
        return places[key]


def _alike(known: "Mapping[str, Detection]", nodes: Sequence[str]) -> "Sequence[tuple[Detection, Sequence[str]]]":
    """Group the nodes with known files by equal findings. With one known finding, use it for all nodes."""
    if len(known) == 1:
        return [(next(iter(known.values())), nodes)]
    groups: list[tuple[Detection, list[str]]] = []
    for node, detection in known.items():
        if node in nodes:
            having = next((names for same, names in groups if same == detection), None)
            if having is None:
                groups.append((detection, [node]))
            else:
                having.append(node)
    return groups or [(next(iter(known.values())), nodes)]


def places_of(view: View, request: Request, nodes: Sequence[str]) -> "dict[Place, tuple[str, ...]]":
    """Return each kind of device that the request may get on these nodes, with the nodes that have it."""
    places: dict[Place, dict[str, None]] = {}
    known: dict[tuple[Hashable, ...], Place | None] = {}
    for name in nodes:
        node = view.nodes[name]
        for device in node.devices:
            # A cluster has few kinds of devices: each is judged once.
            kind = (node.driver_version, node.cuda_version, request.may_use(device), *_kind(device))
            if kind not in known:
                usable = could_use(request, slot_of(device, None, 0, 0), usable=request.may_use(device))
                known[kind] = _place(node, device, request) if usable else None
            if (place := known[kind]) is not None:
                places.setdefault(place, {})[name] = None
    return {place: tuple(names) for place, names in places.items()}


_kind = attrgetter(
    *("model", "memory_mib", "compute_capability", "means", "mig_profile", "mig_enabled", "one_user", "slice_milli"),
    *("replica", "vendor", "clients", "power_limit_mw", "power_range_mw", "power_fixed", "offered_as", "virtual"),
)
"""All of a device but what tells it from others of its kind."""


def _place(node: Node, device: Device, request: Request) -> "Place":
    from corral.core.ports.preflight import Place
    from corral.vendors.registry import vendor_of

    split = request.split_milli
    spread = split is not None and split > MILLI_PER_DEVICE
    devices = -(-split // MILLI_PER_DEVICE) if split is not None and spread else request.devices
    return Place(
        device.model,
        driver=node.driver_version,
        cuda=node.cuda_version,
        compute=device.compute_capability or vendor_of(device).compute_of_model(device.model),
        means=device.means if device.mig_profile is not None or not request.whole else Means.EXCLUSIVE,
        mig=device.mig_enabled,
        devices=devices,
        share_milli=split // devices if split is not None and spread else request.share_milli,
        memory_mib=grant_memory_mib(request, slot_of(device, None, 0, 0)),
        device_memory_mib=device.memory_mib,
        virtual=device.virtual,
        vendor=device.vendor,
    )


def _finds_files_on_its_node(submission: Submission) -> bool:
    """Return whether its files are there already: those of a container are in its image, and an upload comes later."""
    return submission.kind is JobKind.RUN and submission.container is None and submission.upload is None


def _contained(submission: Submission, files: FileFindings) -> tuple[ContainerProgram, ImageFinding | None] | None:
    """Return the program of a job's container with what is known of its image; None for a job without a container."""
    container = submission.container
    if submission.kind is not JobKind.RUN or container is None or container.image is None:
        return None
    return ContainerProgram(container.image, submission.command, env=submission.env), files.image


def _is_unknown(submission: Submission, image: ImageFinding) -> bool:
    """Return whether nobody says what the image of a job with GPUs needs."""
    request = submission.request
    return bool(request.devices) and image.facts is None and request.min_cuda is None


def _blocked(judged: Sequence[_Judged]) -> bool:
    """Return whether no kind of device can run the job. An unknown one could."""
    from corral.core.preflight.rules import blocking

    return bool(judged) and all(blocking(one.findings) for one in judged)


def _sentences(judged: Sequence[_Judged]) -> list[str]:
    """Return a sentence for each finding. A finding that concerns only some devices names their models or nodes."""
    concerned: dict[Finding, list[_Judged]] = {}
    for one in judged:
        for finding in one.findings:
            concerned.setdefault(finding, []).append(one)
    return [
        f"{_on(those, judged)}{finding.what} (because {finding.why}) -> {finding.fix}"
        for finding, those in concerned.items()
    ]


def _on(concerned: Sequence[_Judged], judged: Sequence[_Judged]) -> str:
    """Return the beginning of a sentence: "on Tesla T4: ".

    It names nodes instead if the finding concerns only some of the nodes with a model; "" if it concerns all.
    """
    if len(concerned) == len(judged):
        return ""
    models = dict.fromkeys(one.place.model for one in concerned)
    others = {one.place.model for one in judged if one not in concerned}
    if others.isdisjoint(models):
        return f"on {', '.join(models)}: "
    return f"on {listed(tuple(dict.fromkeys(node for one in concerned for node in one.nodes)))}: "
