"""Finds a request with less GPU memory that would do for a job, by the most that jobs like it used, and tries it."""

import math
from dataclasses import replace
from math import inf

from corral.core.model.fact import JobSubmitted, ServerPart
from corral.core.model.jobs.job import Job, JobSpec, Request
from corral.core.model.placing.allocation import Placement
from corral.core.model.runs.prediction import MEMORY_HEADROOM
from corral.core.model.units import SHARE_QUANTUM_MILLI
from corral.core.model.view import View
from corral.core.scheduling.forecast import MakePlanner
from corral.core.scheduling.placing.node_by_node import choose
from corral.core.scheduling.queueing.admission import ineligible
from corral.core.scheduling.queueing.pools import closed_pools_of
from corral.core.scheduling.state.draft import PlacementRequest, draft_of

_MIB_PER_GIB = 1024


def with_memory(request: Request, most_mib: float) -> Request:
    """The request with a little more memory of each device than was used, in whole GiB.

    That is a part of one device, or for several devices, whole smaller ones.
    """
    mib = max(1, math.ceil(most_mib * MEMORY_HEADROOM / _MIB_PER_GIB)) * _MIB_PER_GIB
    if request.devices > 1:
        return replace(request, min_memory_mib=mib, models=())
    part = replace(request, memory_mib=mib, share_milli=SHARE_QUANTUM_MILLI, share_of_memory=True)
    return replace(part, split_milli=None, min_memory_mib=None)


def smaller_by_memory(spec: JobSpec, most_mib: float) -> Request | None:
    """The request for a part of one GPU that would do for the job; None if it asks for no more than that.

    Which of several GPUs needs how much is not known, and a slice is chosen by its profile.
    """
    request = spec.request
    by_memory = request.whole or request.share_of_memory
    if request.devices != 1 or request.gang_size != 1 or request.mig_profile is not None or not by_memory:
        return None
    smaller = replace(with_memory(request, most_mib), tenant=spec.user)
    asked_mib = request.memory_mib or request.min_memory_mib
    return None if asked_mib is not None and (smaller.memory_mib or 0) >= asked_mib else smaller


def starts_on(view: View, job: Job, request: Request, now: float, planner: MakePlanner) -> str | None:
    """The node on which the job would start now with this request; None if it would not start.

    The planner decides it, so that limits, quotas and jobs ahead count.
    """
    asked = replace(job, spec=replace(job.spec, request=request))
    plan = planner(view.advance([JobSubmitted(asked, at=now, by=ServerPart.SCHEDULER)])).plan(now)
    placed = [start.placement for start in plan.starts if start.job_id == job.id]
    return placed[0].members[0].node if placed else None


def fits_on(view: View, job: Job, request: Request, now: float, planner: MakePlanner) -> str | None:
    """The same where no other job waits, in a hundredth of the time: limits, quotas and the fit test decide it."""
    asked = replace(job, spec=replace(job.spec, request=request))
    if ineligible(asked, now) is not None or planner(view).admission(now).barrier(asked, inf) is not None:
        return None
    closed_pools = closed_pools_of(view, job.spec.user, job.spec.project)
    placed = choose(draft_of(view), PlacementRequest(request, speeds=job.spec.speeds, closed_pools=closed_pools))
    return placed.members[0].node if isinstance(placed, Placement) else None
