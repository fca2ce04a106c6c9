"""Preflight at the door: what is known to go wrong is told before the job has waited for it.

The job's files are read with its owner's rights: what a user may not read, a root server does not read for them. The
rules are loaded with the first job that asks for a GPU, so that a server starts without them.
"""

import ctypes
import os
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from corral.access.caller import Caller
from corral.clock import Clock
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

TRUST_S = 5.0
"""What was found out about a command is taken to hold for so long: a thousand submissions read its files once."""
_REMEMBERED = 256

Key = tuple[tuple[str, ...], str, int, int | None]


class Inspection:
    """Inspects submissions. Safe from any thread."""

    def __init__(self, clock: Clock, *, strict: bool = False) -> None:
        self._clock = clock
        self._strict = strict
        self._switch = os.geteuid() == 0
        self._lock = threading.Lock()
        self._known: OrderedDict[Key, tuple[float, Detection]] = OrderedDict()
        self._places: tuple[Mapping[str, Node] | None, dict[Request, tuple[Place, ...]]] = (None, {})

    def notes(self, view: View, submission: Submission, caller: Caller) -> tuple[str, ...]:
        """What the job's owner should be told; () when nothing speaks against the job.

        Raises Refused, with the fixes, when it could run on none of the devices that it may get, unless it is forced.
        """
        if submission.kind is not JobKind.RUN or not submission.request.devices:
            return ()
        from corral.preflight.rules import blocking, check

        places = self._places_of(view, submission.request)
        found = self._detection(submission, caller)
        results = [(place, check(found.work_in(place), place, strict=self._strict)) for place in places]
        if results and all(blocking(findings) for _, findings in results) and not submission.force:
            told = _sentences([(place, blocking(findings)) for place, findings in results])
            raise Refused(
                f"preflight: {'; '.join(told)}. `corral check` says more; --force submits it all the same",
                field="command",
            )
        return tuple(f"preflight: {sentence}" for sentence in _sentences(results))

    def overrides(self, view: View, submission: Submission, caller: Caller) -> bool:
        """Whether `force` is what lets the submission in."""
        if not submission.force or submission.kind is not JobKind.RUN or not submission.request.devices:
            return False
        from corral.preflight.rules import blocking, check

        found = self._detection(submission, caller)
        places = self._places_of(view, submission.request)
        blocked = [blocking(check(found.work_in(place), place, strict=self._strict)) for place in places]
        return bool(blocked) and all(blocked)

    def is_known(self, submission: Submission, caller: Caller) -> bool:
        """Whether `notes` would read no file."""
        if submission.kind is not JobKind.RUN or not submission.request.devices:
            return True
        with self._lock:
            known = self._known.get(_key(submission, caller))
        return known is not None and self._clock.monotonic() - known[0] < TRUST_S

    def _places_of(self, view: View, request: Request) -> "tuple[Place, ...]":
        """As `places_of`; an answer holds while the nodes stay the same."""
        nodes, places = self._places
        if nodes is not view.nodes or len(places) >= _REMEMBERED:
            nodes, places = self._places = view.nodes, {}
        if request not in places:
            places[request] = places_of(view, request)
        return places[request]

    def _detection(self, submission: Submission, caller: Caller) -> "Detection":
        key, now = _key(submission, caller), self._clock.monotonic()
        with self._lock:
            known = self._known.get(key)
        if known is not None and now - known[0] < TRUST_S:
            return known[1]
        found = self._detect(submission.command, submission.env, submission.workdir, caller)
        with self._lock:
            self._known[key] = (now, found)
            self._known.move_to_end(key)
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        return found

    def _detect(self, command: Sequence[str], env: Mapping[str, str], workdir: str, caller: Caller) -> "Detection":
        """What the job's files tell; those that its owner may not read tell nothing."""
        from corral.preflight.detect import detect

        try:
            with _rights_of(caller if self._switch else None):
                return detect(command, env, Path(workdir))
        except OSError:
            return detect((), {}, Path("/"))


def places_of(view: View, request: Request) -> "tuple[Place, ...]":
    """A place for each kind of device that the request may get, in order of node and index."""
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
    )


def _sentences(results: "Sequence[tuple[Place, tuple[Finding, ...]]]") -> list[str]:
    """Each finding once; what is found on some kinds of devices only, with the kind."""
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


def _key(submission: Submission, caller: Caller) -> Key:
    return submission.command, submission.workdir, hash(frozenset(submission.env.items())), caller.uid


@contextmanager
def _rights_of(caller: Caller | None) -> Iterator[None]:
    """Let this thread, and no other, see files as the caller does; nothing for None, or a caller who is nobody here.

    Linux keeps the ids that file access is judged by for each thread; the groups besides the first are not taken on.
    """
    if caller is None or caller.uid is None or caller.gid is None:
        yield
        return
    libc = ctypes.CDLL(None)
    own_gid, own_uid = libc.setfsgid(caller.gid), libc.setfsuid(caller.uid)
    try:
        yield
    finally:
        libc.setfsuid(own_uid)
        libc.setfsgid(own_gid)
