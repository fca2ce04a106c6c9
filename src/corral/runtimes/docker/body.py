"""What Docker is asked for: the body of "create a container", made of a launch. Pure."""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from corral.model.container import Container
from corral.model.errors import Refused
from corral.model.launch import Launch
from corral.runtimes.docker.records import HostUser, OrderedDevice
from corral.vendors.registry import vendor_named, vendors
from corral.vendors.vendor import Reached

Json = dict[str, Any]

SERVER, LAUNCH, ALLOCATION, JOB, USER, NAME = (
    f"corral.{name}" for name in ("server", "launch", "allocation", "job", "user", "name")
)
"""Labels of containers: by the first two a server knows its own again."""

_OF_THE_HOST = ("CORRAL_GPU_INDICES", "CORRAL_HOME")
"""A container sees its own GPUs alone, counted from 0. Of these it has none, and of those by which its host's processes
see devices, also if its image has them."""

_WITHOUT_NAMES = (None, "default", "bridge", "none", "host")
"""Docker's own networks, on which containers do not find each other by name."""

_IMAGES_DIRECTORY = "/"


def container_name(tag: str, launch_id: str) -> str:
    """The one name of a launch's container on its host."""
    return f"corral-{tag}-{launch_id}"


def body_of(launch: Launch, tag: str, who: HostUser, *, log_max_bytes: int, max_processes: int) -> Json:
    """All but the GPUs, for a job of this user's. Raises Refused for what no container can be."""
    container = launch.job.spec.container
    if container is None or container.image is None:
        raise Refused("image: this job has no container", field="image")
    spec = launch.job.spec
    body: Json = {
        "Image": container.image,
        # In place of what the image starts, as for a pod: what is run is what was written after `--`.
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
    """By what the members of a gang find rank 0 on a network of the site's own, where the host's address is no use."""
    container = launch.job.spec.container
    env = dict(launch.env)
    if container is None or container.network in _WITHOUT_NAMES or "MASTER_ADDR" not in env or launch.members < 2:
        return None
    where = f"{launch.allocation_id} {env['MASTER_ADDR']} {env.get('MASTER_PORT')}"
    return f"corral-{hashlib.sha256(where.encode()).hexdigest()[:16]}"


def with_devices(devices: Sequence[OrderedDevice], cdi_devices: Collection[str]) -> Json:
    """What of its host's configuration has these GPUs, which are all of one vendor."""
    if not devices:
        return {"DeviceRequests": []}
    reached = [Reached(device.uuid, tuple(device.files)) for device in devices]
    return vendor_named(devices[0].vendor).in_container(reached, cdi_devices)


def cdi_devices(info: Mapping[str, Any]) -> list[str]:
    """The names of CDI devices in what the daemon says of itself (API 1.50 and later)."""
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
        # Twice what the job's log holds: Docker writes each line with its time and its stream.
        "LogConfig": {
            "Type": "json-file",
            "Config": {"max-size": f"{max(1, 2 * log_max_bytes >> 20)}m", "max-file": "2"},
        },
        "NanoCpus": launch.cpu_milli * 1_000_000,
        "Memory": launch.host_memory_mib << 20,
        "MemorySwap": launch.host_memory_mib << 20,
    }
    if who.uid != 0 and container.user is None:
        # What is set-uid in an image would else have the power over volumes that its user has not.
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
    # A mount fails where there is no such directory; a bind would have root make one.
    return {"Type": "bind", "Source": source, "Target": target, "ReadOnly": read_only}
