"""`corral check`: check whether a command can run on the GPUs here. Nothing is queued."""

import os
from collections.abc import Sequence
from dataclasses import asdict, replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from corral.cli.commands import measuring
from corral.cli.commands.measuring import CheckFlags
from corral.cli.screen import painted, print_json, say, width, wrapped, write_painted
from corral.client import Client, DeviceRow, NoServer, ServerInfo
from corral.core.model.devices.device import FIRST_VENDOR, VirtualLayer
from corral.core.model.devices.means import Means
from corral.core.model.devices.model_and_profile_match import profile_matches
from corral.core.model.errors import Refused, nearest
from corral.core.model.units import MILLI_PER_DEVICE, parse_memory_mib, parse_share_milli

if TYPE_CHECKING:
    from corral.core.ports.preflight import Finding, Place

_INDENT = " " * 9
_OK_INDENT = " " * 7


def check(given: measuring.CheckCommand) -> int:
    """Run `corral check`."""
    from corral.core.preflight.detect import Stated, detect
    from corral.core.preflight.rules import blocking
    from corral.core.preflight.rules import check as find

    stated = Stated(
        None if given.flags.cuda is None else _version(given.flags.cuda, "--cuda"),
        None if given.flags.dtype is None else parse_dtype(given.flags.dtype),
    )
    found = detect(given.command or [], os.environ, Path.cwd(), stated)
    places = _places_asked_for(given.flags, str(found.work.world_size or 1))
    missing = _missing_program(given.command or [""])
    results = [(place, find(found.work_in(place), place, strict=given.flags.strict)) for place in places]
    if given.flags.json:
        shown = [{"model": place.model, "findings": [asdict(one) for one in findings]} for place, findings in results]
        print_json({"places": shown, "sources": list(found.sources), "program": missing})
    else:
        write_painted(*result_lines(results))
        for line in (*([missing] if missing else []), *(f"found {source}" for source in found.sources)):
            say(line)
    return int(missing is not None or all((blocking(findings) for _, findings in results)))


def _missing_program(command: Sequence[str]) -> str | None:
    """Why a program cannot be started here, or why its interpreter finds no script. None if both are found."""
    from corral.core.preflight.program_lookup import CORRALS_OWN, look_up, search_path, trouble
    from corral.core.preflight.script_argument import exists, no_such_file, script_argument

    program = command[0]
    if not program or program in CORRALS_OWN:
        return None
    path, here = search_path(os.environ), str(Path.cwd())
    started = look_up(program, path, here)
    if not started.found:
        return trouble(started, program, path, here)
    script = script_argument(command)
    if script is None or exists(script.name, path if script.on_path else None, here) is not False:
        return None
    return no_such_file(program, script.name, here)


def _places_asked_for(flags: CheckFlags, ranks: str) -> "list[Place]":
    """The places with the GPUs that would be granted there: as many as `ranks`, unless the flags give a number."""
    if flags.driver is not None:
        _version(flags.driver, "--driver")
    there = _places(flags.gpu_model, flags.driver, flags.mig)
    places = [_granted(place, flags.gpus or ranks, flags.gpu_mem, flags.share) for place in there]
    if flags.vgpu_cuda is None:
        return places
    baseline = _version(flags.vgpu_cuda, "--vgpu-cuda")
    unnamed = VirtualLayer("the layer of virtual GPUs", baseline)
    return [replace(place, virtual=replace(place.virtual or unnamed, baseline=baseline)) for place in places]


def result_lines(results: "Sequence[tuple[Place, tuple[Finding, ...]]]") -> list[str]:
    """The findings for each kind of device. Kinds with the same findings are joined."""
    alike: dict[tuple[bool, tuple[Finding, ...]], list[str]] = {}
    for place, findings in results:
        known = any((place.driver, place.cuda, place.compute, place.device_memory_mib))
        alike.setdefault((known, findings), []).append(place.model)
    return [
        line
        for (known, findings), models in alike.items()
        for line in _finding_lines(", ".join(dict.fromkeys(models)), findings, known=known)
    ]


def _finding_lines(name: str, findings: "Sequence[Finding]", *, known: bool) -> list[str]:
    """The problem, its reason and its fix, each on lines of its own."""
    if not findings and not known:
        return [f"{painted('unknown', 'yellow')}  {name} is unknown, so nothing could be checked"]
    if not findings:
        first, *more = wrapped(f"{name}: no problem found", width() - len(_OK_INDENT))
        return [f"{painted('ok', 'green')}     {first}", *(_OK_INDENT + line for line in more)]
    lines = [painted(line, "bold") for line in wrapped(name, width())]
    for finding in findings:
        style = "red" if finding.effect.value == "block" else "yellow"
        what, *more = wrapped(finding.what, width() - len(_INDENT))
        lines.append(f"  {painted(finding.effect.value.ljust(5), style)}  {what}")
        lines += [_INDENT + line for line in more]
        for start, text in (("because ", finding.why), ("-> ", finding.fix)):
            lines += [_INDENT + line for line in wrapped(start + text, width() - len(_INDENT))]
    return lines


def _places(gpu_model: str | None, driver: str | None, mig: str | None) -> "list[Place]":
    """A place for each kind of device here, or for the named model. An unknown place if neither is known.

    MIG slices are separate kinds, and only a request for their profile gets them. Raises Refused if there are none.
    """
    from corral.core.ports.preflight import Place
    from corral.vendors.registry import vendor_named

    unseen = Place(driver=driver) if mig is None else Place(driver=driver, mig=True, means=Means.MIG)
    if gpu_model is not None:
        compute = vendor_named(FIRST_VENDOR).compute_of_model(gpu_model)
        if compute is None:
            say(f"the GPU model {gpu_model!r} is unknown, so checks that depend on it are skipped")
        return [replace(unseen, model=gpu_model, compute=compute)]
    try:
        with Client() as client:
            server, devices = client.server(), client.devices.list()
    except NoServer:
        if driver is None:
            say("no server answers, so GPUs and driver are unknown; give them with --gpu-model and --driver")
        return [unseen]
    if mig is not None:
        offered = {device.mig_profile for device in devices if device.mig_profile}
        devices = tuple(one for one in devices if one.mig_profile and profile_matches(mig, one.mig_profile))
        if not devices:
            there = ", ".join(sorted(offered)) or "none"
            raise Refused(f"--mig: no GPU here has a {mig} slice; available: {there}", field="--mig")
    else:
        devices = tuple(device for device in devices if device.mig_profile is None and not device.sliced)
    kinds = groupby(sorted(devices, key=_kind), key=_kind)
    return [_place(server, driver, next(same)) for _, same in kinds] or [Place(driver=driver)]


def _kind(device: DeviceRow) -> tuple[str, int, bool, str, str]:
    layer = device.vgpu_layer or "", device.vgpu_cuda or ""
    return device.name, device.memory_total_mib or 0, bool(device.mig_enabled), *layer


def _layer(device: DeviceRow) -> VirtualLayer | None:
    from corral.core.model.version import version_of

    baseline = version_of(device.vgpu_cuda or "")
    return None if device.vgpu_layer is None or baseline is None else VirtualLayer(device.vgpu_layer, baseline)


def _place(server: ServerInfo, driver: str | None, device: DeviceRow) -> "Place":
    from corral.core.model.version import version_of
    from corral.core.ports.preflight import Place
    from corral.vendors.registry import vendor_named

    return Place(
        device.name if device.mig_profile is None else f"{device.name} {device.mig_profile}",
        driver=driver or server.driver_version,
        cuda=None if driver else version_of(server.cuda_version or ""),
        compute=version_of(device.compute_capability or "") or vendor_named(FIRST_VENDOR).compute_of_model(device.name),
        means=Means(device.means) if device.means else Means.TIMESLICE,
        virtual=_layer(device),
        mig=device.mig_enabled,
        device_memory_mib=device.memory_total_mib,
    )


def _granted(place: "Place", gpus: str, gpu_mem: str | None, share: str | None) -> "Place":
    """The place with the grant that a job would get there."""
    total_milli = parse_share_milli(gpus)
    whole = total_milli % MILLI_PER_DEVICE == 0
    devices = total_milli // MILLI_PER_DEVICE if whole else -(-total_milli // MILLI_PER_DEVICE)
    share_milli = MILLI_PER_DEVICE if whole else total_milli // devices
    memory_mib = None if gpu_mem is None else parse_memory_mib(gpu_mem, field="--gpu-mem")
    if memory_mib is None and not whole and place.device_memory_mib is not None:
        memory_mib = place.device_memory_mib * share_milli // MILLI_PER_DEVICE
    if share is not None and share not in [means.value for means in Means]:
        hint = nearest(share, [means.value for means in Means])
        raise Refused(f"--share: {share!r} is not a way to share a GPU; {hint}", field="--share")
    means = Means(share) if share else Means.EXCLUSIVE if whole and not place.mig else place.means
    return replace(place, devices=devices, share_milli=share_milli, memory_mib=memory_mib, means=means)


def _version(text: str, flag: str) -> tuple[int, int]:
    from corral.core.model.version import version_of

    version = version_of(text)
    if version is None:
        raise Refused(f"{flag}: {text!r} is not a version; write one such as 12.1", field=flag)
    return version


def parse_dtype(text: str, flag: str = "--dtype") -> str:
    """The canonical name of a precision. Raises Refused for an unknown one."""
    from corral.core.preflight.precision import canonical, known_names

    name = canonical(text)
    if name is None:
        raise Refused(f"{flag}: {text!r} is not a known precision; {nearest(text, known_names())}", field=flag)
    return name
