"""Launches of jobs in containers, as the control room makes them."""

from dataclasses import replace
from typing import Any

from corral.core.model.devices.device import Device
from corral.core.model.jobs.container import Container
from corral.core.model.jobs.job import Job, JobSpec, Request
from corral.core.model.placing.allocation import Grant
from corral.core.model.placing.tenant import Tenant
from corral.core.model.runs.launch import DeviceUse, Launch

IMAGE = "repo/train:1"


def launch_of(
    number: int = 1, *, rank: int = 0, members: int = 1, gpus: int = 0, node: str = "gpu-01", **spec: Any
) -> Launch:
    """A launch of job `number` with so many whole GPUs."""
    given = {"command": ("true",), "name": "train", "container": Container(IMAGE), **spec}
    request, user = given.pop("request", Request()), given.pop("user", "alice")
    job = Job(
        str(number),
        number,
        JobSpec(user, request=replace(request, devices=gpus, gang_size=members), **given),
        0.0,
    )
    uses = tuple(_use(f"{node}/gpu-{slot}", slot, job) for slot in range(gpus))
    return Launch(
        f"{number}.1",
        job,
        (("CORRAL_JOB_ID", str(number)), ("CUDA_VISIBLE_DEVICES", ",".join(use.device.uuid for use in uses))),
        rank=rank,
        members=members,
        node=node,
        runtime="container",
        uses=uses,
    )


def _use(uuid: str, index: int, job: Job) -> DeviceUse:
    grant = Grant(uuid, 1000, 81920)
    return DeviceUse(Device(uuid, index, "A100", 81920), None, (), Tenant(job.id, job.spec.user, grant, None, True))
