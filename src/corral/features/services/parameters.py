"""Parameters of a deployment: how many GPUs they ask for, and the arguments that its runtime gets of them. Pure."""

import json
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from corral.core.model.errors import Refused

MOST_GPUS_NEEDED = 1024

_AXES = {
    "tp": ("tensor-parallel-size", "tp-size", "tpsize", "tp"),
    "pp": ("pipeline-parallel-size", "pp-size", "pp"),
    "dp": ("data-parallel-size", "dp-size", "dp"),
    "cp": ("context-parallel-size", "prefill-context-parallel-size", "cp-size", "cp"),
    "dcp": ("decode-context-parallel-size", "dcp-size", "dcp"),
}
_AXIS_OF = {spelling: axis for axis, spellings in _AXES.items() for spelling in spellings}

_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_COUNT = re.compile(r"[0-9]{1,9}")
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


def asked_gpus(parameters: Mapping[str, Any]) -> int | None:
    """The GPUs that the parameters spread a model over: tp x pp x max(dp, dcp, cp). None if they name no axis.

    Raises Refused for sizes that make no sense or contradict each other.
    """
    given: dict[str, dict[str, int]] = {}
    for key, value in parameters.items():
        axis = _AXIS_OF.get(str(key).lower().lstrip("-").replace("_", "-"))
        if axis is not None and value is not None:
            given.setdefault(axis, {})[key] = _count(key, value)
    for spelled in given.values():
        if len(set(spelled.values())) > 1:
            said = " and ".join(f"{key}={count}" for key, count in spelled.items())
            raise Refused(f"{said} contradict each other; give one of them", field=next(iter(spelled)))
    sizes = {axis: next(iter(spelled.values())) for axis, spelled in given.items()}
    apart = max(sizes.get(axis, 1) for axis in ("dp", "cp", "dcp"))
    return sizes.get("tp", 1) * sizes.get("pp", 1) * apart if sizes else None


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


def _count(key: str, value: Any) -> int:
    text = str(value).strip()
    if isinstance(value, bool) or not _COUNT.fullmatch(text) or not 1 <= int(text) <= MOST_GPUS_NEEDED:
        raise Refused(f"{key}={value} is no number of GPUs: 1 to {MOST_GPUS_NEEDED}", field=key)
    return int(text)
