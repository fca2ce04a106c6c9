"""Patches: new values for some fields of a job. Other fields stay as they are, and None is a value like any other."""

from dataclasses import fields
from operator import attrgetter
from typing import TypedDict

from corral.core.model.jobs.job import Job
from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.eviction import Eviction


class JobPatch(TypedDict, total=False):
    """New values of fields of `Job`. The fields of the submission are not here: see `JobUpdated`.

    Do not write to a patch once it is in a fact.
    """

    phase: Phase
    held: bool
    launches: int
    attempts: int
    launch_failures: int
    eligible_at: float | None
    waits_for: tuple[str, ...]
    conditions: tuple[str, ...]
    stop_reason: Phase | None
    reason: str | None
    exit_code: int | None
    signal: int | None
    started_at: float | None
    ended_at: float | None
    allocation_id: str | None
    devices: tuple[str, ...]
    waited: tuple[tuple[str, float], ...]
    eviction: Eviction | None
    evictions: int
    lost_s: float
    input_taken: bool
    held_because: str | None
    site_faults: int


def patched(job: Job, patch: JobPatch) -> Job:
    """The job with the new values. Raises KeyError for a field that a job does not have."""
    # Each start and end in a simulation calls this function, and `dataclasses.replace` takes twice as long.
    values = list(_values_of(job))
    for name, value in patch.items():
        values[_POSITION_OF[name]] = value
    return Job(*values)


_FIELDS = tuple(field.name for field in fields(Job))
_POSITION_OF = {name: position for position, name in enumerate(_FIELDS)}
_values_of = attrgetter(*_FIELDS)
