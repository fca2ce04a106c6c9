"""The flags that describe a job, defined once for `run`, `submit`, `reserve` and the header lines of a script."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, TypeVar

import typer

from corral.cli.flag_classes import taking
from corral.cli.usage_errors import said_of
from corral.client import Client
from corral.client.options import RequestOptions
from corral.formatting.device_names import device_called, several_nodes
from corral.model.errors import Refused
from corral.model.units import MILLI_PER_DEVICE, is_whole, parse_share_milli

F = TypeVar("F", bound="DeviceFlags")


def spell(name: str) -> str:
    """The flag of an option, for error messages: min_memory -> --min-memory."""
    return "--param" if name == "params" else "--" + name.replace("_", "-")


def number_of_gpus(text: str) -> int | str:
    """Whole GPUs as a number, a share as it was written. Raises BadParameter unless it is a multiple of 0.01."""
    try:
        milli = parse_share_milli(text)
    except Refused as refused:
        raise typer.BadParameter(str(refused).removeprefix("--gpus: ")) from None
    return milli // MILLI_PER_DEVICE if milli % MILLI_PER_DEVICE == 0 else text


@dataclass(frozen=True)
class DeviceFlags:
    """Which GPUs, and how urgently. None and () mean that the flag was not given."""

    gpus: Annotated[
        Any,
        typer.Option(
            "--gpus",
            metavar="N",
            help="Number of GPUs: 2; 0.5 for half of one; 0 for none.  [default: 1]",
            parser=number_of_gpus,
        ),
    ] = None
    gpu_mem: Annotated[
        str | None, typer.Option("--gpu-mem", metavar="SIZE", help="GPU memory to grant on each shared GPU: 20G.")
    ] = None
    gpu_cores: Annotated[
        str | None, typer.Option("--gpu-cores", metavar="PERCENT", help="Percent of each shared GPU's compute: 50.")
    ] = None
    mig: Annotated[
        str | None, typer.Option("--mig", metavar="PROFILE", help="Run on a MIG slice of this profile: 1g.10gb.")
    ] = None
    share: Annotated[
        str | None,
        typer.Option("--share", metavar="MEANS", help="How to share the GPU: mps, mig, timeslice or exclusive."),
    ] = None
    split: Annotated[
        str | None,
        typer.Option(
            "--split",
            metavar="HOW",
            help="Spread a part over several GPUs: fill (whole GPUs first) or evenly.  [default: fill; with "
            "--resource evenly]",
        ),
    ] = None
    resource: Annotated[
        list[str] | None,
        typer.Option(
            "--resource",
            metavar="KEY=N,..",
            help="Another system's resource names: cuda.shares=0.5,mem=4g. `corral resources` lists them.",
        ),
    ] = None
    min_memory: Annotated[
        str | None,
        typer.Option("--min-memory", metavar="SIZE", help="Only GPUs with at least this much memory: 20G (GiB)."),
    ] = None
    gpu_model: Annotated[
        str | None, typer.Option("--gpu-model", metavar="NAMES", help="Only these GPU models: A100,H100.")
    ] = None
    vendor: Annotated[
        str | None, typer.Option("--vendor", metavar="NAME", help="Only GPUs of this maker: nvidia, amd.")
    ] = None
    min_compute: Annotated[
        str | None, typer.Option("--min-compute", metavar="X.Y", help="Minimum compute capability: 8.0.")
    ] = None
    min_driver: Annotated[
        str | None, typer.Option("--min-driver", metavar="X.Y", help="Minimum driver version: 550.54.")
    ] = None
    min_cuda: Annotated[
        str | None, typer.Option("--min-cuda", metavar="X.Y", help="Minimum CUDA version of the driver: 12.1.")
    ] = None
    label: Annotated[
        list[str] | None,
        typer.Option("--label", metavar="K=V", help="Only nodes with this label; may be repeated."),
    ] = None
    prefer: Annotated[
        list[str] | None,
        typer.Option("--prefer", metavar="K=V", help="Nodes with this label first, if any fit; may be repeated."),
    ] = None
    node: Annotated[
        list[str] | None,
        typer.Option("--node", metavar="NAMES", help="Only this node, or any of these: gpu-01, gpu-[01-03,07]."),
    ] = None
    exclude: Annotated[
        list[str] | None,
        typer.Option("--exclude", metavar="NAMES", help="Not on these nodes: gpu-01, gpu-[01-03,07]."),
    ] = None
    device: Annotated[
        list[str] | None,
        typer.Option("--device", metavar="GPU", help="Exactly this GPU: UUID, index or NODE:INDEX; may be repeated."),
    ] = None
    accept_in_use: Annotated[
        str | None,
        typer.Option(
            "--accept-in-use",
            metavar="SIZE",
            help="Also accept a GPU that processes outside Corral use, if SIZE is free.",
        ),
    ] = None
    name: Annotated[str | None, typer.Option("--name", help="Name of the job.", metavar="TEXT")] = None
    priority: Annotated[
        int | None, typer.Option("--priority", metavar="N", help="Lower numbers run first.  [default: 5]")
    ] = None

    def options(self, client: Client | None) -> RequestOptions:
        """The flags that were given, as the client takes them. `client` looks up GPUs that are given by their index."""
        options: Any = {f.name: value for f in fields(self) if said(value := getattr(self, f.name))}
        if self.device and client is not None:
            options["device"] = [_uuid(client, named) for named in self.device]
        if self.resource:
            # A name alone stands for the default amount of its definition.
            words = [word if "=" in word else f"{word}=" for word in ",".join(self.resource).split(",") if word]
            options["resource"] = _by_key(words, "--resource", "KEY=N,..", empty=True)
        if self.label:
            options["label"] = _by_key(self.label, "--label", "KEY=VALUE")
        if self.prefer:
            options["prefer"] = _by_key(self.prefer, "--prefer", "KEY=VALUE")
        return options  # type: ignore[no-any-return]


@dataclass(frozen=True)
class JobFlags(DeviceFlags):
    """What `run` takes besides."""

    cpus: Annotated[float | None, typer.Option("--cpus", metavar="N", help="CPU cores.")] = None
    host_memory: Annotated[
        str | None, typer.Option("--host-memory", metavar="SIZE", help="Host memory (RAM): 16G.")
    ] = None
    disk: Annotated[
        str | None, typer.Option("--disk", metavar="SIZE", help="Disk of the node: 100G. Counted, not enforced.")
    ] = None
    speed: Annotated[
        str | None,
        typer.Option(
            "--speed",
            metavar="MODEL=X,..",
            help="Relative speed on each GPU model, 0 if it cannot run there: v100=1,k80=0.2.",
        ),
    ] = None
    checkpoint_signal: Annotated[
        str | None,
        typer.Option(
            "--checkpoint-signal",
            metavar="SIG@TIME",
            help="Send this signal so long before the job is stopped, at its time limit or for another job: USR1@60s. "
            "B:USR1@60s is for its main process alone, S:USR1@60s for all others.",
        ),
    ] = None
    notify: Annotated[
        str | None,
        typer.Option(
            "--notify",
            metavar="CMD",
            help="Shell command to run once when the job has ended: 'mail -s \"$CORRAL_JOB_NAME $CORRAL_PHASE\" me'.",
        ),
    ] = None
    notify_on: Annotated[
        str | None,
        typer.Option(
            "--notify-on",
            metavar="WHAT,..",
            help="Tell you in your channel that it has started, done (succeeded) or failed: done,failed.",
        ),
    ] = None
    gang: Annotated[
        int | None,
        typer.Option(
            "--gang",
            metavar="M",
            help="M members with --gpus each, which start together; the command runs on each, a script on the first.",
        ),
    ] = None
    exclusive: Annotated[bool, typer.Option("--exclusive", help="All GPUs of one node.")] = False
    one_node: Annotated[bool, typer.Option("--one-node", help="Place all members of the gang on one node.")] = False
    spread: Annotated[bool, typer.Option("--spread", help="Place each member of the gang on a different node.")] = False
    avoid: Annotated[
        list[str] | None,
        typer.Option("--avoid", metavar="NAME", help="Avoid nodes where a job of this name runs; may be repeated."),
    ] = None
    time: Annotated[
        str | None, typer.Option("--time", metavar="TIME", help="Time limit: 90s, 30m, 2h, 1d12h, 1:30:00.")
    ] = None
    nice: Annotated[
        int | None,
        typer.Option("--nice", metavar="N", help="As in Slurm: 100 raises the priority number by 1 (runs later)."),
    ] = None
    retries: Annotated[
        int | None,
        typer.Option("--retries", metavar="N", help="How often to retry after a failure.  [default: set by the site]"),
    ] = None
    queue: Annotated[
        str | None, typer.Option("--queue", metavar="NAME", help="Queue to wait in.  [default: default]")
    ] = None
    project: Annotated[
        str | None,
        typer.Option("--project", metavar="NAME", help="Project that the usage counts for.  [default: default]"),
    ] = None
    after: Annotated[
        list[str] | None,
        typer.Option(
            "--after",
            metavar="[WHAT:]ID",
            help="Start after job ID has succeeded. any:ID: ended; notok:ID: failed; start:ID: started; "
            "singleton: after your other jobs of this name.",
        ),
    ] = None
    env: Annotated[
        list[str] | None,
        typer.Option("--env", metavar="K=V", help="Set an environment variable; may be repeated."),
    ] = None
    workdir: Annotated[
        str | None, typer.Option("--workdir", metavar="DIR", help="Working directory.  [default: this one]")
    ] = None
    image: Annotated[
        str | None,
        typer.Option("--image", metavar="IMAGE", help="Run in a container of this image."),
    ] = None
    volume: Annotated[
        list[str] | None,
        typer.Option(
            "--volume",
            metavar="SRC:PATH[:ro]",
            help="Files that the container sees: pvc/NAME, configmap/NAME, secret/NAME or a host's directory; may be "
            "repeated.",
        ),
    ] = None
    shm_size: Annotated[
        str | None, typer.Option("--shm-size", metavar="SIZE", help="Size of the container's /dev/shm.  [default: 64M]")
    ] = None
    network: Annotated[
        str | None, typer.Option("--network", metavar="NAME", help="Docker's network for the container.")
    ] = None
    user: Annotated[
        str | None, typer.Option("--user", metavar="UID[:GID]", help="Who it is in the container.  [default: you]")
    ] = None
    pull: Annotated[
        str | None,
        typer.Option("--pull", metavar="WHEN", help="Fetch the image: missing, always, never.  [default: missing]"),
    ] = None
    service_account: Annotated[
        str | None, typer.Option("--service-account", metavar="NAME", help="Service account of the cluster to run as.")
    ] = None
    pod_template: Annotated[
        str | None,
        typer.Option("--pod-template", metavar="FILE", help="Kubernetes pod template (YAML) for the rest of the pod."),
    ] = None
    force: Annotated[bool, typer.Option("--force", help="Submit even if `corral check` finds that it cannot run.")] = (
        False
    )

    def options(self, client: Client | None) -> RequestOptions:
        options = super().options(client)
        if self.env:
            options["env"] = dict(_variable(given) for given in self.env)
        return options


@dataclass(frozen=True)
class SubmitFlags(JobFlags):
    """What `submit` and a script's header take besides."""

    array: Annotated[
        str | None,
        typer.Option(
            "--array", metavar="SPEC", help="One job per index: 0-9%2 is ten jobs, two at a time; 0,3,5-7; 0-10:2."
        ),
    ] = None
    param: Annotated[
        list[str] | None,
        typer.Option(
            "--param",
            metavar="NAME=V,..",
            help="One job per value: lr=0.1,0.01 or seed=0..4; repeated, one per combination. Each has its value as "
            "variable NAME, and in place of {NAME}.",
        ),
    ] = None
    zip: Annotated[bool, typer.Option("--zip", help="Pair the values of --param, not combine them.")] = False
    max_running: Annotated[
        int | None, typer.Option("--max-running", metavar="N", help="Run N jobs of the array or sweep at a time.")
    ] = None
    begin: Annotated[
        str | None,
        typer.Option("--begin", metavar="WHEN", help="Earliest start: 16:00, now+2hours, tomorrow, 2026-12-01T08:00."),
    ] = None
    output: Annotated[
        str | None,
        typer.Option("--output", metavar="FILE", help="Write the output to this file, not the log: %x-%j.out."),
    ] = None
    error: Annotated[
        str | None,
        typer.Option("--error", metavar="FILE", help="Write standard error to this file, apart from the output."),
    ] = None
    input: Annotated[
        str | None,
        typer.Option("--input", metavar="FILE", help="Read standard input from this file: train.txt, part-%a.txt."),
    ] = None
    open_mode: Annotated[
        str | None,
        typer.Option(
            "--open-mode", metavar="MODE", help="What to do with these files at each start: append or truncate."
        ),
    ] = None
    hold: Annotated[bool, typer.Option("--hold", help="Keep the job waiting until `corral release`.")] = False

    def options(self, client: Client | None) -> RequestOptions:
        options: Any = super().options(client)
        if self.param:
            from corral.client.sweep_values import params_of

            options["params"] = params_of(options.pop("param"), field="--param")
        return options  # type: ignore[no-any-return]


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
        raise Refused(f"{where}: {said_of(error)}") from error
    return read[0]


def filled(flags: F, defaults: F) -> F:
    """`flags`, and what they leave unsaid as `defaults` say it; so with each parameter of a sweep."""
    unsaid = {f.name for f in fields(flags) if not said(getattr(flags, f.name))}
    for one, other in _ALIKE:
        # Who says the one has said the other.
        unsaid -= {name for name in (one, other) if {one, other} - unsaid}
    taken = {name: getattr(defaults, name) for name in unsaid}
    if (params := getattr(flags, "param", None)) and (others := getattr(defaults, "param", None)):
        taken["param"] = _params(params, others)
    return replace(flags, **taken)


_ALIKE = (("priority", "nice"), ("array", "param"), ("array", "zip"))


def _params(given: Sequence[str], defaults: Sequence[str]) -> list[str]:
    """NAME=VALUE,.. as given, and those of the defaults with another name."""
    names = {one.partition("=")[0] for one in given}
    return [*(one for one in defaults if one.partition("=")[0] not in names), *given]


def said(value: Any) -> bool:
    """Whether a flag was given; --gpus 0 and --priority 0 were."""
    return value is not None and value is not False and value != []


def _variable(given: str) -> tuple[str, str]:
    key, equals, value = given.partition("=")
    if not (key and equals):
        raise Refused(f"--env: {given!r} sets nothing; write NAME=VALUE", field="--env")
    return key, value


def _by_key(given: Sequence[str], flag: str, form: str, *, empty: bool = False) -> dict[str, str]:
    """What a repeated flag says of each key, which `form` shows how to write; `empty`: a key may have no value."""
    values: dict[str, str] = {}
    for one in given:
        key, equals, value = one.partition("=")
        if not (key and equals and (value or empty)):
            raise Refused(f"{flag}: {one!r} says nothing of anything; write {form}", field=flag)
        if key in values:
            raise Refused(f"{flag}: {key} is given twice; leave one of them out", field=flag)
        values[key] = value
    return values


def _uuid(client: Client, named: str) -> str:
    """The UUID of a GPU given as an index or NODE:INDEX; a UUID as it is."""
    node, colon, index = named.rpartition(":")
    if not is_whole(index):
        return named
    devices = client.devices.list()
    found = [device for device in devices if device.index == int(index) and (not colon or device.node == node)]
    if len(found) == 1:
        return found[0].uuid
    if found:
        places = ", ".join(f"{device.node}:{index}" for device in found)
        raise Refused(f"--device: several nodes have a GPU {index}; name one of {places}", field="--device")
    known = ", ".join(device_called(device, several_nodes(devices)) for device in devices) or "none"
    raise Refused(f"--device: there is no GPU {named}; there are {known}", field="--device")
