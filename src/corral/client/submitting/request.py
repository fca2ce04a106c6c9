"""Turns options as users write them ("20G", "2h", "0-9%2") into a `Submission`, for commands and the library."""

import re
import time as clock
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from corral.client.plain_fields import at_least, plain_fields
from corral.client.submitting.arguments import Word
from corral.client.submitting.begin import parse_begin
from corral.client.submitting.calling_process import environment, soft_limits, umask
from corral.client.submitting.containers import container
from corral.client.submitting.git_commit import git_commit
from corral.client.submitting.option_values import Given, checked_options, command_words
from corral.client.submitting.options import RequestOptions
from corral.client.submitting.uploading import upload_of
from corral.client.submitting.where import (
    parse_cuda,
    parse_labels,
    parse_nodes,
    parse_speeds,
    parse_strategy,
    parse_version,
)
from corral.core.model.errors import Refused
from corral.core.model.jobs.array_indices import parse_array
from corral.core.model.jobs.job import JobKind, Request
from corral.core.model.jobs.requested_devices import HOST_RESOURCES, Ask, ask, host_amounts
from corral.core.model.jobs.submission import ArraySpec, Submission
from corral.core.model.jobs.sweep import Sweep
from corral.core.model.units import WHOLE, count_of, parse_duration_s

CHECKPOINT_GRACE_S = 60.0

_FLAGS = {
    "--gpu-mem": "gpu_mem", "--gpu-cores": "gpu_cores", "--gpus": "gpus", "--mig": "mig", "--share": "share",
}  # fmt: skip
"""The flags in messages of `corral.core.model.jobs.requested_devices`, each with its option."""

_COMPUTE = re.compile(rf"({WHOLE})\.({WHOLE})")


def submission(
    command: Sequence[Word],
    options: RequestOptions,
    *,
    kind: JobKind = JobKind.RUN,
    owner_pid: int | None = None,
    script: bool = False,
    script_text: str | None = None,
    spell: Callable[[str], str] = str,
) -> Submission:
    """The submission of `command` and `options`, with this process's environment, directory, umask and limits.

    `script` says that the command runs a script: in a gang, it runs only at rank 0. Other commands run on every member.
    `script_text` is the present content of the script, which will be run.
    `spell` turns the name of an option into the user's spelling, for errors ("min_memory" -> "--min-memory").
    Raises Refused for invalid values. The server checks whether the site has suitable devices.
    """
    given, words = checked_options(options, spell), command_words(command)
    if kind is JobKind.RUN and not (words and words[0]):
        raise Refused("there is no command to run; write it after --, such as: -- python train.py", field="command")
    sweep = _sweep(given, spell)
    signal_name, signal_grace_s = parse_checkpoint_signal(
        given.get("checkpoint_signal"), field=spell("checkpoint_signal")
    )
    upload, workdir = upload_of(given, spell)
    at = git_commit(workdir) if kind is JobKind.RUN else None
    own: dict[str, Any] = {
        "kind": kind,
        "request": device_request(given, spell),
        "after": tuple(given.get("after", ())),
        "begin_at": parse_begin(given.get("begin"), clock.time(), field=spell("begin")),
        "env": (env := environment(given.get("env", {}), spell("env"))),
        "inherited_env": tuple(sorted(name for name in env if name not in given.get("env", {}))),
        "workdir": workdir,
        "inherited_workdir": given.get("workdir") is None and upload is None,
        "upload": upload,
        "container": container(given, spell),
        "umask": umask(),
        "rlimits": soft_limits(),
        "array": _array(given, spell),
        "owner_pid": owner_pid,
        "resources": _resources(given, spell),
        "exclusive": _exclusive(given, spell),
        "speeds": parse_speeds(given.get("speed"), field=spell("speed")),
        "checkpoint_signal": signal_name,
        "checkpoint_grace_s": signal_grace_s,
        "script": script,
        "script_text": script_text,
        "git_commit": None if at is None else at[0],
        "git_dirty": None if at is None else at[1],
        "sweep": sweep,
    }
    return Submission(words, **own, **plain_fields(Submission, given, spell))


def parse_checkpoint_signal(given: str | None, *, field: str = "checkpoint_signal") -> tuple[str | None, float]:
    """A checkpoint signal and the seconds between it and the stop: "B:USR1@60s"; "USR1" alone gives a minute."""
    if given is None:
        return None, CHECKPOINT_GRACE_S
    name, _, grace = given.partition("@")
    target, colon, name = name.strip().upper().rpartition(":")
    name = name.removeprefix("SIG")
    if not name:
        raise Refused(f"{field}: {given!r} has no signal name; write one such as USR1@60s", field=field)
    return f"{target}{colon}{name}", parse_duration_s(grace, field=field) if grace else CHECKPOINT_GRACE_S


def device_request(options: Given, spell: Callable[[str], str] = str) -> Request:
    """The resources that `options` ask for."""
    cpus, host_memory = options.get("cpus"), options.get("host_memory")
    nodes = parse_nodes(options.get("node"), field=spell("node"))
    own: dict[str, Any] = {
        "models": _models(options.get("gpu_model")),
        "min_compute": _compute(options.get("min_compute"), spell("min_compute")),
        "min_driver": parse_version(options.get("min_driver"), field=spell("min_driver")),
        "min_cuda": parse_cuda(options.get("min_cuda"), field=spell("min_cuda")),
        "labels": parse_labels(options.get("label"), field=spell("label")),
        "prefers": parse_labels(options.get("prefer"), field=spell("prefer")),
        "node": nodes[0] if len(nodes) == 1 else None,
        "nodes": nodes if len(nodes) > 1 else (),
        "excluded_nodes": parse_nodes(options.get("exclude"), field=spell("exclude")),
        "cpu_milli": 0 if cpus is None else round(1000 * at_least(0.001, cpus, spell("cpus"))),
        "split": parse_strategy(options.get("split"), field=spell("split")),
    }
    conditions = Request(**own, **plain_fields(Request, options, spell))
    if _resources(options, spell):
        return conditions
    asked = _asked(options, spell)
    cpu_milli, host_memory_mib = host_amounts(_texts(options))
    for other, twice in (("cpus", cpu_milli and cpus), ("host_memory", host_memory_mib and host_memory)):
        if twice:
            raise Refused(
                f"{spell('resource')} and {spell(other)} both request CPUs or memory of the host; remove one of them",
                field=spell(other),
            )
    return replace(asked, cpu_milli=cpu_milli, host_memory_mib=host_memory_mib).request(conditions)


def _asked(options: Given, spell: Callable[[str], str]) -> Ask:
    """The devices that the options ask for. If GPUs are named, their number is the default for `gpus`."""
    gpus, named = options.get("gpus"), len(options.get("device", ()))
    if isinstance(gpus, bool) or not isinstance(gpus, int | float | str | None):
        raise Refused(
            f"{spell('gpus')}: {gpus!r} is not a number of GPUs; write one such as 2 or 0.5", field=spell("gpus")
        )
    if gpus is None and named:
        gpus = named
    cores = options.get("gpu_cores")
    try:
        asked = ask(
            gpus=None if gpus is None else f"{gpus:g}" if isinstance(gpus, float) else str(gpus),
            memory=options.get("gpu_mem"),
            cores=None if cores is None else str(cores),
            profile=options.get("mig"),
            share=options.get("share"),
        )
    except Refused as refused:
        raise _respelled(refused, spell) from None
    if len(set(options.get("device", ()))) < named:
        raise Refused(f"{spell('device')} names the same GPU twice; remove one of them", field=spell("device"))
    if named and asked.devices not in (None, named):
        raise Refused(
            f"{spell('device')} names {count_of(named, 'GPU')} and {spell('gpus')} asks for {gpus}; "
            f"remove {spell('gpus')}, or make them agree",
            field=spell("gpus"),
        )
    return asked


def _respelled(refused: Refused, spell: Callable[[str], str]) -> Refused:
    """The error about a flag, with the option's name in the user's spelling."""
    message, field = str(refused), refused.field
    for flag, option in _FLAGS.items():
        message = message.replace(flag, spell(option))
        field = spell(option) if field == flag else field
    return Refused(message, field=field)


def _exclusive(options: Given, spell: Callable[[str], str]) -> bool:
    """Whether all GPUs of a node are wanted. Raises Refused if another option chooses GPUs or their number."""
    if not options.get("exclusive"):
        return False
    for other in ("gpus", "gpu_mem", "gpu_cores", "mig", "device", "resource"):
        if options.get(other):
            raise Refused(
                f"{spell('exclusive')} takes all GPUs of a node; remove {spell(other)}",
                field=spell(other),
            )
    return True


def _resources(options: Given, spell: Callable[[str], str]) -> dict[str, str]:
    """The amounts by resource name. The server derives all requested devices from them.

    Empty if flags ask for GPUs and the names only for host resources. Raises Refused if both ask for GPUs.
    """
    given = _texts(options)
    of_devices = [name for name in given if name not in HOST_RESOURCES]
    for other in ("gpus", "gpu_mem", "gpu_cores", "mig", "share"):
        if given and options.get(other) is not None:
            if not of_devices:
                return {}
            raise Refused(
                f"{spell('resource')} {of_devices[0]} and {spell(other)} both request GPUs; remove one of them",
                field=spell(other),
            )
    return given


def _texts(options: Given) -> dict[str, str]:
    return {name: str(amount) for name, amount in (options.get("resource") or {}).items()}


def _sweep(options: Given, spell: Callable[[str], str]) -> Sweep | None:
    field, limit = spell("params"), _max_running(options, spell)
    params = options.get("params")
    if not params and not options.get("zip"):
        return None
    from corral.client.submitting.sweep_values import sweep_of

    twice = sorted(set(params or ()) & set(options.get("env", ())))
    if twice:
        raise Refused(f"{field} and {spell('env')} both set {twice[0]}; remove one of them", field=field)
    return sweep_of(params, zipped=options.get("zip", False), limit=limit, field=field, zip_field=spell("zip"))


def _array(options: Given, spell: Callable[[str], str]) -> ArraySpec | None:
    text, limit = options.get("array"), _max_running(options, spell)
    if text is None:
        if limit is not None and not options.get("params"):
            field = spell("max_running")
            raise Refused(
                f"{field} limits the jobs of an array; add {spell('array')} or {spell('params')}", field=field
            )
        return None
    array = parse_array(text, field=spell("array"))
    if limit is not None and array.limit not in (None, limit):
        field = spell("max_running")
        raise Refused(f"{field} {limit} and {spell('array')} {text} contradict each other; remove one", field=field)
    return array if limit is None else replace(array, limit=limit)


def _max_running(options: Given, spell: Callable[[str], str]) -> int | None:
    limit = options.get("max_running")
    return None if limit is None else at_least(1, limit, spell("max_running"))


def _models(models: str | Sequence[str] | None) -> tuple[str, ...]:
    names = [name for one in ([models] if isinstance(models, str) else models or ()) for name in one.split(",")]
    return tuple(name.strip() for name in names if name.strip())


def _compute(text: str | None, field: str) -> tuple[int, int] | None:
    if text is None:
        return None
    match = _COMPUTE.fullmatch(text.strip())
    if match is None:
        raise Refused(f"{field}: {text!r} is not a compute capability; write one such as 8.0", field=field)
    return int(match[1]), int(match[2])
