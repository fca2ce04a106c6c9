"""The mode `docker`: an inference server in a container, as a job of Corral's Docker runtime.

It is the container of an ordinary job: its GPUs are those of its allocation, and the site's rules apply.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from corral.core.model.jobs.container import Container, Volume, VolumeKind, check_container
from corral.core.model.units import parse_memory_mib
from corral.features.tuner.deployments.port_holder import HOST, PORT
from corral.features.tuner.deployments.process_mode import SERVING_PORT
from corral.features.tuner.deployments.serving_job import JobMode, ServerWork, gpu_words
from corral.features.tuner.deployments.shell_line import shell_line
from corral.features.tuner.engines.inference_engine import InferenceEngine
from corral.features.tuner.engines.over_nodes import Version, version_in
from corral.features.tuner.model.tuning_spec import TuningSpec

MODELS = "/mnt/data/models"
"""The directory of models that are named by a single word."""

_MODEL = "/model"
_HUGGING_FACE = "/tmp/huggingface"
"""It is not below /root, which images of engines use: only root may enter that, and a container runs as its user."""

_ANY_ADDRESS = "0.0.0.0"


class DockerMode(JobMode):
    """Servers in containers."""

    def check(self, spec: TuningSpec, engine: InferenceEngine) -> None:
        check_container(_container(spec, engine))

    def work(self, spec: TuningSpec, engine: InferenceEngine, parameters: Mapping[str, Any]) -> ServerWork:
        if _directory_of(spec) is None:
            # The directory must exist before Docker mounts it; otherwise the first download of a model creates it.
            with suppress(OSError):
                _hub_cache(spec).mkdir(parents=True, exist_ok=True)
        # The image does not know the user, and libraries ask for the name.
        user = {name: os.environ[name] for name in ("USER", "LOGNAME") if name in os.environ}
        command = _command(spec, engine, parameters, host=HOST, port=PORT)
        return ServerWork(command, {**user, **_env(spec)}, "/", _container(spec, engine))

    def version(self, spec: TuningSpec, engine: InferenceEngine) -> Version | None:
        """Return the version in the tag of the image; "latest" has none."""
        return version_in(_image(spec, engine).rpartition("/")[2].partition(":")[2])

    def serving_command(
        self, spec: TuningSpec, engine: InferenceEngine, parameters: Mapping[str, Any], gpus: int, members: int = 1
    ) -> str:
        container = _container(spec, engine)
        words = ["corral", "run", "--image", str(container.image), *gpu_words(gpus, members)]
        words += ["--shm-size", spec.docker.shm_size]
        if container.network is not None:
            words += ["--network", container.network]
        for volume in container.volumes:
            words += ["--volume", str(volume)]
        env = _env(spec)
        # The secret is not shown: the user of the command has it in HF_TOKEN.
        token = '--env "HF_TOKEN=$HF_TOKEN" ' if env.pop("HF_TOKEN", None) is not None else ""
        for name, value in env.items():
            words += ["--env", f"{name}={value}"]
        way = self.way_over_nodes(spec, engine, parameters, members)
        given = parameters if way is None else {**way.options, **parameters}
        command = _command(spec, engine, given, host=_ANY_ADDRESS, port=SERVING_PORT)
        if way is not None:
            command = ("sh", "-c", way.line(command, {}))
        return f"{shell_line(words)} {token}-- {shell_line(command)}"


def _command(
    spec: TuningSpec, engine: InferenceEngine, parameters: Mapping[str, Any], *, host: str, port: str
) -> tuple[str, ...]:
    model = spec.model.id_or_path
    inside = model if _directory_of(spec) is None else _MODEL
    return engine.command(inside, parameters, host=host, port=port, served=model, python="python3")


def _container(spec: TuningSpec, engine: InferenceEngine) -> Container:
    return Container(
        image=_image(spec, engine),
        volumes=tuple(_volumes(spec)),
        shm_size_mib=parse_memory_mib(spec.docker.shm_size, field="docker.shm_size"),
        network=spec.docker.network,
    )


def _image(spec: TuningSpec, engine: InferenceEngine) -> str:
    """Return the image of the task, otherwise of the engine, with the task's tag if it has one."""
    image = spec.docker.image or engine.image
    if spec.runtime_image_tag is None:
        return image
    # A colon before the last slash belongs to a registry's port.
    path, slash, name = image.partition("@")[0].rpartition("/")
    return f"{path}{slash}{name.partition(':')[0]}:{spec.runtime_image_tag}"


def _volumes(spec: TuningSpec) -> Iterator[Volume]:
    directory = _directory_of(spec)
    if directory is not None:
        yield Volume(VolumeKind.HOST_PATH, directory, _MODEL, read_only=True)
    else:
        yield Volume(VolumeKind.HOST_PATH, str(_hub_cache(spec)), _HUGGING_FACE)


def _env(spec: TuningSpec) -> dict[str, str]:
    model = spec.model.id_or_path if _directory_of(spec) is None else _MODEL
    # The container's user has no home in the image.
    return {"HOME": "/tmp", **spec.env, "MODEL_PATH": model, "HF_HOME": _HUGGING_FACE}


def _directory_of(spec: TuningSpec) -> str | None:
    """Return the model's directory on the host, None for a model of the hub."""
    model = spec.model.id_or_path
    if model.startswith("/"):
        return model
    named = os.path.join(MODELS, model)
    return named if "/" not in model and os.path.isdir(named) else None


def _hub_cache(spec: TuningSpec) -> Path:
    """Return the directory on the host for the user's models of the hub."""
    return Path(spec.env.get("HF_HOME") or "~/.cache/huggingface").expanduser()
