"""Parse command lines of programs: the flags of vLLM, SGLang and torchrun that decide where they can run."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from corral.core.model.serving.parallelism import MOST_RANKS, WORLDS, world_size
from corral.core.model.units import is_whole
from corral.core.preflight.estimate import InferenceSetup

_SHELLS = ("bash", "sh", "zsh", "dash")
_MODULES = {
    "vllm": "vllm",
    "sglang": "sglang",
    "torch": "torchrun",
    "paddle": "paddle",
}
_PROGRAMS = {"vllm": "vllm", "sglang": "sglang", "torchrun": "torchrun", "fleetrun": "paddle"}

_FLAGS: dict[str, dict[str, str]] = {
    "vllm": {
        "--model": "model",
        "--tensor-parallel-size": "tensor",
        "-tp": "tensor",
        "--pipeline-parallel-size": "pipeline",
        "-pp": "pipeline",
        "--data-parallel-size": "data",
        "-dp": "data",
        "--nnodes": "nodes",
        "-n": "nodes",
        "--distributed-executor-backend": "backend",
        "--prefill-context-parallel-size": "prefill",
        "-pcp": "prefill",
        "--dtype": "dtype",
        "--quantization": "quantization",
        "-q": "quantization",
        "--kv-cache-dtype": "cache_dtype",
        "--max-model-len": "context",
        "--gpu-memory-utilization": "fraction",
    },
    "sglang": {
        "--model-path": "model",
        "--model": "model",
        "--tensor-parallel-size": "tensor",
        "--tp-size": "tensor",
        "--tp": "tensor",
        "--pipeline-parallel-size": "pipeline",
        "--pp-size": "pipeline",
        "--data-parallel-size": "data",
        "--dp-size": "data",
        "--dp": "data",
        "--nnodes": "nodes",
        "--dtype": "dtype",
        "--quantization": "quantization",
        "--kv-cache-dtype": "cache_dtype",
        "--context-length": "context",
        "--mem-fraction-static": "fraction",
    },
    "torchrun": {"--nproc-per-node": "ranks", "--dtype": "dtype"},
    "paddle": {"--nproc-per-node": "ranks"},
}


@dataclass(frozen=True, slots=True)
class CommandLine:
    """The information in a command line. Flags that are absent or cannot be parsed are None.

    Attributes:
        program: the words of the command itself, without a shell around it or assignments before it.
        ranks: the processes that torchrun starts on a node.
        switches: its words that begin with `--enable`.
        nodes: over which a server divides its ranks; None: as many as Ray has, or as a variable says.
        fraction: the part of a device's memory that the server is told to take.
    """

    program: tuple[str, ...]
    framework: str | None = None
    model: str | None = None
    dtype: str | None = None
    quantization: str | None = None
    cache_dtype: str | None = None
    context: int | None = None
    tensor: int | None = None
    pipeline: int | None = None
    data: int | None = None
    prefill: int | None = None
    switches: tuple[str, ...] = ()
    ranks: int | None = None
    nodes: int | None = 1
    fraction: float | None = None

    @property
    def world_size(self) -> int | None:
        """The devices that the program uses on a node. None: not known. A server without a flag for it uses 1."""
        if self.framework is None or self.framework not in WORLDS:
            return self.ranks
        if self.nodes is None:
            return None
        sizes = {"tp": self.tensor, "pp": self.pipeline, "dp": self.data, "cp": self.prefill}
        ranks = world_size(self.framework, {**sizes, **dict.fromkeys(self.switches, True)})
        return None if ranks % self.nodes else ranks // self.nodes

    @property
    def load(self) -> InferenceSetup:
        """The setup of one replica of the model."""
        return InferenceSetup(
            tensor_parallel=self.tensor or 1,
            pipeline_parallel=self.pipeline or 1,
            dtype=self.dtype,
            quantization=self.quantization,
            cache_dtype=self.cache_dtype,
            context=self.context,
        )


def read_command(command: Sequence[str]) -> CommandLine:
    """Parse a command. The result for an unknown framework has only its `program`."""
    program = _unwrapped(command)
    framework, arguments = _framework(program)
    if framework is None:
        return CommandLine(program)
    values = _values(arguments, _FLAGS[framework])
    if framework == "vllm" and "model" not in values and arguments[:1] == ["serve"]:
        values["model"] = next((word for word in arguments[1:2] if not word.startswith("-")), "")
    return CommandLine(
        program,
        framework,
        model=values.get("model") or None,
        dtype=values.get("dtype") or _precision_switch(arguments),
        quantization=values.get("quantization"),
        cache_dtype=values.get("cache_dtype"),
        context=_tokens(values.get("context")),
        tensor=_ranks(values.get("tensor")),
        pipeline=_ranks(values.get("pipeline")),
        data=_ranks(values.get("data")),
        prefill=_ranks(values.get("prefill")),
        switches=tuple(word for word in arguments if word.startswith("--enable")),
        ranks=_count(values.get("ranks")),
        nodes=None if values.get("backend") == "ray" else _count(values.get("nodes", "1")),
        fraction=_fraction(values.get("fraction")),
    )


def _unwrapped(command: Sequence[str]) -> tuple[str, ...]:
    """The command inside `bash -c '...'`, `env A=B ...` and leading assignments."""
    words = list(command)
    if len(words) >= 3 and PurePath(words[0]).name in _SHELLS and words[1].startswith("-") and words[1].endswith("c"):
        try:
            words = shlex.split(words[2])
        except ValueError:
            return tuple(command)
    if words and PurePath(words[0]).name in ("env", "exec", "nohup"):
        words = words[1:]
    while words and "=" in words[0] and words[0].partition("=")[0].isidentifier():
        words = words[1:]
    return tuple(words)


def _framework(program: Sequence[str]) -> tuple[str | None, list[str]]:
    """The framework and the words after its name: `vllm`, or `-m` with one of its modules."""
    for place, word in enumerate(program):
        if place and program[place - 1] == "-m":
            package, _, module = word.partition(".")
            if package == "torch" and not module.startswith("distributed"):
                continue
            if package in _MODULES:
                return _MODULES[package], list(program[place + 1 :])
        name = PurePath(word).name
        if place <= 1 and name in _PROGRAMS:
            return _PROGRAMS[name], list(program[place + 1 :])
    return None, []


def _values(arguments: Sequence[str], flags: Mapping[str, str]) -> dict[str, str]:
    """Values of `--flag value` and `--flag=value`, the last one counting; `_` and `-` in a flag are the same."""
    values = {}
    for place, word in enumerate(arguments):
        flag, equals, value = word.partition("=")
        name = flags.get(flag.replace("_", "-"))
        if name is None:
            continue
        if equals:
            values[name] = value
        elif place + 1 < len(arguments):
            values[name] = arguments[place + 1]
    return values


def _precision_switch(arguments: Sequence[str]) -> str | None:
    """The precision of `--bf16` and `--fp16`, with or without a true value after it."""
    for switch in ("bf16", "fp16"):
        for place, word in enumerate(arguments):
            flag, _, value = word.partition("=")
            follows = value or (arguments[place + 1] if place + 1 < len(arguments) else "")
            if flag == f"--{switch}" and follows.lower() not in ("false", "0"):
                return switch
    return None


def _count(text: str | None) -> int | None:
    return int(text) if text is not None and is_whole(text) and int(text) > 0 else None


def _ranks(text: str | None) -> int | None:
    ranks = _count(text)
    return None if ranks is None or ranks > MOST_RANKS else ranks


def _fraction(text: str | None) -> float | None:
    try:
        fraction = float(text or "")
    except ValueError:
        return None
    return fraction if 0 < fraction <= 1 else None


def _tokens(text: str | None) -> int | None:
    """A context length as the servers read it: "8192", "32k" (thousands), "32K" (of 1024)."""
    if text and is_whole(text[:-1]) and text[-1] in "kK":
        return int(text[:-1]) * (1024 if text[-1] == "K" else 1000)
    return _count(text)
