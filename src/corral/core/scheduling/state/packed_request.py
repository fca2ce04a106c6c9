"""The request by which a packable job is placed: a part of a device that it shares with its like, or a whole one."""

from dataclasses import replace

from corral.core.model.jobs.job import Job, Request
from corral.core.model.runs.packing import PackLimit, granted_mib, pack_key, pack_limit, program_of, share_of
from corral.core.model.units import MILLI_PER_DEVICE
from corral.core.model.view import View


def request_of(view: View, job: Job) -> Request:
    """The request of a job by which it is placed, and by which its start is tested again.

    A packable job whose memory is not known has a device alone, since nobody knows what fits beside it.
    """
    if not job.spec.packable:
        return job.spec.request
    asked, memory_mib = job.spec.request, memory_of(view, job)
    limit, program = limit_of(view, job), program_of(job.spec)
    least_mib = max(asked.min_memory_mib or 0, memory_mib or 0) or None
    alone = replace(
        asked,
        share_milli=MILLI_PER_DEVICE,
        share_of_memory=False,
        memory_mib=None,
        min_memory_mib=least_mib,
        tenant=None,
    )
    if limit.jobs < 2 or program is None or memory_mib is None:
        return alone
    key = pack_key(job.spec.user, program, limit.jobs)
    return replace(alone, share_milli=share_of(limit.jobs), memory_mib=memory_mib, tenant=job.spec.user, pack=key)


def limit_of(view: View, job: Job) -> PackLimit:
    """The most jobs of a packable job's program that may share a device; 1 for a job that is like no other."""
    program, past = program_of(job.spec), view.packed.get(job.spec.user)
    if program is None:
        return PackLimit(1)
    return pack_limit(past, program, most=view.limits.pack_jobs, max_slowdown=view.limits.pack_slowdown)


def memory_of(view: View, job: Job) -> int | None:
    """The memory in MiB that a packable job is granted: what it asks for, else by earlier runs; None if unknown."""
    program, past = program_of(job.spec), view.memory_peaks.get(job.spec.user)
    if job.spec.request.memory_mib is not None or program is None or past is None:
        return job.spec.request.memory_mib
    return granted_mib(past.of_groups.get(program, ()))
