"""Finds smaller requests that would start now, to suggest to a user whose job waits."""

from collections.abc import Iterator
from dataclasses import replace
from math import inf
from typing import Any

from corral.core.model.audience import Audience
from corral.core.model.jobs.job import Job, JobSpec, Request
from corral.core.model.placing.fit import HOST_CAUSES, Misfit
from corral.core.model.placing.plan import Plan, group_of
from corral.core.model.units import MILLI_PER_DEVICE
from corral.core.model.view import View
from corral.core.scheduling.explaining.phrases import flags_of
from corral.core.scheduling.placing.node_by_node import fits
from corral.core.scheduling.queueing.barred_nodes import barred_to, kept_off
from corral.core.scheduling.queueing.pools import closed_pools_of
from corral.core.scheduling.state.draft import Draft, PlacementRequest, draft_of
from corral.core.scheduling.state.packed_request import request_of
from corral.core.scheduling.state.set_aside import BlockedJob
from corral.core.scheduling.state.timeline import Timeline


def nearest_that_starts(
    view: View, wished: JobSpec, plan: Plan | None = None, job: Job | None = None
) -> Request | None:
    """The most similar smaller request that would start now: fewer devices, then fewer conditions; None if none would.

    Devices on which `wished` does not run (a speed of 0) do not count. Devices that `plan` promises or sets aside for
    jobs ahead of `job`, or of a new job, are not available.
    """
    draft, closed_pools = _after(view, plan, job), closed_pools_of(view, wished.user, wished.project)
    barred = barred_to(view, wished.user, wished.container)
    for smaller in smaller_requests(wished.request):
        if fits(draft, PlacementRequest(kept_off(smaller, barred), speeds=wished.speeds, closed_pools=closed_pools)):
            return smaller
    return None


def flags_that_start(
    view: View,
    wished: JobSpec,
    plan: Plan | None = None,
    job: Job | None = None,
    *,
    audience: Audience = Audience.COMMAND_LINE,
) -> str | None:
    """The options of the request that `nearest_that_starts` finds: "--gpus 1 without --device"; None if none."""
    nearest = nearest_that_starts(view, wished, plan, job)
    return None if nearest is None else flags_of(nearest, wished.request, audience)


def _after(view: View, plan: Plan | None, job: Job | None) -> Draft:
    draft = draft_of(view)
    if plan is None:
        return draft
    for start in plan.starts:
        if start.job_id in view.jobs and view.jobs[start.job_id].allocation_id is None:
            draft.take(start.placement.members)
    now = 0.0 if not plan.future_starts else min(promise.start_at for promise in plan.future_starts)
    draft.timeline = Timeline(now, draft.free, lambda name: draft.started.get(name, ()), draft.capacity.slots_of)
    promised = {promise.job_id for promise in plan.future_starts}
    for promise in plan.future_starts:
        if job is None or promise.job_id != job.id:
            for member in promise.placement.members:
                draft.timeline.promise(member, now, inf)
    for ahead, misfit in _heads(view, plan):
        if job is not None and group_of(ahead) == group_of(job):
            continue
        if ahead.id not in promised:
            nodes = None if misfit.node is None or ahead.spec.request.gang_size > 1 else (misfit.node,)
            draft.aside.add(BlockedJob(ahead.id, request_of(view, ahead), misfit.cause in HOST_CAUSES, nodes))
    return draft


def _heads(view: View, plan: Plan) -> Iterator[tuple[Job, Misfit]]:
    """The first job of each queue that did not fit, and its misfit."""
    seen: set[str] = set()
    for wait in plan.waits:
        job = view.jobs.get(wait.job_id)
        if job is not None and wait.misfit is not None and job.spec.queue not in seen:
            seen.add(job.spec.queue)
            yield job, wait.misfit


def _whole_devices_of(request: Request, split_milli: int) -> list[Request]:
    """Requests for whole devices instead of a share above 1, the largest first; each is smaller than the share."""
    most = (split_milli - 1) // MILLI_PER_DEVICE
    whole: dict[str, Any] = dict.fromkeys(("split_milli", "split", "memory_mib", "memory_percent", "tenant"))
    whole |= {"share_milli": MILLI_PER_DEVICE, "cores_percent": None}
    return [replace(request, devices=count, **whole) for count in range(most, 0, -1)]


def smaller_requests(request: Request) -> list[Request]:
    """Smaller requests, most similar first: fewer members, fewer devices, then without one or all device conditions."""
    fewer = [replace(request, gang_size=size) for size in range(request.gang_size - 1, 0, -1)]
    if request.split_milli is not None and not request.device_uuids:
        fewer += _whole_devices_of(request, request.split_milli)
    if not request.device_uuids:
        fewer += [replace(request, gang_size=1, devices=count) for count in range(request.devices - 1, 0, -1)]
    anything: dict[str, Any] = {"device_uuids": (), "node": None, "nodes": (), "models": (), "min_memory_mib": None}
    anything["min_compute"] = request.site_min_compute
    fewer += [replace(request, **{name: value}) for name, value in anything.items() if getattr(request, name) != value]
    loose = replace(request, **anything)
    if loose != request:
        fewer += [loose, *(replace(loose, gang_size=1, devices=n) for n in range(request.devices - 1, 0, -1))]
    return fewer
