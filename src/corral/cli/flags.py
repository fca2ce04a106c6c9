"""The flags that describe a job, defined once: `run`, `submit`, `reserve` and the header of a script take the same."""

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, TypeVar, get_type_hints

import typer

from corral.client import Client
from corral.client.request import RequestOptions
from corral.model.errors import Refused
from corral.model.units import MILLI_PER_DEVICE, is_whole, parse_share_milli

F = TypeVar("F", bound="DeviceFlags")


def spell(name: str) -> str:
    """The flag of an option, for errors: min_memory -> --min-memory."""
    return "--" + name.replace("_", "-")


def number_of_gpus(text: str) -> int | str:
    """Whole GPUs as a number, a part as it was written. Raises BadParameter for what is no multiple of a hundredth."""
    try:
        milli = parse_share_milli(text)
    except Refused as refused:
        raise typer.BadParameter(str(refused).removeprefix("--gpus: ")) from None
    return milli // MILLI_PER_DEVICE if milli % MILLI_PER_DEVICE == 0 else text


@dataclass(frozen=True)
class DeviceFlags:
    """What GPUs, and how urgently. None and () are what was not said."""

    gpus: Annotated[
        Any,
        typer.Option(
            "--gpus", metavar="N", help="GPUs: 2, 0.5, 1.2; 0 is a CPU job.  [default: 1]", parser=number_of_gpus
        ),
    ] = None
    gpu_mem: Annotated[
        str | None, typer.Option("--gpu-mem", metavar="SIZE", help="Memory granted on each shared GPU: 20G.")
    ] = None
    gpu_cores: Annotated[
        str | None, typer.Option("--gpu-cores", metavar="PERCENT", help="Part of a shared GPU's compute: 50.")
    ] = None
    mig: Annotated[str | None, typer.Option("--mig", metavar="PROFILE", help="A MIG slice: 1g.10gb.")] = None
    share: Annotated[
        str | None, typer.Option("--share", metavar="MEANS", help="Shared by mps, mig, timeslice; or exclusive.")
    ] = None
    resource: Annotated[
        list[str] | None,
        typer.Option("--resource", metavar="KEY=N,..", help="In other words: cuda.shares=0.5,cpu=2,mem=4g."),
    ] = None
    min_memory: Annotated[
        str | None, typer.Option("--min-memory", metavar="SIZE", help="Least memory of each GPU: 20G (G is GiB).")
    ] = None
    gpu_model: Annotated[
        str | None, typer.Option("--gpu-model", metavar="NAMES", help="Models that will do: A100,H100.")
    ] = None
    min_compute: Annotated[
        str | None, typer.Option("--min-compute", metavar="X.Y", help="Least compute capability: 8.0.")
    ] = None
    min_driver: Annotated[
        str | None, typer.Option("--min-driver", metavar="X.Y", help="Least version of the driver: 550.54.")
    ] = None
    min_cuda: Annotated[
        str | None, typer.Option("--min-cuda", metavar="X.Y", help="Least CUDA version of the driver: 12.1.")
    ] = None
    label: Annotated[
        list[str] | None,
        typer.Option("--label", metavar="K=V", help="On a node that carries cuda-major-version=12; may be repeated."),
    ] = None
    device: Annotated[
        list[str] | None,
        typer.Option("--device", metavar="UUID", help="Exactly this GPU, by UUID or index; may be repeated."),
    ] = None
    accept_in_use: Annotated[
        str | None,
        typer.Option("--accept-in-use", metavar="SIZE", help="A GPU that others use will do with SIZE free on it."),
    ] = None
    name: Annotated[str | None, typer.Option("--name", help="What to call the job.", metavar="TEXT")] = None
    priority: Annotated[
        int | None, typer.Option("--priority", metavar="N", help="A lower number runs first.  [default: 5]")
    ] = None

    def options(self, client: Client) -> RequestOptions:
        """What was said, as the client takes it; a GPU given by its index is looked up."""
        options: Any = {f.name: value for f in fields(self) if _said(value := getattr(self, f.name))}
        if self.device:
            options["device"] = [_uuid(client, named) for named in self.device]
        if self.resource:
            options["resource"] = _by_key(",".join(self.resource).split(","), "--resource", "KEY=N,..")
        if self.label:
            options["label"] = _by_key(self.label, "--label", "KEY=VALUE")
        return options  # type: ignore[no-any-return]


@dataclass(frozen=True)
class JobFlags(DeviceFlags):
    """And what else `run` takes."""

    cpus: Annotated[float | None, typer.Option("--cpus", metavar="N", help="Cores of the host.")] = None
    host_memory: Annotated[
        str | None, typer.Option("--host-memory", metavar="SIZE", help="Memory of the host: 16G.")
    ] = None
    speed: Annotated[
        str | None,
        typer.Option("--speed", metavar="MODEL=X,..", help="How fast it runs where: v100=1,k80=0.2; 0 cannot."),
    ] = None
    checkpoint_signal: Annotated[
        str | None,
        typer.Option(
            "--checkpoint-signal",
            metavar="SIG@TIME",
            help="Sent so long before it is stopped, to make room or at its limit: USR1@60s.",
        ),
    ] = None
    gang: Annotated[
        int | None,
        typer.Option(
            "--gang",
            metavar="M",
            help="M times --gpus, all or none; on one machine a single process, which sees them all.",
        ),
    ] = None
    exclusive: Annotated[bool, typer.Option("--exclusive", help="Every GPU of the machine, however many it has.")] = (
        False
    )
    one_node: Annotated[bool, typer.Option("--one-node", help="All members of the gang on one node.")] = False
    spread: Annotated[bool, typer.Option("--spread", help="Each member of the gang on a node of its own.")] = False
    avoid: Annotated[
        list[str] | None,
        typer.Option("--avoid", metavar="NAME", help="Not on a node where a job of this name runs; may be repeated."),
    ] = None
    time: Annotated[
        str | None, typer.Option("--time", metavar="TIME", help="End it after so long: 90s, 30m, 2h, 1d12h.")
    ] = None
    nice: Annotated[
        int | None, typer.Option("--nice", metavar="N", help="In Slurm's words: 100 is one more than --priority.")
    ] = None
    retries: Annotated[
        int | None, typer.Option("--retries", metavar="N", help="Attempts after a failure.  [default: the site's]")
    ] = None
    queue: Annotated[
        str | None, typer.Option("--queue", metavar="NAME", help="The queue it waits in.  [default: default]")
    ] = None
    project: Annotated[
        str | None, typer.Option("--project", metavar="NAME", help="Whose share it uses.  [default: default]")
    ] = None
    after: Annotated[
        list[str] | None,
        typer.Option(
            "--after",
            metavar="[WHAT:]ID",
            help="Not before job ID succeeds; any:ID ends, notok:ID fails, start:ID starts; singleton.",
        ),
    ] = None
    env: Annotated[
        list[str] | None,
        typer.Option("--env", metavar="K=V", help="Set a variable beside those you have; may be repeated."),
    ] = None
    workdir: Annotated[
        str | None, typer.Option("--workdir", metavar="DIR", help="Where it runs.  [default: this directory]")
    ] = None
    force: Annotated[
        bool, typer.Option("--force", help="Submit it although `corral check` says that it cannot run.")
    ] = False

    def options(self, client: Client) -> RequestOptions:
        options = super().options(client)
        if self.env:
            options["env"] = dict(_variable(given) for given in self.env)
        return options


@dataclass(frozen=True)
class SubmitFlags(JobFlags):
    """And what else `submit` and a script's header take."""

    array: Annotated[
        str | None,
        typer.Option("--array", metavar="SPEC", help="Many alike: 0-9%2 is ten, two at once; 0,3,5-7; 0-10:2."),
    ] = None
    begin: Annotated[
        str | None,
        typer.Option("--begin", metavar="WHEN", help="Not before: 16:00, now+2hours, tomorrow, 2026-12-01T08:00."),
    ] = None
    output: Annotated[
        str | None,
        typer.Option("--output", metavar="FILE", help="Output goes there, not to the log: %x-%j.out, %A_%a.out."),
    ] = None
    error: Annotated[
        str | None, typer.Option("--error", metavar="FILE", help="Standard error goes there, not with the output.")
    ] = None
    open_mode: Annotated[
        str | None, typer.Option("--open-mode", metavar="MODE", help="At each start: append, or truncate.")
    ] = None
    hold: Annotated[bool, typer.Option("--hold", help="Wait until `corral release`.")] = False


def taking(flags: type[F]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the flags of `flags`; it gets them as one value, its argument `flags`."""
    hints = get_type_hints(flags, include_extras=True)
    added = [
        inspect.Parameter(f.name, inspect.Parameter.KEYWORD_ONLY, default=f.default, annotation=hints[f.name])
        for f in fields(flags)
    ]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = [p for name, p in inspect.signature(command).parameters.items() if name != "flags"]

        @functools.wraps(command)
        def taken(**given: Any) -> None:
            command(flags=flags(**{p.name: given.pop(p.name) for p in added}), **given)

        parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own]
        taken.__signature__ = inspect.Signature([*parameters, *added])  # type: ignore[attr-defined]
        taken.__annotations__ = {p.name: p.annotation for p in [*parameters, *added]}
        return taken

    return decorate


def parse_words(flags: type[F], words: Sequence[str], where: str) -> F:
    """The flags that `words` are, as on a command line. Raises Refused, naming `where` they stand."""
    read: list[F] = []

    @taking(flags)
    def keep(flags: F) -> None:
        read.append(flags)

    reader = typer.Typer(add_completion=False, rich_markup_mode=None)
    reader.command(add_help_option=False)(keep)
    try:
        typer.main.get_command(reader).main(list(words), prog_name=where, standalone_mode=False)
    except typer.TyperException as error:
        raise Refused(f"{where}: {error.format_message()}") from error
    return read[0]


def filled(flags: F, defaults: F) -> F:
    """`flags`, and what they leave unsaid as `defaults` say it."""
    unsaid = {f.name for f in fields(flags) if not _said(getattr(flags, f.name))}
    for one, other in _ALIKE:
        # Who says the one has said the other.
        unsaid -= {name for name in (one, other) if {one, other} - unsaid}
    return replace(flags, **{name: getattr(defaults, name) for name in unsaid})


_ALIKE = (("priority", "nice"),)


def _said(value: Any) -> bool:
    """Whether a flag was given; --gpus 0 and --priority 0 were."""
    return value is not None and value is not False and value != []


def _variable(given: str) -> tuple[str, str]:
    key, equals, value = given.partition("=")
    if not (key and equals):
        raise Refused(f"--env: {given!r} sets nothing; write NAME=VALUE", field="--env")
    return key, value


def _by_key(given: Sequence[str], flag: str, form: str) -> dict[str, str]:
    """What a repeated flag says of each key, which `form` shows how to write."""
    values: dict[str, str] = {}
    for one in given:
        key, equals, value = one.partition("=")
        if not (key and equals and value):
            raise Refused(f"{flag}: {one!r} says nothing of anything; write {form}", field=flag)
        if key in values:
            raise Refused(f"{flag}: {key} is given twice; leave one of them out", field=flag)
        values[key] = value
    return values


def _uuid(client: Client, named: str) -> str:
    if not is_whole(named):
        return named
    devices = client.devices.list()
    for device in devices:
        if device.index == int(named):
            return device.uuid
    known = ", ".join(str(device.index) for device in devices) or "none"
    raise Refused(f"--device: there is no GPU {named}; this machine's are {known}", field="--device")
