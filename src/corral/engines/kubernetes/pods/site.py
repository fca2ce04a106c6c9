"""A site's rules for the pods of jobs. Implements `corral.core.ports.containers.Containers`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from corral.core.model.errors import CorralError, Forbidden, Refused
from corral.core.model.jobs.container import Container, Volume, VolumeKind, is_below
from corral.core.model.jobs.job import Request
from corral.core.model.placing.placement_rules import Toleration
from corral.engines.kubernetes.cluster.client import Cluster
from corral.engines.kubernetes.cluster.errors import NoSuchObject
from corral.engines.kubernetes.cluster.gpu_resources import gpu_resource
from corral.engines.kubernetes.cluster.resource import CONFIG_MAPS, PERSISTENT_VOLUME_CLAIMS, SECRETS, ResourceType
from corral.engines.kubernetes.pods.template import Allowed, read_template, tolerations_of


@dataclass(frozen=True, slots=True)
class PodSite:
    """The site's rules for pods.

    Attributes:
        image: the default image; with None each job must name its image.
        host_paths: directories of the nodes that jobs may mount, with all below them.
        service_accounts: the accounts that jobs may use. A pod without an account has no token at all.
        privileged_templates: whether templates may ask for the host's network and the like.
        absence: returns the object that a volume needs and that is missing; None if it exists or is unknown.
    """

    image: str | None = None
    host_paths: tuple[str, ...] = ()
    service_accounts: tuple[str, ...] = ()
    privileged_templates: bool = False
    absence: Callable[[Volume], str | None] = lambda volume: None

    @property
    def every_job(self) -> bool:
        """True: a cluster runs all jobs in containers."""
        return True

    @property
    def reach_daemons(self) -> bool:
        """True: the device plugin connects containers with the daemon."""
        return True

    @property
    def checkpoints(self) -> bool:
        """False: a cluster sends a pod no signal but that of its deletion, and shows no files of it."""
        return False

    def settle(self, asked: Container | None, *, members: int = 1) -> Container:
        """Return the container, with the site's image if it names none. Raises Refused, and Forbidden."""
        container = asked or Container()
        if container.image is None:
            if self.image is None:
                raise Refused(
                    "image: a job runs in a container here, and this site has no default image; "
                    "add --image, such as --image repo/train:1",
                    field="image",
                )
            container = replace(container, image=self.image)
        for volume in container.volumes:
            if volume.kind is VolumeKind.HOST_PATH and not self._shows(volume.source):
                raise Forbidden(
                    f"volume: this site does not show {volume.source:.200} of its hosts to jobs; {self._shown()}",
                    field="volume",
                )
            if (absent := self.absence(volume)) is not None:
                raise Refused(
                    f"volume: there is no {absent}, so the job could not begin; make it first, or correct its name",
                    field="volume",
                )
        for field in ("shm_size_mib", "network", "user", "pull"):
            if getattr(container, field) is not None:
                option = field.removesuffix("_mib")
                raise Refused(
                    f"{option}: that is for containers of Docker's; in a pod it stands in --pod-template", field=option
                )
        account = container.service_account
        if account is not None and account not in self.service_accounts:
            names = f"allowed: {', '.join(self.service_accounts)}" if self.service_accounts else "it allows none"
            raise Forbidden(
                f"service_account: this site does not let jobs be {account}; {names} (kubernetes.service_accounts)",
                field="service_account",
            )
        if container.pod_template is not None:
            read_template(container.pod_template, self.allowed)
        return container

    def tolerations(self, container: Container, request: Request) -> tuple[Toleration, ...]:
        """Return the tolerations of the container's template.

        A job with GPUs also tolerates the taint that keeps other pods off GPU nodes.
        """
        own = () if container.pod_template is None else self._tolerated(container.pod_template)
        return own if request.devices == 0 else (*own, Toleration(gpu_resource(request.vendor)))

    def _tolerated(self, template: str) -> tuple[Toleration, ...]:
        return tolerations_of(read_template(template, self.allowed))

    @property
    def allowed(self) -> Allowed:
        """The settings that templates may have."""
        return Allowed(self.privileged_templates, self._shows)

    def _shows(self, path: str) -> bool:
        return is_below(path, self.host_paths)

    def _shown(self) -> str:
        paths = f"allowed are {', '.join(self.host_paths)}" if self.host_paths else "it allows none"
        return f"{paths} (kubernetes.host_paths); a volume of the cluster is pvc/NAME:PATH"


LOOK_S = 2.0
"""The longest wait of a submission for the API server's answer."""

_OBJECTS: Mapping[VolumeKind, ResourceType] = {
    VolumeKind.CLAIM: PERSISTENT_VOLUME_CLAIMS,
    VolumeKind.CONFIG_MAP: CONFIG_MAPS,
    VolumeKind.SECRET: SECRETS,
}


def absence(cluster: Cluster, volume: Volume) -> str | None:
    """Return the object that the volume needs and that is missing, such as "Secret keys in namespace jobs".

    None if it exists, or if the check is forbidden or unanswered: the pod's events tell later.
    """
    resource = _OBJECTS.get(volume.kind)
    if resource is None:
        return None
    try:
        cluster.get(resource, volume.source, cluster.namespace, timeout_s=LOOK_S)
    except NoSuchObject:
        return f"{resource.kind} {volume.source} in namespace {cluster.namespace}"
    except CorralError:
        return None
    return None
