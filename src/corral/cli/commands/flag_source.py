"""Write `job_options.py` from the model's fields that are options of a job: `make declared`."""

from pathlib import Path
from textwrap import wrap

from corral.core.model.field import RESERVE, RUN, SUBMIT, Kind
from corral.declared.meanings import meaning_of
from corral.declared.option_fields import OptionField, options

PATH = Path(__file__).with_name("job_options.py")

ORDER = (
    *("gpus", "gpu_mem", "gpu_cores", "mig", "share", "split", "resource", "min_memory", "gpu_model", "vendor"),
    *(
        "min_compute",
        "min_driver",
        "min_cuda",
        "label",
        "prefer",
        "node",
        "exclude",
        "device",
        "accept_in_use",
        "name",
        "priority",
    ),
    *("cpus", "host_memory", "disk", "speed", "checkpoint_signal", "notify", "notify_on", "gang", "exclusive"),
    *("one_node", "spread", "avoid", "time", "nice", "retries", "queue", "project", "after", "env", "workdir", "image"),
    *("volume", "shm_size", "network", "user", "pull", "service_account", "pod_template", "force", "array", "params"),
    *("upload", "upload_exclude", "download"),
    *("zip", "max_running", "begin", "output", "error", "input", "open_mode", "hold"),
)
"""The order of the options in help. Other options come last."""

_CLASSES = (
    (
        RESERVE,
        "DeviceFlags(DeclaredOptions)",
        "Which GPUs, and how urgently. None and () mean that the flag was not given.",
    ),
    (RUN, "JobFlags(DeviceFlags)", "The further options of `run`."),
    (SUBMIT, "SubmitFlags(JobFlags)", "The further options of `submit` and of a script's header."),
)

_KINDS = {Kind.FLAG: ("bool", "flag"), Kind.WHOLE: ("int | None", "whole"), Kind.NUMBER: ("float | None", "number")}

_HEAD = '''\
"""The options that describe a job, for `run`, `submit`, `reserve` and the header lines of a script.

By `make declared` from the fields of the model: change those.
"""

from __future__ import annotations

from corral.cli.commands.gpu_count import number_of_gpus
from corral.cli.declaring import DeclaredOptions, flag, number, text, whole

'''


def source() -> str:
    """The expected text of the module, before it is formatted."""
    return _HEAD + "\n\n".join(
        f'class {name}:\n    """{does}"""\n\n{"".join(map(_line, _taken_first_by(command)))}'
        for command, name, does in _CLASSES
    )


def _taken_first_by(command: str) -> list[OptionField]:
    places = {name: place for place, name in enumerate(ORDER)}
    found = [option for option in options().values() if option.option.on == command]
    return sorted(found, key=lambda option: places.get(option.name, len(places)))


def _line(option: OptionField) -> str:
    kind, call = _KINDS.get(option.kind, ("list[str] | None" if option.option.many else "str | None", "text"))
    said = {"metavar": option.option.metavar, "help": meaning_of(option).help, "many": option.option.many}
    words = [repr(option.flag), *(f"{name}={_literal(value)}" for name, value in said.items() if value)]
    if option.name == "gpus":
        kind, words = "int | str | None", [*words, "parse=number_of_gpus"]
    return f"    {option.option.flag or option.name}: {kind} = {call}({', '.join(words)})\n"


def _literal(value: object) -> str:
    """The Python literal of a value. A long text is split into parts."""
    lines = wrap(value, 100, drop_whitespace=False) if isinstance(value, str) else []
    return " ".join(map(repr, lines)) if lines else repr(value)


if __name__ == "__main__":
    PATH.write_text(source())
