"""The flags in the lines at the top of a script, and the line of each."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from corral.cli.commands.job_options import SubmitFlags
from corral.cli.jobs.flags import filled, options_of, said, spell
from corral.cli.scripts.script_mistakes import ScriptMistakes
from corral.client.submitting.request import submission
from corral.core.model.errors import Refused

_OPTION = re.compile(r"--[\w-]+: ")
_DEFAULTS = SubmitFlags()
_NAMES = {spell(one.name): one.name for one in SubmitFlags.declared} | {"--params": "param"}
_OF_THE_SERVER = {
    "checkpoint_grace_s": "checkpoint_signal", "time_limit_s": "time", "begin_at": "begin", "excluded_nodes": "exclude",
    "nodes": "node", "disk_mib": "disk", "cpu_milli": "cpus", "host_memory_mib": "host_memory",
}  # fmt: skip
"""Fields in the server's errors whose flags have other names."""


@dataclass(frozen=True)
class Header:
    """The flags and their places: `origins` has them by the names of the flags, as "job.sh, line 3: --gpus"."""

    flags: SubmitFlags = field(default_factory=SubmitFlags)
    origins: Mapping[str, str] = field(default_factory=dict)

    def then(self, flags: SubmitFlags, where: str) -> "Header":
        """The header with the flags of a later line, which override earlier ones."""
        origins = {**self.origins, **dict.fromkeys(_said(flags), where)}
        return Header(filled(flags, self.flags), origins)

    def or_else(self, flags: SubmitFlags, where: str) -> "Header":
        """The header with the flags of a line that count only if they were not given so far."""
        origins = {**dict.fromkeys(_said(flags), where), **self.origins}
        return Header(filled(self.flags, flags), origins)

    def check(self, given: SubmitFlags, mistakes: ScriptMistakes) -> None:
        """Record each value of a line that is invalid together with the `given` flags of the command line."""
        left = filled(given, self.flags)
        while True:
            try:
                submission(["true"], options_of(left, None), script=True, spell=spell)
                return
            except Refused as refused:
                name = _flag_of(refused)
                if name not in self.origins or getattr(left, name) in (getattr(given, name), getattr(_DEFAULTS, name)):
                    return  # not about a line; it is reported when the job is submitted
                mistakes.add(_at(self.origins[name], refused))
                left = left.but(**{name: getattr(_DEFAULTS, name)})


def at_its_line(refused: Refused, origins: Mapping[str, str]) -> Refused:
    """The error with the line of the script that it is about, if there is one."""
    where = origins.get(_flag_of(refused))
    return refused if where is None else type(refused)(_at(where, refused), field=refused.field)


def _at(where: str, refused: Refused) -> str:
    """The message behind its place. If the place ends with an option, the message does not name it again."""
    text = str(refused)
    if where.rpartition(": ")[2].startswith("--"):
        text = text[match.end() :] if (match := _OPTION.match(text)) else text
    return f"{where}: {text}"


def _flag_of(refused: Refused) -> str:
    named = (refused.field or "").partition("[")[0]
    return _NAMES.get(named) or _OF_THE_SERVER.get(named, named)


def _said(flags: SubmitFlags) -> list[str]:
    return [name for name, value in vars(flags).items() if said(value)]
