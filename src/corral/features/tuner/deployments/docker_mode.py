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
from corral.features.tuner.deployments.serving_job import JobMode, PrintedWork, ServerWork
from corral.features.tuner.deployments.shell_line import shell_line
from corral.features.tuner.engines.inference_engine import InferenceEngine
from corral.features.tuner.engines.over_nodes import Version, version_in
from corral.features.tuner.model.tuning_spec import TuningSpec

_MODEL = "/model"
_HUGGING_FACE = "/tmp/huggingface"
"""It is not below /root, which images of engines use: only root may enter that, and a container runs as its user."""

_ANY_ADDRESS = "0.0.0.0"
_WORKING_DIRECTORY = "/"
_HOME = {"HOME": "/tmp"}
"""The container's user has no home in the image."""

_USER_OF_SHELL = '--env "USER=$(id -un)" --env "LOGNAME=$(id -un)"'
_HUB_OF_SHELL = f'--volume "${{HF_HOME:-$HOME/.cache/huggingface}}:{_HUGGING_FACE}"'


class DockerMode(JobMode):
    """Servers in containers. `model_root` is the directory of models that are named by a single word."""

    def __init__(self, model_root: str) -> None:
        self._model_root = model_root

    def check(self, spec: TuningSpec, engine: InferenceEngine) -> None:
        super().check(spec, engine)
        check_container(self._container(spec, engine))

    def work(self, spec: TuningSpec, engine: InferenceEngine, parameters: Mapping[str, Any]) -> ServerWork:
        if self._directory_of(spec) is None:
            # The directory must exist before Docker mounts it; otherwise the first download of a model creates it.
            with suppress(OSError):
                _hub_cache(spec).mkdir(parents=True, exist_ok=True)
        # The image does not know the user, and libraries ask for the name.
        user = {name: os.environ[name] for name in ("USER", "LOGNAME") if name in os.environ}
        env = {**user, **_HOME, **spec.env, **self._env_of_model(spec)}
        command = self._command(spec, engine, parameters, host=HOST, port=PORT)
        return ServerWork(command, env, _WORKING_DIRECTORY, self._container(spec, engine))

    def printed(self, spec: TuningSpec, engine: InferenceEngine, parameters: Mapping[str, Any]) -> PrintedWork:
        container, of_model = self._container(spec, engine), self._env_of_model(spec)
        words = ["--image", str(container.image), "--shm-size", spec.docker.shm_size, "--workdir", _WORKING_DIRECTORY]
        if container.network is not None:
            words += ["--network", container.network]
        directory = self._directory_of(spec)
        if directory is not None:
            words += [word for volume in container.volumes for word in ("--volume", str(volume))]
        for name, value in {**{key: _HOME[key] for key in _HOME if key not in spec.env}, **of_model}.items():
            words += ["--env", f"{name}={value}"]
        of_shell = _USER_OF_SHELL if directory is not None else f"{_USER_OF_SHELL} {_HUB_OF_SHELL}"
        names = tuple(name for name in spec.env if name not in of_model)
        command = self._command(spec, engine, parameters, host=_ANY_ADDRESS, port=SERVING_PORT)
        return PrintedWork(f"{shell_line(words)} {of_shell}", names, command)

    def version(self, spec: TuningSpec, engine: InferenceEngine) -> Version | None:
        """Return the version in the tag of the image; "latest" has none."""
        return version_in(_image(spec, engine).rpartition("/")[2].partition(":")[2])

    def _command(
        self, spec: TuningSpec, engine: InferenceEngine, parameters: Mapping[str, Any], *, host: str, port: str
    ) -> tuple[str, ...]:
        model = spec.model.id_or_path
        inside = model if self._directory_of(spec) is None else _MODEL
        return engine.command(inside, parameters, host=host, port=port, served=model, python="python3")

    def _container(self, spec: TuningSpec, engine: InferenceEngine) -> Container:
        return Container(
            image=_image(spec, engine),
            volumes=tuple(self._volumes(spec)),
            shm_size_mib=parse_memory_mib(spec.docker.shm_size, field="docker.shm_size"),
            network=spec.docker.network,
        )

    def _volumes(self, spec: TuningSpec) -> Iterator[Volume]:
        directory = self._directory_of(spec)
        if directory is not None:
            yield Volume(VolumeKind.HOST_PATH, directory, _MODEL, read_only=True)
        else:
            yield Volume(VolumeKind.HOST_PATH, str(_hub_cache(spec)), _HUGGING_FACE)

    def _env_of_model(self, spec: TuningSpec) -> dict[str, str]:
        model = spec.model.id_or_path if self._directory_of(spec) is None else _MODEL
        return {"MODEL_PATH": model, "HF_HOME": _HUGGING_FACE}

    def _directory_of(self, spec: TuningSpec) -> str | None:
        """Return the model's directory on the host, None for a model of the hub."""
        model = spec.model.id_or_path
        if model.startswith("/"):
            return model
        named = os.path.join(self._model_root, model)
        return named if "/" not in model and os.path.isdir(named) else None


def _image(spec: TuningSpec, engine: InferenceEngine) -> str:
    """Return the image of the task, otherwise of the engine, with the task's tag if it has one."""
    image = spec.docker.image or engine.image
    if spec.runtime_image_tag is None:
        return image
    # A colon before the last slash belongs to a registry's port.
    path, slash, name = image.partition("@")[0].rpartition("/")
    return f"{path}{slash}{name.partition(':')[0]}:{spec.runtime_image_tag}"


def _hub_cache(spec: TuningSpec) -> Path:
    """Return the directory on the host for the user's models of the hub."""
    return Path(spec.env.get("HF_HOME") or "~/.cache/huggingface").expanduser()
