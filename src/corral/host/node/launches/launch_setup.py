"""The setup of a launch on its host apart from its processes: devices, files, variables."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from corral.core.model.runs.launch import Launch
from corral.host.node.device_setup import DeviceSetup, Then
from corral.host.node.files.cleaner import Cleaner
from corral.host.node.files.job_mapping import JobMapping
from corral.host.node.files.resource_files import ResourceFiles
from corral.host.node.launches.unknown_launches import UnknownLaunches


@dataclass(frozen=True, slots=True)
class LaunchSetup:
    """Prepares launches of one host, and releases the resources of ended ones. `variables` are in each environment."""

    devices: DeviceSetup
    unknown: UnknownLaunches
    files: ResourceFiles
    mapping: JobMapping
    cleaner: Cleaner
    scratch_of: Callable[[str], Path]
    variables: Mapping[str, str]

    def make_ready(self, launch: Launch, then: Then) -> None:
        """Make the devices ready once no unknown launch can have them any more, then call `then`."""
        step = partial(self.devices.enter, launch, then)
        if launch.uses:
            self.unknown.then(step)
        else:
            step()

    def complete(self, launch: Launch) -> Launch:
        """Record the resources of a launch, and return it with the variables that only its node knows."""
        self.files.write(launch)
        self.mapping.add(launch)
        scratch = str(self.scratch_of(launch.job.id))
        own = {**self.variables, "CORRAL_SCRATCH": scratch, **self.devices.environment(launch)}
        return replace(launch, env=tuple(sorted({**dict(launch.env), **own}.items())))

    def restore(self, allocated: Collection[Launch], waiting: Collection[str]) -> tuple[str, ...]:
        """Take over the resources of these launches, and release all others except the scratch of `waiting` jobs.

        Return the faults that were found, a sentence each.
        """
        self.devices.restore(allocated)
        remarks = self.files.restore(allocated)
        self.mapping.restore(allocated)
        for step in self.files.leftovers(waiting):
            self.cleaner.add(step)
        return remarks

    def drop(self, launch_id: str, job_id: str, *, keep_scratch: bool) -> None:
        """Release the resources of a launch that is over."""
        self.devices.leave(launch_id)
        self.files.drop(launch_id, job_id)
        self.mapping.drop(launch_id)
        if not keep_scratch:
            self.cleaner.add(partial(self.files.tidy, job_id))
