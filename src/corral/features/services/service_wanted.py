"""A model service as its user requests it, and the command line that requests the same. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from corral.features.services.parameters import gpus_in_parameters, parameter_text

_USUAL = "default"
"""The queue and the project of jobs that name none."""

MOUNT_PATH = "/model"
"""The place where OME's server finds the model of a claim."""


@dataclass(frozen=True, slots=True)
class ModelClaim:
    """A PersistentVolumeClaim with a model.

    Attributes:
        sub_path: the model's directory within the claim; "" is all of it.
        mount_path: where OME's server finds it; KServe's finds it at /mnt/models.
    """

    name: str
    sub_path: str = ""
    mount_path: str = MOUNT_PATH

    @property
    def annotations(self) -> dict[str, str]:
        """The annotations that autotuners use for a claim."""
        noted = {
            "ome.io/storage-type": "pvc",
            "ome.io/pvc-name": self.name,
            "ome.io/pvc-subpath": self.sub_path,
            "ome.io/mount-path": self.mount_path,
        }
        return {name: text for name, text in noted.items() if text}


@dataclass(frozen=True, slots=True)
class ServiceWanted:
    """A model service as its user requests it.

    Attributes:
        model_name: OME's ClusterBaseModel; for KServe a storage URI, or a name where the runtime brings the model.
        parameters: options of the runtime, such as {"tp-size": 2}.
        labels, annotations: those beside Corral's own.
        gpus: the number of GPUs; None takes it from the parameters, else from the runtime, else 1.
        env: variables of the server, beside the runtime's own.
        claim: the claim with its model; KServe takes it in place of the model's address.
        queue, project: those of the service's job; None is the default. They matter where a server binds its pods.
    """

    name: str
    namespace: str
    model_name: str
    runtime_name: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    gpus: int | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    claim: ModelClaim | None = None
    queue: str | None = None
    project: str | None = None

    @property
    def asked_gpus(self) -> int | None:
        """GPUs that it names, or its parameters do. Raises Refused if these make no sense."""
        return gpus_in_parameters(self.parameters, self.runtime_name) if self.gpus is None else self.gpus


def deploy_words(via: str, wanted: ServiceWanted) -> tuple[str, ...]:
    """Return the words of the `corral deploy` that requests this service.

    The values of variables may be secrets, so only their names are there: the command takes the values from its shell.
    """
    return ("corral", "deploy", wanted.name, *_options(via, wanted))


def _options(via: str, wanted: ServiceWanted) -> Iterator[str]:
    yield from ("--via", via, "--namespace", wanted.namespace)
    yield from ("--model", wanted.model_name, "--runtime", wanted.runtime_name)
    if wanted.gpus is not None:
        yield from ("--gpus", str(wanted.gpus))
    if wanted.claim is not None:
        yield from ("--claim", f"{wanted.claim.name}/{wanted.claim.sub_path}".removesuffix("/"))
        if wanted.claim.mount_path != MOUNT_PATH:
            yield from ("--mount-path", wanted.claim.mount_path)
    if wanted.queue not in (None, _USUAL):
        yield from ("--queue", wanted.queue)
    if wanted.project not in (None, _USUAL):
        yield from ("--project", wanted.project)
    for name in wanted.env:
        yield from ("--env", name)
    for name, value in wanted.parameters.items():
        yield from ("--param", name if value is True else f"{name}={parameter_text(value)}")
