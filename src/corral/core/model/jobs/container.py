"""The container in which a job's command runs, where the site runs containers: its image, and the files it sees."""

import posixpath
import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from corral.core.model.errors import Refused
from corral.core.model.field import JobOption, Kind

MAX_IMAGE_LENGTH = 500
MAX_VOLUMES = 50
MAX_PATH_LENGTH = 4096
MAX_TEMPLATE_LENGTH = 64 * 1024
MAX_SHM_MIB = 1 << 24

_OBJECT_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", re.ASCII)
"""The name of an object of a cluster: a DNS subdomain (RFC 1123)."""

_NETWORK = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]{0,127}", re.ASCII)
"""The name of a Docker network. A name with a colon would be the network of another container."""

_USER = re.compile(r"[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,63}(:[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,63})?", re.ASCII)

_MADE_BY_RUNTIMES = (
    *("/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/dev/null", "/proc/self", "/sys/fs/cgroup"),
    *("/run/secrets", "/usr/bin/nvidia-smi", "/usr/lib/x86_64-linux-gnu/libcuda.so", "/usr/lib64/libcuda.so"),
)
"""Files that runtimes add to containers, or to those with GPUs: in a volume they create them, empty and as root."""

_VOLUME = "write HOSTPATH:PATH, pvc/NAME:PATH, configmap/NAME:PATH or secret/NAME:PATH, with :ro to only read it"


class VolumeKind(StrEnum):
    """The source of a volume's files. Except for a host directory, the value stands before the name."""

    HOST_PATH = "host"
    CLAIM = "pvc"
    CONFIG_MAP = "configmap"
    SECRET = "secret"


@dataclass(frozen=True, slots=True)
class Volume:
    """Files that a container sees at the path `target`: a directory of the host, or an object of the cluster.

    `source` is the directory's path, or the object's name.
    """

    kind: VolumeKind
    source: str
    target: str
    read_only: bool = False

    def __str__(self) -> str:
        source = self.source if self.kind is VolumeKind.HOST_PATH else f"{self.kind}/{self.source}"
        return f"{source}:{self.target}{':ro' if self.read_only else ''}"


class Pull(StrEnum):
    """When an image is pulled."""

    MISSING = "missing"
    ALWAYS = "always"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class Container:
    """The container of a job's command.

    Attributes:
        image: as its registry names it; None is the site's default.
        volumes: the files that it can see.
        service_account: the account by which it talks to the cluster; None is the namespace's default.
        pod_template: JSON of a Kubernetes PodTemplateSpec (`metadata`, `spec`) for the rest of its pod; None is none.
        shm_size_mib: the size of its /dev/shm; None is Docker's default, 64 MiB.
        network: Docker's name of its network; None is Docker's default.
        user: the user that it runs as, in Docker's notation: UID, UID:GID or a name within the image; None is the job's
            user.
        pull: when its image is fetched; None is when it is missing.
    """

    image: Annotated[str | None, JobOption("IMAGE", "repo/train:1", own=True)] = None
    """Run in a container of this image.

    In Python: container image to run in, such as "repo/train:1". The container has the `env` and `workdir` that are
    given, and not those of this process.
    """

    volumes: Annotated[
        tuple[Volume, ...],
        JobOption("SRC:PATH[:ro]", "['pvc/data:/data:ro']", name="volume", kind=Kind.TEXTS, many=True, own=True),
    ] = ()
    """Files that the container sees: pvc/NAME, configmap/NAME, secret/NAME or a host's directory; may be repeated.

    In Python: files that the container sees, "SRC:PATH" or "SRC:PATH:ro"; SRC is a directory of the host (if the site
    allows it), pvc/NAME, configmap/NAME or secret/NAME.
    """

    service_account: Annotated[str | None, JobOption("NAME", "trainer", own=True)] = None
    """Service account of the cluster to run as."""

    pod_template: Annotated[
        str | None,
        JobOption("FILE", kind=Kind.OWN, python="str | os.PathLike[str] | Mapping[str, Any] | None", own=True),
    ] = None
    """Kubernetes pod template (YAML) for the rest of the pod.

    In Python: a file with a Kubernetes pod template (YAML or JSON), or the template itself, for the rest.
    """

    shm_size_mib: Annotated[int | None, JobOption("SIZE", "16G", own=True)] = None
    """Size of the container's /dev/shm.  [default: 64M]"""

    network: Annotated[str | None, JobOption("NAME", "bridge", own=True)] = None
    """Docker's network for the container.

    In Python: Docker's network for the container, among those that the site allows; by default Docker's own default.
    """

    user: Annotated[str | None, JobOption("UID[:GID]", "1000:1000", own=True)] = None
    """User in the container.  [default: you]

    In Python: user in the container, if the site allows another than you.
    """

    pull: Annotated[Pull | None, JobOption("WHEN", "always", own=True)] = None
    """When to fetch the image: missing, always, never.  [default: missing]

    In Python: when its image is fetched: "missing", "always" or "never".
    """


def parse_volume(text: str, field: str = "volume") -> Volume:
    """A volume as users write it: "/data:/data:ro", "pvc/models:/models". Raises Refused."""
    parts = text.split(":")
    mode = parts.pop() if len(parts) == 3 and parts[2] in ("ro", "rw") else "rw"
    if len(parts) != 2 or not all(parts):
        raise Refused(f"{field}: {text!r:.200} is not a volume; {_VOLUME}", field=field)
    source, target = parts
    kind = VolumeKind.HOST_PATH
    if not source.startswith("/"):
        prefix, _, source = source.partition("/")
        if prefix not in (VolumeKind.CLAIM, VolumeKind.CONFIG_MAP, VolumeKind.SECRET):
            raise Refused(f"{field}: {text!r:.200} is not a volume; {_VOLUME}", field=field)
        kind = VolumeKind(prefix)
    volume = Volume(kind, source, target, mode == "ro")
    check_volume(volume, field)
    return volume


def _may_be_image(image: str) -> bool:
    """Whether the text can name an image. A part that begins with a dot would change the path in Docker's URLs."""
    written = 0 < len(image) <= MAX_IMAGE_LENGTH and image.isprintable() and " " not in image
    return written and not any(part.startswith(".") or not part for part in image.split("/"))


def check_container(container: Container) -> None:
    """Raise Refused if the container would be invalid everywhere."""
    image = container.image
    if image is not None and not _may_be_image(image):
        raise Refused(f"image: {image!r:.100} is not an image; write one such as repo/train:1", field="image")
    if len(container.volumes) > MAX_VOLUMES:
        raise Refused(
            f"volumes: there are {len(container.volumes)}, and at most {MAX_VOLUMES} are allowed", field="volumes"
        )
    targets: set[str] = set()
    for volume in container.volumes:
        check_volume(volume, "volumes")
        if volume.target in targets:
            raise Refused(f"volumes: two of them are at {volume.target}; give each a path of its own", field="volumes")
        targets.add(volume.target)
    account = container.service_account
    if account is not None and _OBJECT_NAME.fullmatch(account) is None:
        raise Refused(
            f"service_account: {account!r:.100} is not the name of a service account", field="service_account"
        )
    _check_docker_options(container)
    if len(container.pod_template or "") > MAX_TEMPLATE_LENGTH:
        raise Refused(f"pod_template: it is longer than {MAX_TEMPLATE_LENGTH // 1024} KiB", field="pod_template")


def _check_docker_options(container: Container) -> None:
    if container.shm_size_mib is not None and not 1 <= container.shm_size_mib <= MAX_SHM_MIB:
        raise Refused(
            f"shm_size: it must be 1M to {MAX_SHM_MIB >> 20}T, not {container.shm_size_mib}M", field="shm_size"
        )
    if container.network is not None and _NETWORK.fullmatch(container.network) is None:
        raise Refused(
            f"network: {container.network!r:.100} is not the name of a network; write one such as bridge, none or host",
            field="network",
        )
    if container.user is not None and _USER.fullmatch(container.user) is None:
        raise Refused(f"user: {container.user!r:.100} is not a user; write UID, UID:GID or a name", field="user")


def check_volume(volume: Volume, field: str) -> None:
    """Raise Refused if the volume is invalid."""
    target = volume.target
    if volume.kind is VolumeKind.HOST_PATH:
        if not _is_path(volume.source):
            raise Refused(
                f"{field}: {volume.source!r:.200} is not the absolute path of a directory; {_VOLUME}", field=field
            )
    elif _OBJECT_NAME.fullmatch(volume.source) is None:
        raise Refused(f"{field}: {volume.source!r:.100} is not the name of an object; {_VOLUME}", field=field)
    if not _is_path(target) or target == "/":
        raise Refused(f"{field}: {target!r:.200} is not an absolute path within the container; {_VOLUME}", field=field)
    below = (place for place in _MADE_BY_RUNTIMES if place != target and is_below(place, [target]))
    hidden = next(below, None)
    if hidden is not None and volume.kind in (VolumeKind.HOST_PATH, VolumeKind.CLAIM):
        raise Refused(
            f"{field}: {target:.200} cannot be a volume: the container gets {hidden} there, for which root would make "
            "an empty file in your directory; mount it elsewhere, such as at /work",
            field=field,
        )


def is_below(path: str, tops: Iterable[str]) -> bool:
    """Whether an absolute path is one of these directories or below one. Only the text is compared, without links."""
    path = posixpath.normpath(path)
    return any(top in ("/", path) or path.startswith(f"{top}/") for top in map(posixpath.normpath, tops))


def _is_path(path: str) -> bool:
    """Whether the path is absolute, without ".."."""
    plain = len(path) <= MAX_PATH_LENGTH and path.isprintable() and ":" not in path
    return plain and path.startswith("/") and ".." not in path.split("/")
