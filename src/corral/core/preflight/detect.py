"""Find out about a job before it runs: from its command, its environment, and the model that it names."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from corral.core.model.version import Version, dotted
from corral.core.ports.preflight import Place, Workload
from corral.core.preflight.command_line import CommandLine, read_command
from corral.core.preflight.estimate import Estimate, estimate_local, estimate_named
from corral.core.preflight.file_facts import FileFacts, file_query, read_facts
from corral.core.preflight.model_source import LocalModel
from corral.core.preflight.precision import canonical
from corral.core.preflight.rules import granted_mib


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
