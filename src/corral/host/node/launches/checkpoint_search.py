"""The last whole checkpoints of launches, looked for with the rights of their users.

A user's directory may never answer, as on a lost mount. So each look has the deadline of the file inspector, and users
do not wait for each other.
"""

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from corral.core.model.errors import CorralError, NodeLacks
from corral.core.model.jobs.checkpoints import WholeCheckpoint, own_directory
from corral.core.model.runs.launch import Launch
from corral.core.model.units import format_duration
from corral.core.ports.host import Credentials, FileQuery
from corral.core.preflight.file_facts import FileFacts
from corral.host.node.device_setup import Then, WorkerQueues

LOOK_EVERY_S = 10.0
"""The least time between two looks for the checkpoints of a running launch."""

Inspect = Callable[[Sequence[FileQuery], Credentials | None], Mapping[FileQuery, FileFacts]]


class _Look(NamedTuple):
    """The last look for a launch's checkpoint: when it was begun, and the answer with its time (monotonic seconds)."""

    begun_at: float
    age_s: float | None = None
    answered_at: float = 0.0


class CheckpointSearch:
    """Finds the checkpoints of the launches on one host that make some. Safe from any thread."""

    def __init__(self, inspect: Inspect, scratch_of: Callable[[str], Path]) -> None:
        """`inspect` answers questions about files of users within some seconds, or leaves them out."""
        self._inspect = inspect
        self._scratch_of = scratch_of
        self._queues = WorkerQueues("checkpoints")
        self._lock = threading.Lock()
        self._launches: dict[str, Launch] = {}
        self._found: dict[str, WholeCheckpoint | None] = {}
        self._looks: dict[str, _Look] = {}

    def close(self) -> None:
        """End the threads."""
        self._queues.close()

    def __contains__(self, launch_id: str) -> bool:
        return launch_id in self._launches

    def restore(self, launches: Collection[Launch]) -> None:
        """Take over these launches in place of all others."""
        with self._lock:
            self._launches = {launch.id: launch for launch in launches if launch.checkpoint_dirs}
            self._looks = {name: look for name, look in self._looks.items() if name in self._launches}

    def forget(self, launch_id: str) -> None:
        """Forget a launch that is over."""
        with self._lock:
            for of_launch in (self._launches, self._found, self._looks):
                of_launch.pop(launch_id, None)

    def find(self, launch: Launch, then: Then) -> None:
        """Find the checkpoint that a launch goes on from, then call `then`, with the failure if there is no answer.

        Without an answer the launch must not begin: its program would start again, and replace its checkpoints.
        """
        with self._lock:
            self._launches[launch.id] = launch
        self._queues.put(launch.job.spec.user, partial(self._find, launch, then))

    def _find(self, launch: Launch, then: Then) -> None:
        try:
            self._found[launch.id] = self._whole(launch)
        except CorralError as error:
            then(error)
        else:
            then(None)

    def found(self, launch: Launch) -> tuple[dict[str, str], str | None]:
        """Return the variables of a launch about its checkpoints, and a note for its log if it goes on from one."""
        if not launch.checkpoint_dirs:
            return {}, None
        directory = own_directory(self._directories(launch), launch.rank)
        checkpoint = self._found.pop(launch.id, None)
        if checkpoint is None:
            return {"CORRAL_CHECKPOINT_DIR": directory}, None
        path = own_directory(checkpoint.paths, launch.rank)
        note = f"goes on from the checkpoint {path} ($CORRAL_RESTORE), {format_duration(checkpoint.age_s)} old"
        return {"CORRAL_CHECKPOINT_DIR": directory, "CORRAL_RESTORE": path}, note

    def saved_ago(self, launch_id: str) -> float | None:
        """Return how many seconds ago the last whole checkpoint was named, by the last look; None if unknown.

        If that look was some time ago, another begins.
        """
        launch = self._launches.get(launch_id)
        if launch is None:
            return None
        now = time.monotonic()
        with self._lock:
            look = self._looks.get(launch_id)
            if look is None or now - look.begun_at >= LOOK_EVERY_S:
                look = _Look(now) if look is None else look._replace(begun_at=now)
                self._looks[launch_id] = look
                self._queues.put(launch.job.spec.user, partial(self._look, launch))
        return None if look.age_s is None else look.age_s + now - look.answered_at

    def _look(self, launch: Launch) -> None:
        try:
            found = self._whole(launch)
        except NodeLacks:
            # What was seen before stays true.
            return
        with self._lock:
            look = self._looks.get(launch.id)
            if look is not None:
                age_s = None if found is None else found.age_s
                self._looks[launch.id] = _Look(look.begun_at, age_s, time.monotonic())

    def _whole(self, launch: Launch) -> WholeCheckpoint | None:
        """Return the last whole checkpoint of a launch's job, None if there is none. Raises NodeLacks without an
        answer.
        """
        query, spec = FileQuery(checkpoints=self._directories(launch)), launch.job.spec
        named = spec.uid is not None and spec.gid is not None
        who = Credentials(spec.uid or 0, spec.gid or 0, spec.groups) if named else None
        answer = self._inspect((query,), who).get(query)
        if answer is None:
            raise NodeLacks(f"the directory of its checkpoints, {query.checkpoints[0]:.300}, does not answer in time")
        return answer.checkpoint

    def _directories(self, launch: Launch) -> tuple[str, ...]:
        scratch = self._scratch_of(launch.job.id)
        return tuple(str(scratch / one) for one in launch.checkpoint_dirs)
