"""Parameters of a deployment: how many GPUs they ask for, and the arguments that its runtime gets of them. Pure."""

import json
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from corral.core.model.errors import Refused
from corral.core.model.serving.parallelism import axis_of, parallel_sizes, world_size

_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_SHELLS = frozenset({"sh", "bash", "dash", "ash", "zsh"})
_NO_COMMANDS = frozenset({"exit", "done", "fi", "esac", "}", ")", "EOF"})
_NOT_AT_END = tuple("&|;\\({")


def parameters_from(words: Iterable[str]) -> dict[str, Any]:
    """`KEY=VALUE` words as parameters; a word without `=` is a switch that is on."""
    parameters: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if key in parameters:
            raise Refused(f"parameter {key} is given twice", field="param")
        parameters[key] = value if equals else True
    return parameters


def gpus_in_parameters(parameters: Mapping[str, Any], runtime: str) -> int | None:
    """The GPUs over which the parameters spread a model with this runtime; None if they name no axis of parallelism.

    Raises Refused for sizes that make no sense or contradict each other.
    """
    if not parallel_sizes(parameters):
        return None
    spelled: dict[str, list[str]] = {}
    for name, value in parameters.items():
        if (axis := axis_of(name)) is not None and value not in (None, False):
            spelled.setdefault(axis, []).append(name)
    for names in spelled.values():
        if len({str(parameters[name]).strip() for name in names}) > 1:
            said = " and ".join(f"{name}={parameters[name]}" for name in names)
            raise Refused(f"{said} contradict each other; give one of them", field=names[0])
    return world_size(runtime, parameters)


def runtime_arguments(parameters: Mapping[str, Any]) -> list[str]:
    """Return `--key=value` of each parameter, with the given spelling. True gives `--key` alone; False and None give
    nothing.

    Lists and mappings are written as JSON. `$(NAME)` is escaped, so that Kubernetes does not replace it.
    """
    arguments = []
    for given, value in parameters.items():
        key = str(given).removeprefix("--")
        if not _KEY.fullmatch(key):
            raise Refused(
                f"parameter {given!r} is no name of an option: letters, digits, '.', '_' and '-', such as tp-size",
                field="parameters",
            )
        if value is None or value is False:
            continue
        text = parameter_text(value)
        if any(ord(character) < 32 and character not in "\n\t" for character in text):
            raise Refused(f"the value of parameter {key} has control characters", field=key)
        arguments.append(f"--{key}" if value is True else f"--{key}={text.replace('$(', '$$(')}")
    return arguments


def parameter_text(value: Any) -> str:
    """Return the value of a parameter as arguments have it."""
    return value if isinstance(value, str) else json.dumps(value)


def merged_arguments(command: Sequence[str], own: Sequence[str], added: Sequence[str]) -> list[str]:
    """Return a container's own arguments with some added, for operators that replace the whole list.

    If the command is a shell with a script (`bash -lc`), they are added to the script's last command. Of a repeated
    option the last value counts, as usual.
    """
    if not added:
        return list(own)
    words = [*command, *own]
    if not words or words[0].rpartition("/")[2] not in _SHELLS:
        return [*own, *added]
    return [*own[:-1], _script_with(own[-1] if own else "", added)]


def _script_with(script: str, added: Sequence[str]) -> str:
    """The script with the arguments after its last command, if it is plain enough for that."""
    lines = [line for line in script.rstrip().splitlines() if line.strip()]
    last = lines[-1] if lines else ""
    if not last or last.split()[0] in _NO_COMMANDS or "#" in last or last.rstrip().endswith(_NOT_AT_END):
        raise Refused(
            "the runtime starts a shell script that does not end with the command of the server, so parameters cannot"
            " be added; leave out --param, or use a runtime with `args`",
            field="parameters",
        )
    return f"{script.rstrip()} {shlex.join(added)}"
