"""Translate the flags that describe a job into the client's options, and read flags outside a command line."""

import os
from collections.abc import Sequence
from typing import Any, TypeVar

from corral.cli.commands.job_options import DeviceFlags
from corral.cli.help.usage_errors import said_of
from corral.cli.reading import UsageError, read_options
from corral.client import Client
from corral.client.submitting.options import RequestOptions
from corral.core.model.errors import Refused
from corral.core.model.units import is_whole
from corral.formatting.device_names import device_called, several_nodes

F = TypeVar("F", bound=DeviceFlags)


def spell(name: str) -> str:
    """The flag of an option, for error messages: min_memory -> --min-memory."""
    return "--param" if name == "params" else "--" + name.replace("_", "-")


def options_of(flags: DeviceFlags, client: Client | None) -> RequestOptions:
    """The given flags in the form that the client takes. `client` looks up GPUs that are given by index."""
    options: Any = {name: value for name, value in vars(flags).items() if said(value)}
    if flags.device and client is not None:
        options["device"] = [device_uuid(client, named) for named in flags.device]
    if flags.resource:
        # A name without an amount means the default amount in its definition.
        words = [word if "=" in word else f"{word}=" for word in ",".join(flags.resource).split(",") if word]
        options["resource"] = _by_key(words, "--resource", "KEY=N,..", empty=True)
    if flags.label:
        options["label"] = _by_key(flags.label, "--label", "KEY=VALUE")
    if flags.prefer:
        options["prefer"] = _by_key(flags.prefer, "--prefer", "KEY=VALUE")
    if options.get("env"):
        options["env"] = dict(env_variable(given) for given in options["env"])
    if options.get("param"):
        from corral.client.submitting.sweep_values import params_of

        options["params"] = params_of(options.pop("param"), field="--param")
    return options  # type: ignore[no-any-return]


def parse_words(flags: type[F], words: Sequence[str], where: str) -> F:
    """The flags in `words`, read like a command line. Raises Refused, with `where` they stand."""
    try:
        return read_options(flags, words)
    except UsageError as error:
        raise Refused(f"{where}: {said_of(error, flags.declared)}") from error


def filled(flags: F, defaults: F) -> F:
    """`flags`, with the missing flags from `defaults`. Parameters of a sweep are merged in the same way."""
    unsaid = {name for name, value in vars(flags).items() if not said(value)}
    for one, other in _ALIKE:
        # A flag also counts as given if its alternative is given.
        unsaid -= {name for name in (one, other) if {one, other} - unsaid}
    taken = {name: getattr(defaults, name) for name in unsaid}
    if (params := getattr(flags, "param", None)) and (others := getattr(defaults, "param", None)):
        taken["param"] = _params(params, others)
    return flags.but(**taken)


_ALIKE = (("priority", "nice"), ("array", "param"), ("array", "zip"))


def _params(given: Sequence[str], defaults: Sequence[str]) -> list[str]:
    """The given NAME=VALUE,.. and those of the defaults with other names."""
    names = {one.partition("=")[0] for one in given}
    return [*(one for one in defaults if one.partition("=")[0] not in names), *given]


def said(value: Any) -> bool:
    """Whether a flag was given. --gpus 0 and --priority 0 count as given."""
    return value is not None and value is not False and value != []


def env_variable(given: str) -> tuple[str, str]:
    """A variable from NAME=VALUE, or from NAME alone with the value that it has here. Raises Refused."""
    key, equals, value = given.partition("=")
    if not key:
        raise Refused(f"--env: {given!r} sets nothing; write NAME=VALUE, or NAME", field="--env")
    if not equals and key not in os.environ:
        raise Refused(f"--env: {key} is not set here; export it, or write {key}=VALUE", field="--env")
    return key, value if equals else os.environ[key]


def _by_key(given: Sequence[str], flag: str, form: str, *, empty: bool = False) -> dict[str, str]:
    """The values of a repeated flag by key. `form` shows the syntax in errors. `empty`: a key may have no value."""
    values: dict[str, str] = {}
    for one in given:
        key, equals, value = one.partition("=")
        if not (key and equals and (value or empty)):
            raise Refused(f"{flag}: {one!r} has no value; write {form}", field=flag)
        if key in values:
            raise Refused(f"{flag}: {key} is given twice; leave one of them out", field=flag)
        values[key] = value
    return values


def device_uuid(client: Client, named: str, flag: str = "--device") -> str:
    """The UUID of a GPU that is given as an index or NODE:INDEX. A UUID stays as it is."""
    node, colon, index = named.rpartition(":")
    if not is_whole(index):
        return named
    devices = client.devices.list()
    found = [device for device in devices if device.index == int(index) and (not colon or device.node == node)]
    if len(found) == 1:
        return found[0].uuid
    if found:
        places = ", ".join(f"{device.node}:{index}" for device in found)
        raise Refused(f"{flag}: several nodes have a GPU {index}; name one of {places}", field=flag)
    known = ", ".join(device_called(device, several_nodes(devices)) for device in devices) or "none"
    raise Refused(f"{flag}: there is no GPU {named}; there are {known}", field=flag)
