"""`corral check` and `corral estimate`: will this run, and how much memory it needs, before anything is queued."""

import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from itertools import groupby
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated

import typer

from corral.cli.screen import command_group, example, painted, print_json, say, width
from corral.client import Client, DeviceRow, NoServer, ServerInfo
from corral.model.errors import Refused, nearest
from corral.model.means import Means
from corral.model.units import (
    MILLI_PER_DEVICE,
    count_of,
    format_memory,
    parse_memory_mib,
    parse_share_milli,
)

if TYPE_CHECKING:
    from corral.preflight.estimate import Estimate, Load
    from corral.preflight.subject import Finding, Place

_INDENT = " " * 9

app = command_group()

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command(
    context_settings={"allow_interspersed_args": False},
    epilog=example("corral check --gpus 2 -- vllm serve ./model -tp 2", "corral check --cuda 12.1 --dtype bf16"),
)
def check(
    command: Annotated[
        list[str] | None, typer.Argument(metavar="[[--] COMMAND...]", help="What would be run.", show_default=False)
    ] = None,
    *,
    cuda: Annotated[
        str | None, typer.Option("--cuda", metavar="X.Y", help="CUDA version that the program brings.")
    ] = None,
    dtype: Annotated[str | None, typer.Option("--dtype", metavar="NAME", help="Precision: bf16, half, fp8.")] = None,
    gpus: Annotated[
        str | None, typer.Option("--gpus", metavar="N", help="GPUs, or a share such as 0.5.  [what it uses]")
    ] = None,
    gpu_mem: Annotated[
        str | None, typer.Option("--gpu-mem", metavar="SIZE", help="Memory granted of each GPU: 20G.")
    ] = None,
    share: Annotated[
        str | None, typer.Option("--share", metavar="MEANS", help="How GPUs are shared: mps, mig, timeslice.")
    ] = None,
    gpu_model: Annotated[
        str | None, typer.Option("--gpu-model", metavar="NAME", help="For this GPU rather than those here.")
    ] = None,
    driver: Annotated[
        str | None, typer.Option("--driver", metavar="VERSION", help="For this driver rather than the one here.")
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="A runtime newer than the driver blocks, within a major version too.")
    ] = False,
    json: AsJson = False,
) -> None:
    """Say whether a command will run on the GPUs here, and what to change if not.

    Looks at the driver, the CUDA runtime of the command's Python environment, the flags of vLLM, SGLang and torchrun,
    and the config.json of the model. Nothing is run. Exits with 1 if every kind of GPU would refuse it.
    """
    from corral.preflight.detect import Stated, detect
    from corral.preflight.rules import blocking
    from corral.preflight.rules import check as find

    stated = Stated(None if cuda is None else _version(cuda, "--cuda"), None if dtype is None else _dtype(dtype))
    found = detect(command or [], os.environ, Path.cwd(), stated)
    ranks = str(found.work.world_size or 1)
    places = [_granted(place, gpus or ranks, gpu_mem, share) for place in _places(gpu_model, driver)]
    results = [(place, find(found.work_in(place), place, strict=strict)) for place in places]
    if json:
        shown = [{"model": place.model, "findings": [asdict(one) for one in findings]} for place, findings in results]
        print_json({"places": shown, "sources": list(found.sources)})
    else:
        for place, findings in results:
            sys.stdout.writelines(line + "\n" for line in finding_lines(place, findings))
        for source in found.sources:
            say(f"found {source}")
    raise typer.Exit(int(all(blocking(findings) for _, findings in results)))


@app.command(epilog=example("corral estimate Llama-3-70B --tp 4 --dtype fp16 --context 32k --batch 8"))
def estimate(
    model: Annotated[str, typer.Argument(help="A model directory, a cached model's name, or any name with a size.")],
    *,
    tp: Annotated[int, typer.Option("--tp", min=1, metavar="N", help="Tensor parallel size.")] = 1,
    pp: Annotated[int, typer.Option("--pp", min=1, metavar="N", help="Pipeline parallel size.")] = 1,
    dtype: Annotated[str | None, typer.Option("--dtype", metavar="NAME", help="Precision: bf16, half, fp8.")] = None,
    kv_dtype: Annotated[str | None, typer.Option("--kv-dtype", metavar="NAME", help="Precision of the cache.")] = None,
    context: Annotated[
        str | None, typer.Option("--context", metavar="TOKENS", help="Context length: 8192, 32k.  [the model's most]")
    ] = None,
    batch: Annotated[int, typer.Option("--batch", min=1, metavar="N", help="Sequences at once.")] = 1,
    json: AsJson = False,
) -> None:
    """Estimate the GPU memory that a language model needs, and which GPUs here would hold it.

    Weights and cache are counted from the model's config.json. Where there is none, the size in the name decides, and
    where the name states none, a small model is assumed; the last line says which.
    """
    from corral.preflight.estimate import Load, estimate_local, estimate_named, parse_context
    from corral.preflight.model_source import find_model

    load = Load(
        tensor_parallel=tp,
        pipeline_parallel=pp,
        dtype=None if dtype is None else _dtype(dtype),
        cache_dtype=None if kv_dtype is None else _dtype(kv_dtype),
        context=None if context is None else parse_context(context),
        batch=batch,
    )
    local = find_model(model, os.environ, Path.cwd())
    result = estimate_local(local, load) if local else estimate_named(model, load)
    devices = _devices()
    if json:
        holding = None if devices is None else [device.uuid for device in _holding(devices, result)]
        print_json({**asdict(result), "total_mib": result.total_mib, "gpus": load.world_size, "holding": holding})
        return
    sys.stdout.writelines(line + "\n" for line in estimate_lines(result, load, devices))


def finding_lines(place: "Place", findings: "Sequence[Finding]") -> list[str]:
    """The findings for one kind of device: what, why, and the fix, each on a line of its own."""
    if not findings and not any((place.driver, place.cuda, place.compute, place.device_memory_mib)):
        return [f"{painted('unknown', 'yellow')}  nothing is known of {place.model}, so nothing could be checked"]
    if not findings:
        return [f"{painted('ok', 'green')}     {place.model}: nothing speaks against it"]
    lines = [painted(place.model, "bold")]
    for finding in findings:
        style = "red" if finding.severity.value == "block" else "yellow"
        what, *more = wrap(finding.what, width() - len(_INDENT))
        lines.append(f"  {painted(finding.severity.value.ljust(5), style)}  {what}")
        lines += [_INDENT + line for line in more]
        for start, text in (("because ", finding.why), ("-> ", finding.fix)):
            lines += wrap(text, width(), initial_indent=_INDENT + start, subsequent_indent=_INDENT)
    return lines


def estimate_lines(result: "Estimate", load: "Load", devices: Sequence[DeviceRow] | None) -> list[str]:
    """The parts, the sum, who would hold it, and where the figures come from."""
    where = "on one GPU" if load.world_size == 1 else f"on each of {load.world_size} GPUs"
    sequences = count_of(result.batch, "sequence")
    lines = [
        f"{format_memory(result.weights_mib):>8}  weights",
        f"{format_memory(result.cache_mib):>8}  key-value cache of {sequences} of {result.context} tokens",
        f"{format_memory(result.activations_mib):>8}  activations",
        f"{format_memory(result.overhead_mib):>8}  overhead",
        painted(f"{format_memory(result.total_mib):>8}  in all, {where}", "bold"),
    ]
    if devices is not None:
        lines.append(_holding_line(result, load, devices))
    return [*lines, f"from {result.source}"]


def _holding_line(result: "Estimate", load: "Load", devices: Sequence[DeviceRow]) -> str:
    able = _holding(devices, result)
    if len(able) >= load.world_size:
        return f"GPUs here that hold it: {', '.join(str(device.index) for device in able)} ({able[0].name})"
    largest = max((device.memory_total_mib or 0 for device in devices), default=0)
    if not able:
        return f"no GPU here holds it: the largest has {format_memory(largest)}; try --tp {2 * load.tensor_parallel}"
    return f"{count_of(len(able), 'GPU')} here would hold it and {load.world_size} are needed"


def _holding(devices: Sequence[DeviceRow], result: "Estimate") -> list[DeviceRow]:
    return [device for device in devices if not device.sliced and (device.memory_total_mib or 0) >= result.total_mib]


def _devices() -> tuple[DeviceRow, ...] | None:
    """The devices of the server, None when there is no server to ask."""
    try:
        with Client() as client:
            return client.devices.list()
    except NoServer:
        return None


def _places(gpu_model: str | None, driver: str | None) -> "list[Place]":
    """A place for each kind of device here, or the one that was named; an unknown one when there is neither."""
    from corral.preflight.compatibility import compute_of_model
    from corral.preflight.subject import Place

    if gpu_model is not None:
        compute = compute_of_model(gpu_model)
        if compute is None:
            say(f"no GPU {gpu_model!r} is known here, so what depends on it is not checked")
        return [Place(gpu_model, driver=driver, compute=compute)]
    try:
        with Client() as client:
            server, devices = client.server(), client.devices.list()
    except NoServer:
        if driver is None:
            say("no server answers, so GPUs and driver are not known; name them with --gpu-model and --driver")
        return [Place(driver=driver)]
    kinds = groupby(sorted(devices, key=_kind), key=_kind)
    return [_place(server, driver, next(same)) for _, same in kinds] or [Place(driver=driver)]


def _kind(device: DeviceRow) -> tuple[str, int, bool]:
    return device.name, device.memory_total_mib or 0, bool(device.mig_enabled)


def _place(server: ServerInfo, driver: str | None, device: DeviceRow) -> "Place":
    from corral.preflight.compatibility import compute_of_model, version_of
    from corral.preflight.subject import Place

    return Place(
        device.name,
        driver=driver or server.driver_version,
        cuda=None if driver else version_of(server.cuda_version or ""),
        compute=version_of(device.compute_capability or "") or compute_of_model(device.name),
        means=Means(device.means) if device.means else Means.TIMESLICE,
        mig=device.mig_enabled,
        device_memory_mib=device.memory_total_mib,
    )


def _granted(place: "Place", gpus: str, gpu_mem: str | None, share: str | None) -> "Place":
    """The place with what would be granted there."""
    total_milli = parse_share_milli(gpus)
    whole = total_milli % MILLI_PER_DEVICE == 0
    devices = total_milli // MILLI_PER_DEVICE if whole else -(-total_milli // MILLI_PER_DEVICE)
    share_milli = MILLI_PER_DEVICE if whole else total_milli // devices
    memory_mib = None if gpu_mem is None else parse_memory_mib(gpu_mem, field="--gpu-mem")
    if memory_mib is None and not whole and place.device_memory_mib is not None:
        memory_mib = place.device_memory_mib * share_milli // MILLI_PER_DEVICE
    if share is not None and share not in [means.value for means in Means]:
        hint = nearest(share, [means.value for means in Means])
        raise Refused(f"--share: no such way to share a device: {share!r}; {hint}", field="--share")
    means = Means(share) if share else Means.EXCLUSIVE if whole and not place.mig else place.means
    return replace(place, devices=devices, share_milli=share_milli, memory_mib=memory_mib, means=means)


def _version(text: str, flag: str) -> tuple[int, int]:
    from corral.preflight.compatibility import version_of

    version = version_of(text)
    if version is None:
        raise Refused(f"{flag}: {text!r} is not a version; write one such as 12.1", field=flag)
    return version


def _dtype(text: str) -> str:
    from corral.preflight.precision import canonical, known_names

    name = canonical(text)
    if name is None:
        raise Refused(f"--dtype: no such precision: {text!r}; {nearest(text, known_names())}", field="--dtype")
    return name
