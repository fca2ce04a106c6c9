"""The request that would have done for a job that did not use all it had, and a command that makes it."""

import shlex
from dataclasses import replace

from corral.core.model.jobs.job import JobKind, JobSpec
from corral.core.model.units import format_duration
from corral.core.scheduling.explaining.phrases import flags_of
from corral.core.scheduling.explaining.smaller_memory import with_memory
from corral.features.accounting.waste import UnusedGrant

_KEPT_MIB = 1024
"""A job with more of a GPU's memory keeps data there; a driver's own part is less."""


def smaller_request(spec: JobSpec, unused: UnusedGrant) -> str:
    """The flags of a request that would have done."""
    request = spec.request
    # A program that keeps its model on a GPU it hardly computes on would fail without the GPU.
    needed = unused.devices_used or int((unused.memory_most_mib or 0) > _KEPT_MIB)
    if needed == 0:
        return flags_of(replace(request, devices=0, memory_mib=None, min_memory_mib=None, split_milli=None, models=()))
    if needed < unused.devices and request.whole and request.gang_size == 1:
        request = replace(request, devices=needed)
    if unused.oversized and request.mig_profile is None:
        request = with_memory(request, unused.memory_most_mib or 0)
    return flags_of(request)


def command_of(spec: JobSpec, flags: str) -> str:
    """Return a command that submits the job again with these flags, and with its name, queue and project."""
    verb = "corral reserve" if spec.kind is JobKind.RESERVE else "corral submit"
    words = [verb, flags]
    if spec.name:
        words.append(f"--name {shlex.quote(spec.name)}")
    if spec.queue != JobSpec(user="").queue:
        words.append(f"--queue {shlex.quote(spec.queue)}")
    if spec.project != JobSpec(user="").project:
        words.append(f"--project {shlex.quote(spec.project)}")
    if spec.time_limit_s is not None:
        words.append(f"--time {format_duration(spec.time_limit_s).replace(' ', '')}")
    words += [f"--label {shlex.quote(f'{key}={value}')}" for key, value in spec.request.labels]
    if spec.command:
        words.append(f"-- {shlex.join(spec.command)}")
    return " ".join(words)
