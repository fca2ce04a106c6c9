"""Find out about a job before it runs: from its command, its environment, and the model that it names."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from corral.core.model.printable import printable
from corral.core.model.version import Version, dotted
from corral.core.ports.images import ContainerProgram, ImageFacts
from corral.core.ports.preflight import Place, Workload
from corral.core.preflight.command_line import CommandLine, read_command
from corral.core.preflight.cuda_runtime import FoundRuntime
from corral.core.preflight.estimate import Estimate, estimate_local, estimate_named
from corral.core.preflight.file_facts import FileFacts, file_query, read_facts
from corral.core.preflight.model_source import LocalModel
from corral.core.preflight.precision import canonical
from corral.core.preflight.rules import granted_mib
from corral.vendors.registry import vendors
from corral.vendors.vendor import ImageSays


@dataclass(frozen=True, slots=True)
class Stated:
    """The user's statements about the job; they override what was found."""

    cuda: Version | None = None
    dtype: str | None = None


@dataclass(frozen=True, slots=True)
class Detection:
    """The findings about a job; `sources` says where they come from, one line each for the user."""

    work: Workload
    estimate: Estimate | None = None
    sources: tuple[str, ...] = ()

    @property
    def tells(self) -> bool:
        """Whether anything is known of the job, so that a rule could find something."""
        return self.estimate is not None or self.work != Workload()

    def work_in(self, place: Place) -> Workload:
        """The workload with its memory needs, and the context that fits into the memory granted by the place."""
        if self.estimate is None:
            return self.work
        granted = granted_mib(place)
        return replace(
            self.work,
            need_mib=self.estimate.need_mib,
            want_mib=self.estimate.total_mib,
            fitting_context=None if granted is None else self.estimate.fitting_context(granted),
        )


def detect(command: Sequence[str], env: Mapping[str, str], workdir: Path, stated: Stated | None = None) -> Detection:
    """The findings from a command, its environment and its model. Files that cannot be read are ignored."""
    line = read_command(command)
    return detection(line, env, read_facts(file_query(line, env, str(workdir))), stated)


def detection(line: CommandLine, env: Mapping[str, str], files: FileFacts, stated: Stated | None = None) -> Detection:
    """The findings from a command and its environment, combined with those from files."""
    said = stated or Stated()
    sources = []
    runtime = said.cuda
    if runtime is None and files.runtime is not None:
        runtime = files.runtime.version
        sources.append(f"CUDA {dotted(runtime)}: {files.runtime.source}")
    framework = line.framework
    if framework is None and files.paddle is not None:
        framework = "paddle"
        sources.append(f"PaddlePaddle: {files.paddle}")
    model = files.model
    found = _estimate(line, model)
    estimate = found if isinstance(found, Estimate) else None
    if files.model_trouble:
        sources.append(f"model: {files.model_trouble}")
    if found is not None:
        sources.append(f"memory: {found.source if isinstance(found, Estimate) else f'not known: {found}'}")
    work = Workload(
        runtime=runtime,
        framework=framework,
        dtype=_dtype(said.dtype or line.dtype, framework, model),
        quantization=canonical(line.quantization) or (model.shape.quantization if model else None),
        world_size=line.world_size,
        tensor_parallel=line.load.tensor_parallel if line.model else None,
        heads=model.shape.heads if model else None,
        memory_fraction=line.fraction,
        allocator=env.get("FLAGS_allocator_strategy"),
    )
    return Detection(work, estimate, tuple(sources))


def _words_of(program: ContainerProgram, facts: ImageFacts | None) -> tuple[str, ...]:
    """Return the words that the container runs; those of an image that is not known are missing."""
    if program.command or facts is None:
        return (*program.command, *program.args)
    return (*facts.entrypoint, *(program.args or facts.command))


def detection_in_container(
    program: ContainerProgram, facts: ImageFacts | None, runtime: Version | None = None
) -> Detection:
    """Return the findings about a container. Without facts about its image, those of its command.

    `runtime` is the version of CUDA that the user names, in case the image does not say it.
    """
    env = program.env
    says = _image_says(facts, env)
    brought = None if says.runtime is None else FoundRuntime(says.runtime, f"image {printable(program.image)}")
    if brought is None and runtime is not None:
        brought = FoundRuntime(runtime, "as asked for")
    found = detection(read_command(_words_of(program, facts)), env, FileFacts(runtime=brought))
    return replace(found, work=replace(found.work, driver_condition=says.driver_condition))


def _image_says(facts: ImageFacts | None, env: Mapping[str, str]) -> ImageSays:
    """Return what the image says of its runtime, by the names of the first vendor that it has; `env` replaces its
    variables.
    """
    for vendor in vendors().values():
        names = vendor.preflight.image
        if names is not None and facts is not None:
            given = {name: env[name] for name in names.variables if name in env}
            says = names.read({**facts.variables, **given}, facts.labels)
            if says != ImageSays():
                return says
    return ImageSays()


def _estimate(line: CommandLine, model: LocalModel | None) -> Estimate | str | None:
    if line.model is None:
        return None
    return estimate_local(model, line.load) if model else estimate_named(line.model, line.load)


def _dtype(asked: str | None, framework: str | None, model: LocalModel | None) -> str | None:
    """The requested precision, else that of the model. The model's float32 becomes float16, as servers do it."""
    named = canonical(asked)
    if named is not None or model is None or framework not in ("vllm", "sglang"):
        return named
    return "float16" if model.shape.dtype == "float32" else model.shape.dtype
