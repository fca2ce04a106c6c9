"""Translate options of sbatch(1) into Corral's flags. Others are ignored and listed, or refused with their line."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from corral.cli.scripts.sbatch_meanings import MEANINGS, NOTES
from corral.cli.scripts.sbatch_resources import resource_flags
from corral.cli.scripts.sbatch_said import Said
from corral.cli.scripts.script_mistakes import ScriptMistakes
from corral.cli.site.site import Site
from corral.core.model.errors import Refused, nearest
from corral.core.model.jobs.submission import Submission


@dataclass(frozen=True)
class Translated:
    """Options of sbatch in Corral's terms.

    Attributes:
        flags: Corral's flags, each with its file and line for error messages.
        ignored: options that have no meaning here, as "--partition=gpu (line 3)".
        tasks: how many tasks the job has, on all of its nodes.
        notes: differences between the effect of an option here and in Slurm.
        test_only: nothing is to be submitted.
    """

    flags: tuple[tuple[list[str], str], ...]
    ignored: tuple[str, ...]
    tasks: int
    notes: tuple[str, ...] = ()
    test_only: bool = False


def read_options(words: Sequence[str], file: str, line: int, mistakes: ScriptMistakes) -> dict[str, Said]:
    """The options of one #SBATCH line by their long names. An unknown option is a mistake."""
    said = {}
    for option, value in _options(words):
        name = _SHORT.get(option, option.removeprefix("--"))
        where = f"{file}, line {line}: {option}"
        if name in _KNOWN and (option.startswith("-") or option == "hetjob"):
            said[name] = Said(value, option, where, line)
        else:
            hint = nearest(f"--{name}", [f"--{one}" for one in _KNOWN])
            mistakes.add(f"{where} is not an option of sbatch; {hint}")
    return said


def translate(said: Mapping[str, Said], site: Site, mistakes: ScriptMistakes) -> Translated:
    """Corral's flags for these options. Options that contradict each other or are not supported here are mistakes."""
    flags: list[tuple[list[str], str]] = []
    ignored, notes = [], []
    for name, one in said.items():
        with mistakes.noted():
            if name in REFUSED:
                raise Refused(f"{one.where} is not supported here; {REFUSED[name]}")
            ours = MEANINGS[name](one.value, one.where, site) if name in MEANINGS else None
            if ours:
                flags.append((ours, one.where))
            elif ours is None and name not in RESOURCES:
                ignored.append(f"{one.text} (line {one.line})")
            note = NOTES[name](one.value or "") if name in NOTES else None
            if note:
                notes.append(f"{one.where}: {note}")
    resources, tasks = resource_flags(said, site, mistakes)
    return Translated((*flags, *resources), tuple(ignored), tasks, tuple(notes), "test-only" in said)


def marked(submission: Submission, tasks: int) -> Submission:
    """The submission of a script with this many tasks that expects Slurm's variables.

    The server makes the variables. This adds what the server cannot know about an array: the number of elements, the
    first, the last, and the step between them.
    """
    said = [tasks]
    if submission.elements is not None:
        indices = submission.elements.indices
        steps = {after - before for before, after in pairwise(indices)}
        said += [len(indices), min(indices), max(indices), steps.pop() if len(steps) == 1 else 1]
    return replace(submission, env={**submission.env, "CORRAL_SBATCH": ",".join(map(str, said))})


def _options(words: Sequence[str]) -> Iterator[tuple[str, str | None]]:
    """Options with their values: --name=value, --name value, -Nvalue, -N value."""
    left = list(words)
    while left:
        word = left.pop(0)
        if word.startswith("--") or not word.startswith("-"):
            option, equals, given = word.partition("=")
        else:
            option, equals, given = word[:2], word[2:], word[2:].removeprefix("=")
        value: str | None = given if equals else None
        takes_one = _SHORT.get(option, option.removeprefix("--")) not in _BARE
        if value is None and takes_one and left and not left[0].startswith("-") and option.startswith("-"):
            value = left.pop(0)
        yield option, value


_SHORT = {
    "-A": "account", "-a": "array", "-b": "begin", "-B": "extra-node-info", "-C": "constraint", "-c": "cpus-per-task",
    "-D": "chdir", "-d": "dependency", "-e": "error", "-F": "nodefile", "-G": "gpus", "-H": "hold", "-i": "input",
    "-J": "job-name", "-k": "no-kill", "-L": "licenses", "-M": "clusters", "-m": "distribution", "-N": "nodes",
    "-n": "ntasks", "-O": "overcommit", "-o": "output", "-p": "partition", "-Q": "quiet", "-q": "qos",
    "-S": "core-spec", "-s": "oversubscribe", "-t": "time", "-v": "verbose", "-W": "wait", "-w": "nodelist",
    "-x": "exclude",
}  # fmt: skip

_BARE = frozenset(
    {"contiguous", "hold", "ignore-pbs", "no-requeue", "overcommit", "parsable", "quiet", "reboot", "requeue",
     "spread-job", "test-only", "use-min-nodes", "verbose", "wait"}
)  # fmt: skip
"""Options that take no value."""

RESOURCES = frozenset(
    {"constraint", "cpus-per-gpu", "cpus-per-task", "exclusive", "gpus", "gpus-per-node", "gpus-per-task", "gres",
     "mem", "mem-per-cpu", "mem-per-gpu", "mincpus", "nodes", "ntasks", "ntasks-per-node", "tmp"}
)  # fmt: skip
"""Options that are read together: the resources of a job, and its nodes."""

REFUSED = {
    "bb": "there are no burst buffers; remove it",
    "bbf": "there are no burst buffers; remove it",
    "container": "write #CORRAL --image IMAGE for a container",
    "deadline": "use --time, and --begin for a later start",
    "export-file": "read the file in the script: set -a; . FILE; set +a",
    "gid": "a job runs as who submits it; remove it",
    "hetjob": "submit each part as a job of its own",
    "gpus-per-socket": "use --gpus-per-node or --gpus-per-task",
    "licenses": "licenses are not counted; remove it",
    "nodefile": "write the nodes themselves: --nodelist=gpu-[01-03,07]",
    "ntasks-per-gpu": "use --ntasks, and --gpus for all tasks together",
    "tres-per-task": "use --gpus-per-task and --cpus-per-task",
    "uid": "a job runs as who submits it; remove it, or submit it as that user",
    "wrap": "it replaces the script by a command; submit that instead: corral submit -- sh -c '...'",
}
"""Options that would give a job less than it asked for if they were ignored, with their alternatives."""

IGNORED = frozenset(
    {"account", "acctg-freq", "batch", "cluster-constraint", "clusters", "comment", "container-id",
     "contiguous", "core-spec", "cores-per-socket", "cpu-freq", "delay-boot", "distribution",
     "extra", "extra-node-info", "get-user-env", "gpu-bind", "gpu-freq", "gres-flags", "hint",
     "ignore-pbs", "kill-on-invalid-dep", "mail-user", "mcs-label", "mem-bind", "network",
     "no-kill", "ntasks-per-core", "ntasks-per-socket", "overcommit",
     "oversubscribe", "parsable", "power", "prefer", "priority", "profile", "propagate", "qos", "quiet",
     "reboot", "reservation", "segment", "share", "sockets-per-node", "spread-job", "switches",
     "thread-spec", "threads-per-core", "time-min", "use-min-nodes", "verbose", "wait", "wait-all-nodes",
     "wckey"}
)  # fmt: skip
"""Options that change neither the job's resources here nor its time limit."""

_KNOWN = sorted({*MEANINGS, *RESOURCES, *REFUSED, *IGNORED})
