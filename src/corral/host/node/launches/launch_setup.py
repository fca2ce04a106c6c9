"""The setup of a launch on its host apart from its processes: devices, files, variables."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from corral.core.model.errors import CorralError
from corral.core.model.runs.launch import Launch, job_of
from corral.core.ports.node import Keep
from corral.host.node.device_setup import DeviceSetup, Then
from corral.host.node.files.cleaner import Cleaner
from corral.host.node.files.job_mapping import JobMapping
from corral.host.node.files.job_trees import JobTrees
from corral.host.node.files.resource_files import ResourceFiles, StopBy
from corral.host.node.launches.checkpoint_search import CheckpointSearch
from corral.host.node.launches.unknown_launches import UnknownLaunches

EXPIRY_S = 3600.0
"""While jobs end, checkpoints that were kept for long enough are removed this often."""

_PRELOADED = "LD_PRELOAD"


@dataclass(frozen=True, slots=True)
class LaunchSetup:
    """Prepares launches of one host, and releases the resources of ended ones. `variables` are in each environment."""

    devices: DeviceSetup
    unknown: UnknownLaunches
    checkpoints: CheckpointSearch
    files: ResourceFiles
    mapping: JobMapping
    trees: JobTrees
    cleaner: Cleaner
    scratch_of: Callable[[str], Path]
    variables: Mapping[str, str]

    def make_ready(self, launch: Launch, then: Then) -> None:
        """Make the devices ready once no unknown launch can have them any more, then call `then`."""
        step = partial(self.devices.enter, launch, partial(self._find_checkpoint, launch, then))
        if launch.uses:
            self.unknown.then(step)
        else:
            step()

    def _find_checkpoint(self, launch: Launch, then: Then, failure: CorralError | None) -> None:
        if failure is None and launch.checkpoint_dirs:
            self.checkpoints.find(launch, then)
        else:
            then(failure)

    def complete(self, launch: Launch) -> Launch:
        """Record the resources of a launch, and return it with the variables and notes that only its node knows."""
        self.files.write(launch)
        self.mapping.add(launch)
        self.note_time_limit(launch.id, launch.job.spec.time_limit_s)
        scratch = str(self.scratch_of(launch.job.id))
        found, note = self.checkpoints.found(launch)
        own = {**self.variables, "CORRAL_SCRATCH": scratch, **found, **self.devices.environment(launch)}
        given = dict(launch.env)
        if _PRELOADED in own and given.get(_PRELOADED):
            # The job keeps the libraries that its user has chosen.
            own[_PRELOADED] = f"{own[_PRELOADED]}:{given[_PRELOADED]}"
        env = tuple(sorted({**given, **own}.items()))
        return replace(launch, env=env, notes=launch.notes if note is None else (*launch.notes, note))

    def note_time_limit(self, launch_id: str, left_s: float | None) -> None:
        """Let a job that makes checkpoints find out when its time limit ends it, None for never."""
        if launch_id in self.checkpoints:
            self.files.note_stop(job_of(launch_id), left_s, StopBy.TIME_LIMIT)

    def note_stop(self, launch_id: str, left_s: float) -> None:
        """Let a job find out that it was told to make room, and when it is stopped."""
        self.files.note_stop(job_of(launch_id), left_s, StopBy.EVICTION)

    def restore(self, allocated: Collection[Launch], waiting: Collection[str]) -> tuple[str, ...]:
        """Take over the resources of these launches, and release all others except the scratch of `waiting` jobs.

        Return the faults that were found, a sentence each.
        """
        self.devices.restore(allocated)
        self.checkpoints.restore(allocated)
        remarks = self.files.restore(allocated)
        self.mapping.restore(allocated)
        going_on = {launch.job.id for launch in allocated} | set(waiting)
        for step in (*self.trees.unfinished(going_on), *self.files.leftovers(waiting)):
            self.cleaner.add(step)
        return remarks

    def drop(self, launch_id: str, job_id: str, *, keep: Keep) -> None:
        """Release the resources of a launch that is over."""
        self.devices.leave(launch_id)
        self.checkpoints.forget(launch_id)
        self.files.drop(launch_id, job_id)
        self.mapping.drop(launch_id)
        if keep is not Keep.ALL:
            self.cleaner.add(partial(self.trees.gather, job_id))
            self.cleaner.add(partial(self.files.tidy, job_id, keep_checkpoints=keep is Keep.CHECKPOINTS))
            self.cleaner.add(partial(self.files.remove_expired, every_s=EXPIRY_S))
            self.cleaner.add(partial(self.trees.remove_expired, every_s=EXPIRY_S))
