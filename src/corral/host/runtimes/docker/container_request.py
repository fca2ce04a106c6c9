"""Makes the body of Docker's "create a container" from a launch. Pure."""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from corral.core.model.errors import Refused
from corral.core.model.jobs.container import Container
from corral.core.model.runs.launch import Launch
from corral.host.runtimes.docker.records import HostUser, OrderedDevice
from corral.vendors.registry import vendor_named, vendors
from corral.vendors.vendor import Reached

Json = dict[str, Any]

SERVER, LAUNCH, ALLOCATION, JOB, USER, NAME = (
    f"corral.{name}" for name in ("server", "launch", "allocation", "job", "user", "name")
)
"""Labels of containers. A server recognizes its own containers by the first two."""

_OF_THE_HOST = ("CORRAL_GPU_INDICES", "CORRAL_HOME")
"""Variables of the host that containers do not get. A container sees only its own GPUs, counted from 0.

Variables by which processes of the host see devices are removed too, even if the image sets them.
"""

_WITHOUT_NAMES = (None, "default", "bridge", "none", "host")
"""Docker's own networks, on which containers do not find each other by name."""

_IMAGES_DIRECTORY = "/"


def body_of(launch: Launch, tag: str, who: HostUser, *, log_max_bytes: int, max_processes: int) -> Json:
    """Return the body without the GPUs, for a job of this user. Raises Refused for requests that no container can
    satisfy.
    """
    container = launch.job.spec.container
    if container is None or container.image is None:
        raise Refused("image: this job has no container", field="image")
    spec = launch.job.spec
    body: Json = {
        "Image": container.image,
        # Replaces the image's entry point, as for a pod: the command is the words after `--`.
        "Entrypoint": list(spec.command),
        "Cmd": [],
        "Env": _environment(launch),
        "User": container.user or f"{who.uid}:{who.gid}",
        "Labels": {
            SERVER: tag,
            LAUNCH: launch.id,
            ALLOCATION: launch.allocation_id,
            JOB: launch.job.id,
            USER: spec.user,
            NAME: spec.name,
        },
        "HostConfig": {**_host(launch, container, who, log_max_bytes=log_max_bytes), "PidsLimit": max_processes},
    }
    if spec.workdir != _IMAGES_DIRECTORY:
        body["WorkingDir"] = spec.workdir
    if launch.rank == 0 and (name := _meeting_name(launch)) is not None:
        body["NetworkingConfig"] = {"EndpointsConfig": {container.network: {"Aliases": [name]}}}
    return body


def _meeting_name(launch: Launch) -> str | None:
    """Return a name for rank 0 on a network of the site's own, where the host's address cannot be used.

    None if the launch needs no such name.
    """
    container = launch.job.spec.container
    env = dict(launch.env)
    if container is None or container.network in _WITHOUT_NAMES or "MASTER_ADDR" not in env or launch.members < 2:
        return None
    where = f"{launch.allocation_id} {env['MASTER_ADDR']} {env.get('MASTER_PORT')}"
    return f"corral-{hashlib.sha256(where.encode()).hexdigest()[:16]}"


def with_devices(devices: Sequence[OrderedDevice], cdi_devices: Collection[str]) -> Json:
    """Return the part of the host configuration with these GPUs, which are all of one vendor."""
    if not devices:
        return {"DeviceRequests": []}
    reached = [Reached(device.uuid, tuple(device.files)) for device in devices]
    return vendor_named(devices[0].vendor).files.in_container(reached, cdi_devices)


def cdi_devices(info: Mapping[str, Any]) -> list[str]:
    """Return the names of CDI devices in the daemon's information about itself (API 1.50 and later)."""
    return [str(one.get("ID", "")) for one in info.get("DiscoveredDevices") or () if one.get("Source") == "cdi"]


def _environment(launch: Launch) -> list[str]:
    host = (*(name for vendor in vendors().values() for name in vendor.of_the_host), *_OF_THE_HOST)
    env = {name: value for name, value in launch.env if name not in host}
    if (meeting := _meeting_name(launch)) is not None:
        env["MASTER_ADDR"] = meeting
    given = {use.device.vendor for use in launch.uses}
    for name, vendor in vendors().items():
        if name not in given:
            env |= vendor.void
    return [*(f"{name}={value}" for name, value in sorted(env.items())), *(name for name in host if name not in env)]


def _host(launch: Launch, container: Container, who: HostUser, *, log_max_bytes: int) -> Json:
    host: Json = {
        "Mounts": [mount(volume.source, volume.target, read_only=volume.read_only) for volume in container.volumes],
        "RestartPolicy": {"Name": "no"},
        # Twice the size of the job's log: Docker writes each line with its time and its stream.
        "LogConfig": {
            "Type": "json-file",
            "Config": {"max-size": f"{max(1, 2 * log_max_bytes >> 20)}m", "max-file": "2"},
        },
        "NanoCpus": launch.cpu_milli * 1_000_000,
        "Memory": launch.host_memory_mib << 20,
        "MemorySwap": launch.host_memory_mib << 20,
    }
    if who.uid != 0 and container.user is None:
        # Otherwise a set-uid program of an image would have rights on volumes that its user lacks.
        host |= {"SecurityOpt": ["no-new-privileges"], "CapDrop": ["ALL"]}
        host["GroupAdd"] = [str(group) for group in who.groups]
    if container.network is not None:
        host["NetworkMode"] = container.network
    if container.shm_size_mib is not None:
        host["ShmSize"] = container.shm_size_mib << 20
    if launch.numa is not None:
        host["CpusetCpus"] = ",".join(map(str, launch.numa.cpus))
        host["CpusetMems"] = ",".join(map(str, launch.numa.nodes))
    return host


def mount(source: str, target: str, *, read_only: bool = False) -> Json:
    """A directory of the host that a container sees at `target`."""
    # A mount fails if the directory is missing; a bind would let root make it.
    return {"Type": "bind", "Source": source, "Target": target, "ReadOnly": read_only}
