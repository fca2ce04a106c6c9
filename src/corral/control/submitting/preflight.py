"""Preflight of submissions: finds at submission what would make the job fail when it runs.

The rules are loaded with the first job that asks for a GPU, so that the server starts faster.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from corral.access.caller import Caller
from corral.control.submitting.file_findings import FileFindings
from corral.model.device import Device, Node
from corral.model.errors import Refused
from corral.model.fit import could_use, grant_memory_mib, slot_of
from corral.model.job import JobKind, Request
from corral.model.means import Means
from corral.model.submission import Submission
from corral.model.units import MILLI_PER_DEVICE
from corral.model.view import View

if TYPE_CHECKING:
    from corral.preflight.detect import Detection
    from corral.preflight.subject import Finding, Place

_MOST_REQUESTS = 256
_UNSEEN_DIRECTORY = (
    "the working directory {!r:.200} could not be checked in time (3 s); the job will fail if it does not exist"
)
_UNSEEN_FILES = "preflight: the files of the command could not be read in time (3 s), so they were not checked"


class SubmissionPreflight:
    """Checks submissions with the rules of preflight. Thread-safe."""

    def __init__(self, *, strict: bool = False) -> None:
        self._strict = strict
        self._places: tuple[Mapping[str, Node] | None, dict[Request, tuple[Place, ...]]] = (None, {})

    def notes(self, view: View, submission: Submission, caller: Caller, files: FileFindings) -> tuple[str, ...]:
        """Warnings for the job's owner; () if no problem was found.

        Raises Refused if the caller cannot use the working directory. Also, with the fixes, if the job can run on none
        of the devices that it may get, unless `force` is set.
        """
        if submission.kind is not JobKind.RUN:
            return ()
        notes = _directory_notes(submission, caller, files)
        if not submission.request.devices:
            return notes
        from corral.preflight.rules import blocking

        if files.detection is None:
            return (*notes, _UNSEEN_FILES)
        results = self._results(view, submission, files.detection)
        if results and all(blocking(findings) for _, findings in results) and not submission.force:
            sentences = _sentences([(place, blocking(findings)) for place, findings in results])
            raise Refused(
                f"preflight: {'; '.join(sentences)}. `corral check` shows more; --force submits it anyway",
                field="command",
            )
        return (*notes, *(f"preflight: {sentence}" for sentence in _sentences(results)))

    def overrides(self, view: View, submission: Submission, files: FileFindings) -> bool:
        """Whether the submission is accepted only because of `force`."""
        if not submission.force or submission.kind is not JobKind.RUN or not submission.request.devices:
            return False
        from corral.preflight.rules import blocking

        results = [] if files.detection is None else self._results(view, submission, files.detection)
        return bool(results) and all(blocking(findings) for _, findings in results)

    def _results(
        self, view: View, submission: Submission, found: "Detection"
    ) -> "list[tuple[Place, tuple[Finding, ...]]]":
        """The findings for each kind of device that the job may get."""
        from corral.preflight.rules import check

        places = self._places_of(view, submission.request)
        return [(place, check(found.work_in(place), place, strict=self._strict)) for place in places]

    def _places_of(self, view: View, request: Request) -> "tuple[Place, ...]":
        """As `places_of`, cached while the nodes stay the same."""
        nodes, places = self._places
        if nodes is not view.nodes or len(places) >= _MOST_REQUESTS:
            nodes, places = self._places = view.nodes, {}
        if request not in places:
            places[request] = places_of(view, request)
        return places[request]


def _directory_notes(submission: Submission, caller: Caller, files: FileFindings) -> tuple[str, ...]:
    if files.enterable is None:
        return (_UNSEEN_DIRECTORY.format(submission.workdir),)
    if not files.enterable:
        raise Refused(
            f"the working directory {submission.workdir!r:.200} is not a directory on this machine that {caller.user} "
            "can use; choose another with --workdir",
            field="workdir",
        )
    return ()


def places_of(view: View, request: Request) -> "tuple[Place, ...]":
    """One `Place` for each kind of device that the request may get, in order of node and index."""
    places: dict[Place, None] = {}
    for name in sorted(view.nodes):
        node = view.nodes[name]
        for device in node.devices:
            slot = slot_of(device, None, 0, 0)
            named = not request.device_uuids or device.uuid in request.device_uuids
            if could_use(request, slot, named=named):
                places[_place(node, device, request)] = None
    return tuple(places)


def _place(node: Node, device: Device, request: Request) -> "Place":
    from corral.preflight.compatibility import compute_of_model
    from corral.preflight.subject import Place

    split = request.split_milli
    spread = split is not None and split > MILLI_PER_DEVICE
    devices = -(-split // MILLI_PER_DEVICE) if split is not None and spread else request.devices
    return Place(
        device.model,
        driver=node.driver_version,
        cuda=node.cuda_version,
        compute=device.compute_capability or compute_of_model(device.model),
        means=device.means if device.mig_profile is not None or not request.whole else Means.EXCLUSIVE,
        mig=device.mig_enabled,
        devices=devices,
        share_milli=split // devices if split is not None and spread else request.share_milli,
        memory_mib=grant_memory_mib(request, slot_of(device, None, 0, 0)),
        device_memory_mib=device.memory_mib,
        virtual=device.virtual,
    )


def _sentences(results: "Sequence[tuple[Place, tuple[Finding, ...]]]") -> list[str]:
    """Each finding once; with the models if it concerns only some of them."""
    models: dict[Finding, list[str]] = {}
    for place, findings in results:
        for finding in findings:
            models.setdefault(finding, []).append(place.model)
    return [
        f"{_on(on, len(results))}{finding.what} (because {finding.why}) -> {finding.fix}"
        for finding, on in models.items()
    ]


def _on(models: Sequence[str], of: int) -> str:
    return "" if len(models) == of else f"on {', '.join(dict.fromkeys(models))}: "
