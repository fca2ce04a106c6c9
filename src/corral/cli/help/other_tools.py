"""Hints for commands and flags of other tools (Slurm, PBS, gflow, docker, nvidia-smi), and for misspelled words."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

_JOBS = ("`corral ps` lists jobs",)
_ALL_JOBS = ("`corral ps --all` lists all jobs",)
_GPUS = ("`corral status` shows the GPUs and who uses them",)
_SUBMIT = ("`corral submit` queues a script or a command",)
_RUN = ("`corral run` runs a command and waits for it",)
_CANCEL = ("`corral cancel` stops a job",)
_HOLD = ("`corral hold` keeps a job waiting",)
_RELEASE = ("`corral release` lets it start again",)
_SHOW = ("`corral show` tells everything about a job",)
_WHY = ("`corral why` explains a job",)
_UP = ("`corral up` starts the server",)
_DOWN = ("`corral down` stops the server",)
_USAGE = ("`corral usage` counts GPU-hours",)
_NODES = ("`corral nodes` lists nodes",)
_DEVICES = ("`corral devices` lists GPUs",)
_FOLLOW = ("`corral logs --follow` shows the output of a job as it comes",)
_UPDATE = ("`corral update` changes a job's priority, time limit, name or queue",)
_RELOAD = ("`corral config reload` has the server read its settings again",)
_QUEUES = ("`corral queues` shows quotas, and what is left to you",)
_REQUEUE = ("`corral requeue` runs a job again",)
_RESERVE = ("`corral reserve` keeps GPUs for interactive work",)
_DRAIN = ("`corral drain` empties a node", "`corral cordon` keeps new jobs off it")
_SETTINGS = ("`corral config check` checks the settings of a site",)

COMMANDS_ELSEWHERE: dict[str, Sequence[str]] = {
    **dict.fromkeys(("squeue", "qstat", "bjobs", "gqueue", "jobs", "list", "ls", "queue", "get"), _JOBS),
    **dict.fromkeys(("sacct", "history"), _ALL_JOBS),
    **dict.fromkeys(("smi", "nvidia-smi", "nvtop", "gpustat", "gpus", "stat", "ginfo"), _GPUS),
    "sinfo": (*_NODES, *_GPUS),
    **dict.fromkeys(("sbatch", "qsub", "bsub", "gbatch", "enqueue", "add", "create", "apply"), _SUBMIT),
    "srun": _RUN,
    **dict.fromkeys(("salloc", "alloc", "lease"), _RESERVE),
    **dict.fromkeys(("scancel", "qdel", "bkill", "gcancel", "kill", "rm", "del", "delete", "abort"), _CANCEL),
    **dict.fromkeys(("stop", "terminate"), (*_CANCEL, *_DOWN)),
    **dict.fromkeys(("start", "launch"), (*_RUN, *_UP)),
    **dict.fromkeys(("serve", "server", "daemon", "init", "gflowd"), _UP),
    **dict.fromkeys(("shutdown", "halt"), _DOWN),
    **dict.fromkeys(("describe", "inspect", "info", "gjob"), _SHOW),
    **dict.fromkeys(("explain", "reason", "sprio"), _WHY),
    **dict.fromkeys(("log", "output", "tail", "attach", "sattach", "cat", "follow"), _FOLLOW),
    **dict.fromkeys(("pause", "suspend", "qhold"), _HOLD),
    **dict.fromkeys(("resume", "unhold", "qrls"), _RELEASE),
    **dict.fromkeys(("rerun", "retry", "restart", "resubmit", "redo"), _REQUEUE),
    **dict.fromkeys(("scontrol", "gctl"), (*_SHOW, *_UPDATE, *_HOLD, *_REQUEUE, *_DRAIN)),
    **dict.fromkeys(("modify", "change", "edit", "set", "qalter", "bmod", "renice"), _UPDATE),
    **dict.fromkeys(("reload", "reconfigure", "reconfig"), _RELOAD),
    **dict.fromkeys(("quota", "quotas", "limits", "sacctmgr", "partitions", "bqueues"), _QUEUES),
    **dict.fromkeys(("sreport", "sshare", "gstats", "stats", "accounting"), _USAGE),
    "node": _NODES,
    **dict.fromkeys(("device", "gpu", "topo", "nvidia"), _DEVICES),
    "undrain": ("`corral uncordon` ends it",),
    **dict.fromkeys(("settings", "setup", "configure"), _SETTINGS),
    "login": ("`corral token create` makes a token, which CORRAL_TOKEN takes",),
}
"""Commands of other tools, and the equivalents here. Each text begins with the command as it is typed."""

_MEMORY = (("--host-memory", "memory of the host"), ("--gpu-mem", "memory of a GPU"))
_GPU_MEMORY = (("--gpu-mem", "the memory to use of a GPU"), ("--min-memory", "GPUs that have so much"))
_NUMBER = (("--gpus", "the number of GPUs"),)
_MODEL = (("--gpu-model", "the model of the GPU"),)
_TIME = (("--time", "the time limit"), ("--for", "how long"), ("--timeout", "how long to wait"))
_GANG = (("--gang", "the number of members"),)
_LABEL = (("--label", "a label of the node"),)
_ENV = (("--env", "a variable"),)
_JSON = (("--json", "output for programs"),)

_FLAG_ROWS: Sequence[tuple[str, Sequence[tuple[str, str]]]] = (
    ("--mem --memory -m", _MEMORY),
    ("--mem-per-gpu --mem-per-cpu --mem-per-node --ram --host-mem", _MEMORY[:1]),
    ("--vram --gpu-memory --gpumem", _GPU_MEMORY),
    ("--gres", (*_NUMBER, *_MODEL)),
    ("--gpu --ngpus --num-gpus --n-gpus --gpu-count -g -G", _NUMBER),
    ("--gpus-per-node --gpus-per-task", (*_NUMBER, *_GANG)),
    ("--gpu-type --gpu-name --accelerator", _MODEL),
    ("--gpu-id --gpu-ids --gpu-index --visible-devices -i", (("--device", "the GPU"),)),
    ("--partition --qos -p -q", (("--queue", "the queue"),)),
    ("--account -A -P", (("--project", "the project"),)),
    ("--time-limit --timelimit --walltime --max-time -t", _TIME),
    ("--cpus-per-task --cpus-per-gpu --cpu --cores --ncpus -c", (("--cpus", "the number of CPU cores"),)),
    ("--ntasks --tasks -n", _GANG),
    ("--nodes -N", (*_GANG, ("--spread", "a node for each member"))),
    ("--nodelist --nodename --host --hostname -w", (("--node", "the node"),)),
    ("--constraint -C", (*_MODEL, *_LABEL)),
    ("--selector --node-selector -l", _LABEL),
    ("--job-name --jobname -J", (("--name", "the name of the job"),)),
    ("--dependency --depends-on --depend --afterok -d", (("--after", "the jobs to wait for"),)),
    ("--export -E", _ENV),
    ("-e", (("--error", "the file of standard error"), *_ENV)),
    ("-o", (("--output", "the file of the output"), *_JSON)),
    ("--chdir --cwd --working-dir --work-dir -D", (("--workdir", "the working directory"),)),
    ("-a", (("--array", "the indices of an array"),)),
    ("--start-time --at --not-before -b", (("--begin", "the earliest start"),)),
    ("--held -H", (("--hold", "to keep it waiting"),)),
    ("--requeue --max-retries --restart --max-restarts", (("--retries", "how often to run it again"),)),
    ("--shared --oversubscribe", (("--share", "how to share a GPU"),)),
    ("--test-only --what-if", (("--dry-run", "what would happen"),)),
    ("--signal", (("--checkpoint-signal", "a signal before the end"),)),
    ("--format --yaml", _JSON),
    ("--watch", (("--follow", "as it comes"),)),
    ("--all-users --all-jobs", (("--all", "all of them"),)),
)
FLAGS_ELSEWHERE = {flag: here for flags, here in _FLAG_ROWS for flag in flags.split()}
"""Flags of other tools, and their possible equivalents here with the purpose. A hint names only existing flags."""

_NO_NEW_REQUEST = "the request of a job cannot change: `corral cancel` it, and `corral submit` it again"
_REQUEST_FLAGS = (
    "--gpus --gpu --gpu-mem --gpu-model --mig --share --split --device --cpus --host-memory --gang --node --exclude "
    "--label --prefer --disk --min-memory --array --param --env --command --gpus-per-node --gres -g -G"
)

_INSTEAD_OF_FLAG = {
    ("run", "--detach"): "`corral submit` queues a command and returns at once",
    ("run", "-d"): "`corral submit` queues a command and returns at once",
    ("run", "--array"): "`corral submit` takes it",
    ("run", "--begin"): "`corral submit` takes it",
    ("run", "--output"): "`corral submit` takes it; the output of `corral run` can be redirected",
    ("run", "-o"): "the output of `corral run` can be redirected",
    ("ps", "-u"): "it is --user here",
    ("ps", "--mine"): "`corral ps --user me` lists your own jobs",
    ("ps", "--me"): "`corral ps --user me` lists your own jobs",
    ("usage", "--user"): "`corral usage --by user` has a row for each user",
    ("usage", "-u"): "`corral usage --by user` has a row for each user",
    ("usage", "--me"): "`corral usage --by user` has a row for each user",
    **{("update", flag): _NO_NEW_REQUEST for flag in _REQUEST_FLAGS.split()},
}
"""A command and a flag that it lacks, and the alternative."""


_ALIKE = 0.7
"""The least similarity, from 0 to 1, of a misspelled word. A word below it is another word."""


def no_such_command(word: str, known: Iterable[str]) -> str:
    """The message for an unknown command: the equivalent of another tool's command, else the nearest spelling."""
    known = frozenset(known)
    close = _most_alike(word, {*known, *COMMANDS_ELSEWHERE})
    if close in known:
        return f"there is no command {word!r}; did you mean {close!r}?"
    hints = COMMANDS_ELSEWHERE.get(close, ("`corral help` lists all",))
    return f"there is no command {word!r}; {', '.join(hints)}"


def no_such_flag(flag: str, flags: set[str], command: str | None) -> str:
    """The message for a flag that a command with these `flags` does not have: the flag that may be meant."""
    return f"there is no flag {flag}{_flag_hint(flag, flags, command or '')}"


def _flag_hint(flag: str, flags: set[str], command: str) -> str:
    instead = _INSTEAD_OF_FLAG.get((command, flag)) or _flag_here(flag, flags)
    if instead:
        return f"; {instead}"
    close = _most_alike(flag, [*flags, *(other for other in FLAGS_ELSEWHERE if _flag_here(other, flags))])
    if close in flags:
        return f"; did you mean {close}?"
    here = _flag_here(close, flags)
    return f"; {here}" if here else ""


def _flag_here(elsewhere: str, flags: set[str]) -> str:
    """A hint with the flags among `flags` that another tool's flag may mean; "" if there are none."""
    here = [f"{name} for {what}" for name, what in FLAGS_ELSEWHERE.get(elsewhere, ()) if name in flags]
    return f"use {', or '.join(here)}" if here else ""


def _most_alike(word: str, choices: Iterable[str]) -> str:
    """The choice whose spelling is closest to `word`, without regard to dashes; "" if none is close."""
    names = {choice.lstrip("-"): choice for choice in sorted(choices) if choice[:1] != "-" or len(choice) > len("-x")}
    close = get_close_matches(word.lstrip("-"), names, n=1, cutoff=_ALIKE)
    return names[close[0]] if close else ""
