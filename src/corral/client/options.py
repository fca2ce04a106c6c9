"""The options of a submission by name, type and meaning: said once, for type checkers, `help` and error messages."""

import inspect
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

from corral.model.errors import Refused

if TYPE_CHECKING:
    from corral.client.arguments import JobId
    from corral.client.sweep_values import Values

_FLAG = re.compile(r"--([a-z][a-z-]*)")

F = TypeVar("F", bound=Callable[..., Any])


class RequestOptions(TypedDict, total=False):
    """The options of a job besides its command. Each is a flag of `corral run` or `submit` of the same name.

    Keys:
        gpus: number of GPUs, 1 by default; 0 for none, 0.5 for half of one, 1.2 spread over several if need be.
        gpu_mem: memory to grant on each GPU: "20G"; without `gpus` it also decides the share.
        gpu_cores: percent of each GPU's compute.
        mig: a MIG slice of this profile instead of a GPU: "1g.10gb"; `gpus` counts slices then.
        share: how the GPU must be shared: mps, mig, timeslice or exclusive.
        split: how a part that no GPU gives alone is spread over several: "fill" takes whole GPUs first, "evenly" equal
            parts. By default as the site has it, else "fill", and "evenly" with `resource`.
        resource: the same with another system's resource names: {"cuda.shares": "0.5"}; `cpu` and `mem` are
            those of the host.
        force: submit even if preflight finds that it cannot run.
        min_memory: only GPUs with at least this much memory in total: "20G" (G is GiB).
        gpu_model: only these GPU models, as a list or with commas: "A100,H100".
        vendor: only GPUs of this maker: "nvidia", "amd"; without it those that the site takes a job to be for.
        min_compute: minimum compute capability: "8.0".
        min_driver, min_cuda: minimum driver and CUDA version of the node: "550.54", "12.1".
        label: labels that the node must have: {"cuda-major-version": "12"}.
        prefer: labels that the node should have if possible; nodes with more of them come first.
        node: the node to run on, or several of which any will do: "gpu-01", "gpu-[01-03,07]", ["gpu-01", "gpu-02"].
        exclude: nodes not to run on, written the same way.
        avoid: names of jobs that must not run on the same node.
        gang: members that start together or not at all, each with `gpus` whole GPUs. The command runs once for each
            member, also if several are on one node; RANK, LOCAL_RANK and WORLD_SIZE tell them apart.
        exclusive: all GPUs of one node (in a gang, of one node per member), in place of `gpus`.
        one_node, spread: all members of the gang on one node, or each on a different node.
        checkpoint_signal: signal to send so long before the job is stopped, for another job or at its time limit:
            "USR1@60s", to all of its processes; "B:USR1@60s" to the main one alone, "S:USR1@60s" to all others.
        notify: shell command to run once when the job has ended for good (of an array, when all its jobs have), as you.
            CORRAL_PHASE, CORRAL_EXIT_CODE, CORRAL_REASON and CORRAL_LOG tell it how.
        notify_on: of what you are told through your channel: "started", "done", "failed", or a list of these.
        speed: relative speed on each GPU model, 1 by default, 0 if it cannot run there: {"v100": 1, "k80": 0.2} or
            "v100=1,k80=0.2".
        device: UUIDs of exactly the GPUs to use.
        accept_in_use: also accept a GPU that processes outside Corral use, if this much memory is free: "20G".
        cpus: CPU cores, also fractions.
        host_memory: host memory (RAM): "16G".
        disk: disk space of the host: "100G". It is counted, but not enforced.
        name: the job's name.
        priority: lower numbers run first; None is the site's default.
        nice: as for sbatch(1), in place of priority: 100 is one priority step behind the default.
        time: time limit: "2h", "1:30:00" or "1-12:00:00" as in Slurm, or seconds as a number.
        retries: how often to retry after a failure; None is the site's default.
        queue, project: the queue to wait in and the project that the usage counts for, both "default" by default.
        after: jobs that must succeed first: one or a list, by id or handle. Other conditions: "any:17" (ended),
            "notok:17" (failed), "start:17" (started), "corr:17" (same array element), "singleton";
            alternatives: "17?any:18".
        begin: earliest start: "16:00", "now+2hours", "tomorrow", "2026-12-01T08:00", or Unix seconds.
        output, error: files for standard output and error instead of the log, relative to the working directory:
            "train-%j.out" (%j id, %x name, %A array, %a element, %u user). Without `error`, both go to `output`.
        input: file to read standard input from, named the same way; without one it is empty.
        open_mode: "append" to these files or "truncate" them at each start; by default only the first start truncates.
        env: variables to set besides those of this process: {"SEED": 5}; None removes one.
        workdir: working directory; by default that of this process.
        image: container image to run in, such as "repo/train:1". The container has the `env`
            and `workdir` that are given, and not those of this process.
        volume: files that the container sees, "SRC:PATH" or "SRC:PATH:ro"; SRC is a directory of the host (if the site
            allows it), pvc/NAME, configmap/NAME or secret/NAME.
        shm_size: size of the container's /dev/shm: "16G"; 64M by default.
        network: Docker's network for it, of those that the site allows; Docker's default by default.
        user: who it is in the container, where the site allows that; you by default.
        pull: when its image is fetched: "missing", "always" or "never".
        service_account: service account of the cluster to run as.
        pod_template: a file with a Kubernetes pod template (YAML or JSON), or the template itself, for the rest.
        array: indices and how many may run at once: "0-9%2", "0,3,5-7", "0-10:2", range(10).
        params: a job for each combination of these values: {"lr": [0.1, 0.01], "seed": range(5)}. Each finds its values
            in its environment, and in place of {lr} in command, name, output, error, input and workdir. Text is read as
            on the command line: "0.1,0.01", "0..4"; a number is one value.
        zip: pair the values of `params` instead, the first of all, the second of all, and so on.
        max_running: how many jobs of an array or of `params` may run at once.
        hold: keep it waiting until released.
    """

    gpus: int | float | str | None
    gpu_mem: str | None
    gpu_cores: int | str | None
    mig: str | None
    share: str | None
    split: str | None
    resource: Mapping[str, str | int | float]
    force: bool
    min_memory: str | None
    gpu_model: str | Sequence[str] | None
    vendor: str | None
    min_compute: str | float | None
    min_driver: str | None
    min_cuda: str | int | None
    label: Mapping[str, str]
    prefer: Mapping[str, str]
    node: str | Sequence[str] | None
    exclude: str | Sequence[str] | None
    avoid: str | Sequence[str]
    gang: int | None
    exclusive: bool
    one_node: bool
    spread: bool
    speed: str | Mapping[str, float] | None
    checkpoint_signal: str | None
    notify: str | None
    notify_on: str | Sequence[str]
    device: str | Sequence[str]
    accept_in_use: str | None
    cpus: float | None
    host_memory: str | None
    disk: str | None
    name: str | None
    priority: int | None
    nice: int | None
    time: str | float | None
    retries: int | None
    queue: str | None
    project: str | None
    after: "JobId | Iterable[JobId]"
    begin: str | float | None
    output: str | os.PathLike[str] | None
    error: str | os.PathLike[str] | None
    input: str | os.PathLike[str] | None
    open_mode: str | None
    env: Mapping[str, str | float | None]
    workdir: str | os.PathLike[str] | None
    image: str | None
    volume: str | Sequence[str]
    shm_size: str | None
    network: str | None
    user: str | None
    pull: str | None
    service_account: str | None
    pod_template: "str | os.PathLike[str] | Mapping[str, Any] | None"
    array: str | Iterable[int] | None
    params: "Mapping[str, Values] | None"
    zip: bool
    max_running: int | None
    hold: bool


@contextmanager
def python_words() -> Iterator[None]:
    """What is refused within is told with the names of options in place of the flags: params, not --param."""
    try:
        yield
    except Refused as refused:
        told = "`".join(
            part if quoted % 2 else _FLAG.sub(_option, part) for quoted, part in enumerate(str(refused).split("`"))
        )
        raise type(refused)(told, field=refused.field) from None


def _option(flag: re.Match[str]) -> str:
    name = "params" if flag[1] == "param" else flag[1].replace("-", "_")
    return name if name in RequestOptions.__annotations__ else flag[0]


class _NotGiven:
    """Stands in a signature for the default of an option, which the option's meaning tells."""

    def __repr__(self) -> str:
        return "..."


def with_options(method: F) -> F:
    """A decorator: `help` and editors show a method that takes `RequestOptions` as `**options` with each of them."""
    signature = inspect.signature(method)
    own = [one for one in signature.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
    options = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=_NotGiven(), annotation=_shown(kind))
        for name, kind in RequestOptions.__annotations__.items()
    ]
    method.__signature__ = signature.replace(parameters=[*own, *options])  # type: ignore[attr-defined]
    meanings = inspect.cleandoc(RequestOptions.__doc__ or "").partition("Keys:")[2]
    method.__doc__ = f"{inspect.cleandoc(method.__doc__ or '')}\n\nOptions:{meanings}"
    return method


def _shown(kind: Any) -> Any:
    """An annotation in quotes, without them."""
    return getattr(kind, "__forward_arg__", kind)
