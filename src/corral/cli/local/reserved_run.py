"""`corral run` in a shell with a reservation: this process becomes the command, on GPUs of the reservation.

The command is not a job: the reservation already holds the GPUs and is charged for them. Lock files of `corral.gpu`
keep concurrent commands apart. They are released when their processes end.
"""

import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from corral.cli.jobs.endings import ending_of
from corral.cli.screen import say
from corral.client import Client, JobRow
from corral.client.submitting.calling_process import environment
from corral.client.submitting.options import RequestOptions
from corral.core.model.answers.devices import DeviceRow
from corral.core.model.errors import Conflict, NotFound, Refused
from corral.core.model.jobs.job import JobKind
from corral.core.model.jobs.phase import Phase
from corral.core.model.units import MILLI_PER_DEVICE, count_of, parse_share_milli
from corral.formatting.device_names import device_called, several_nodes
from corral.formatting.times import clock_time

if TYPE_CHECKING:
    from corral.vendors.vendor import Vendor

RESERVATION = "CORRAL_RESERVATION"
"""The variable with the reservation's id, which `corral reserve` sets in the shell. A job never has it."""

_OWN = ("CORRAL_JOB_ID", RESERVATION)
"""The variables that `corral reserve` sets in a shell."""

_INSTEAD = "add --no-reservation to queue it as a job"
_TAKEN = frozenset({"gpus", "device", "env", "workdir", "force"})
_NOT_FOUND, _CANNOT_RUN = 127, 126
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 1.0


@dataclass(frozen=True)
class Choice:
    """GPUs of a reservation that a command may have.

    Attributes:
        usable: UUIDs in the order they are tried.
        wanted: how many of them it gets.
        shared: the command named them, and shares them with other commands that name them.
    """

    usable: tuple[str, ...]
    wanted: int
    shared: bool = False


def run_reserved(client: Client, words: Sequence[str], options: RequestOptions, *, dry_run: bool) -> NoReturn:
    """Become the command, on GPUs of this shell's reservation, once other commands there leave enough of them free.

    Where its server fences jobs, the command cannot open GPUs outside of the reservation. Raises Conflict if the
    reservation has ended, Refused for options that it cannot serve, and BackendFailed if the command cannot be fenced.
    """
    row = reservation(client, os.environ[RESERVATION])
    devices = client.devices.list()
    vendor = _vendor_of(row, devices)
    choice = choose(row, options, visible=os.environ.get(vendor.variable, ""))
    _refuse_elsewhere(client, row, devices)
    if dry_run:
        chosen = ", ".join(_names(choice.usable, devices))
        say(f"reservation {row.id} would run this at once on {choice.wanted or 'none'} of its GPUs ({chosen})")
        sys.exit(0)
    held = _wait_for(client, row, choice, devices)
    gpus = f"GPU {', '.join(_names(held, devices))}" if held else "no GPU"
    unfenced = client.jobs.fence(row.id)
    say(
        f"runs in reservation {row.id} (until {_until(row)}) on {gpus}, "
        + ("and cannot open those of others" if unfenced is None else f"no fence: {unfenced}")
    )
    _become(words, options, _variables(row, held, vendor))


def reservation(client: Client, job_id: str) -> JobRow:
    """The reservation of this shell. Raises Conflict if it does not hold its GPUs any more."""
    try:
        row = client.jobs.get(job_id)
    except NotFound:
        row = None
    if row is not None and row.kind == JobKind.RESERVE and row.phase == Phase.RUNNING:
        return row
    known = row is not None and row.kind == JobKind.RESERVE
    why = ending_of(row) if row is not None and known and row.ended else f"job {job_id} is not a running reservation"
    raise Conflict(f"this shell's reservation is over: {why}; {_INSTEAD}, or make the shell forget it: {forget()}")


def forget() -> str:
    """The line for a shell to forget its reservation. It unsets the vendor's variables, which select devices."""
    from corral.vendors.registry import vendors

    makers = list(vendors().values())
    seeing = next((one for one in makers if os.environ.get(one.variable)), makers[0])
    return f"unset {' '.join((*seeing.visible(()), *_OWN))}"


def choose(row: JobRow, options: RequestOptions, *, visible: str) -> Choice:
    """The GPUs of the reservation that a command may have. `visible` lists those that this process sees, with commas.

    Raises Refused for too many GPUs, for GPUs outside the reservation, and for options that only a job can have.
    """
    given: Mapping[str, Any] = options
    for option in given:
        if option not in _TAKEN:
            flag = "--" + option.replace("_", "-")
            raise Refused(
                f"{flag}: a command in reservation {row.id} is no job and cannot have it; remove it, or {_INSTEAD}",
                field=flag,
            )
    # A command inside a command sees only the part of the reservation that the outer command got.
    within = [uuid for uuid in row.devices if uuid in visible.split(",")]
    named = tuple(dict.fromkeys(given.get("device", ())))
    for uuid in named:
        if uuid not in within:
            raise Refused(
                f"--device: {uuid} is not in reservation {row.id}; take one of {', '.join(within) or 'none'}, "
                f"or {_INSTEAD}",
                field="--device",
            )
    usable = tuple(named or within)
    if given.get("gpus") is None:
        return Choice(usable, len(usable), shared=bool(named))
    return _part(row, usable, parse_share_milli(str(given["gpus"])), shared=bool(named))


def _part(row: JobRow, usable: tuple[str, ...], asked_milli: int, *, shared: bool) -> Choice:
    """The part of the reservation for `asked_milli`: whole GPUs, or one GPU with at least that share."""
    share_milli = {grant.uuid: grant.share_milli for grant in row.grants}
    have_milli = sum(share_milli.get(uuid, MILLI_PER_DEVICE) for uuid in usable)
    if asked_milli == have_milli:
        return Choice(usable, len(usable), shared)
    least_milli = min(asked_milli, MILLI_PER_DEVICE)
    able = tuple(uuid for uuid in usable if share_milli.get(uuid, MILLI_PER_DEVICE) >= least_milli)
    wanted = -(-asked_milli // MILLI_PER_DEVICE)
    if len(able) < wanted:
        raise Refused(
            f"--gpus: {asked_milli / MILLI_PER_DEVICE:g} are asked for, and reservation {row.id} has "
            f"{have_milli / MILLI_PER_DEVICE:g} here; ask for less, or {_INSTEAD}",
            field="--gpus",
        )
    return Choice(able, wanted, shared)


def _refuse_elsewhere(client: Client, row: JobRow, devices: Sequence[DeviceRow]) -> None:
    """Raises Refused if the reserved GPUs are on another host. The nodes of a mock file are all on this host."""
    from corral.gpu.reading import uuids_of_driver
    from corral.gpu.this_host import nodes_here

    nodes = {device.node for device in devices if device.uuid in row.devices} - {None}
    elsewhere = nodes - set(nodes_here(client, uuids_of_driver))
    if elsewhere and not client.server().mock:
        raise Refused(
            f"the GPUs of reservation {row.id} are on {', '.join(sorted(map(str, elsewhere)))}, and this is "
            f"{os.uname().nodename}; log in there, or {_INSTEAD}",
            field="--no-reservation",
        )


def _wait_for(client: Client, row: JobRow, choice: Choice, devices: Sequence[DeviceRow]) -> tuple[str, ...]:
    """Lock the GPUs for the command. Say once what it waits for. Raises Conflict if the reservation ends before."""
    pause_s, said = _FIRST_PAUSE_S, False
    while True:
        held, busy = take(choice)
        if len(held) == choice.wanted:
            return held
        if not said:
            said = True
            say(
                f"waits for {count_of(choice.wanted, 'GPU')} of reservation {row.id}: another command in it uses GPU "
                f"{', '.join(_names(busy, devices))} (commands that name the same GPU with --device share it)"
            )
        time.sleep(pause_s)
        pause_s = min(_LONGEST_PAUSE_S, 2 * pause_s)
        reservation(client, row.id)


def take(choice: Choice) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Lock the wanted number of GPUs, or none. Return the UUIDs that this process holds, and those that others use.

    The locks stay with this process and its children until the last of them has ended.
    """
    from corral.gpu import lock_files

    held: dict[str, int] = {}
    busy = []
    for uuid in choice.usable:
        if len(held) == choice.wanted:
            break
        lock = lock_files.take(uuid, shared=choice.shared)
        if lock is None:
            busy.append(uuid)
        else:
            held[uuid] = lock
    if len(held) < choice.wanted:
        for lock in held.values():
            lock_files.give_back(lock)
        return (), tuple(busy)
    for lock in held.values():
        os.set_inheritable(lock, True)
    return tuple(held), tuple(busy)


def _vendor_of(row: JobRow, devices: Sequence[DeviceRow]) -> "Vendor":
    from corral.vendors.registry import vendor_named

    return vendor_named(next((device.vendor for device in devices if device.uuid in row.devices), ""))


def _variables(row: JobRow, held: Sequence[str], vendor: "Vendor") -> dict[str, str]:
    from corral.gpu import lock_files

    return {
        **vendor.visible(held),
        "CORRAL_JOB_ID": row.id,
        "CORRAL_GPUS": str(len(held)),
        RESERVATION: row.id,
        lock_files.DEPTH: str(lock_files.depth() + 1),
    }


def _become(words: Sequence[str], options: RequestOptions, variables: Mapping[str, str]) -> NoReturn:
    """Execute the command in place of this process."""
    given = {name: None if value is None else str(value) for name, value in options.get("env", {}).items()}
    environment(given, "--env")  # refuses invalid variables
    env = {**os.environ, **{name: value for name, value in given.items() if value is not None}, **variables}
    workdir = options.get("workdir")
    try:
        if workdir is not None:
            os.chdir(os.path.expanduser(workdir))
    except OSError as error:
        raise Refused(f"--workdir: cannot enter {workdir}: {error.strerror}", field="--workdir") from error
    sys.stdout.flush()
    # Python ignores these signals, and the executed program would inherit that.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvpe(words[0], list(words), env)
    except OSError as error:
        say(f"cannot run {words[0]}: {error.strerror}")
        sys.exit(_NOT_FOUND if isinstance(error, FileNotFoundError) else _CANNOT_RUN)


def _names(uuids: Sequence[str], devices: Sequence[DeviceRow]) -> list[str]:
    called = {device.uuid: device_called(device, several_nodes(devices)) for device in devices}
    return [called.get(uuid, uuid) for uuid in uuids]


def _until(row: JobRow) -> str:
    if row.started_at is None or row.time_limit_s is None:
        return "it is released"
    return clock_time(row.started_at + row.time_limit_s)
