"""All commands by task, and the code that runs a command line. A command is loaded only when it is used."""

from __future__ import annotations

from corral.cli.declaring import HELP, VERSION, DeclaredCommand, load
from corral.cli.reading import UsageError, read
from corral.cli.screen import USAGE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from corral.cli.reading import Line

GROUPS = {
    "Run work": {
        "run": ("running.RunCommand", "Run a command on GPUs that nobody else uses, and wait for it."),
        "submit": ("running.SubmitCommand", "Queue a script or a command, and print the job's id."),
        "exec": ("running.ExecCommand", "Run a command inside a running job."),
        "fetch": ("running.FetchCommand", "Fetch the files that a job has left."),
        "forward": ("running.ForwardCommand", "Bring ports of a running job to this machine."),
        "ssh": ("running.SshCommand", "Use OpenSSH in a running job."),
        "wait": ("running.WaitCommand", "Wait until jobs have ended."),
        "reserve": ("running.ReserveCommand", "Reserve GPUs for interactive work."),
        "adopt": ("running.AdoptCommand", "Make a running process a job, so that it keeps its GPUs."),
    },
    "Look": {
        "ps": ("looking.PsCommand", "List jobs that wait or run."),
        "show": ("looking.ShowCommand", "Show everything about a job."),
        "top": ("looking.TopCommand", "Watch GPUs and jobs on the whole terminal: bars, waits, logs."),
        "status": ("looking.StatusCommand", "Show each GPU, its state, and who uses it."),
        "queues": ("looking.QueuesCommand", "List queues: policies, quotas, use, and what is left to you."),
        "why": ("looking.WhyCommand", "Explain why a job waits, and what would start it now."),
        "logs": ("looking.LogsCommand", "Print the output of a job."),
        "events": ("looking.EventsCommand", "Follow what happens to jobs, GPUs and alerts."),
    },
    "Change jobs": {
        "cancel": ("changing.CancelCommand", "Cancel jobs: stop running ones, remove waiting ones."),
        "update": ("changing.UpdateCommand", "Change jobs that wait or run: priority, time, name, queue."),
        "hold": ("changing.HoldCommand", "Keep waiting jobs from starting until `corral release`."),
        "release": ("changing.ReleaseCommand", "Let jobs on hold start again, or end reservations."),
        "requeue": ("changing.RequeueCommand", "Run jobs again: those that run, failed or were lost."),
    },
    "GPUs and nodes": {
        "devices": ("gpus_and_nodes.DevicesCommand", "List all GPUs with their UUIDs and models."),
        "alloc-map": ("gpus_and_nodes.AllocMapCommand", "Show how much of each GPU is allocated, and to whom."),
        "resources": ("gpus_and_nodes.ResourcesCommand", "List the resource names of other systems that jobs may use."),
        "nodes": ("gpus_and_nodes.NodesCommand", "List the nodes, and whether jobs may start on them."),
        "cordon": ("gpus_and_nodes.CordonCommand", "Keep new jobs from starting on a GPU or a node."),
        "uncordon": ("gpus_and_nodes.UncordonCommand", "Let jobs start on a GPU or a node again."),
        "drain": ("gpus_and_nodes.DrainCommand", "Empty a node: no further job starts on it."),
        "mig": ("gpus_and_nodes.MigCommand", "Create and delete MIG slices."),
    },
    "Model services on Kubernetes": {},
    "Serve models well": {},
    "Server and site": {
        "up": ("serving.UpCommand", "Start the server in $CORRAL_HOME (default ~/.corral)."),
        "down": ("serving.DownCommand", "Stop the server in $CORRAL_HOME. Jobs run on."),
        "doctor": ("serving.DoctorCommand", "Check this machine and its server, and show what to fix."),
        "config": ("serving.ConfigCommand", "Write, check and reload the settings of a site."),
        "token": ("serving.TokenCommand", "Create, list and revoke tokens for access over TCP."),
        "agent": ("serving.AgentCommand", "Run the agent of this host, in the foreground."),
    },
    "Plan and measure": {
        "check": ("measuring.CheckCommand", "Check whether a command can run on the GPUs here."),
        "estimate": ("measuring.EstimateCommand", "Estimate the GPU memory that a language model needs."),
        "simulate": ("simulating.SimulateCommand", "Replay recorded or generated jobs with the scheduler's code."),
    },
    "Learn more": {
        "demo": ("learning.DemoCommand", "Watch Corral at work for about ten seconds."),
        "completion": ("learning.CompletionCommand", "Print a script with which your shell completes commands."),
        "help": ("learning.HelpCommand", "Show the help of a command, or a document."),
        "version": ("learning.VersionCommand", "Print the version of Corral."),
    },
}
"""Every command of the core in its task's group: the class in `commands` that declares it, and a summary.

The command's own help begins with the same words. Features bring more commands, also for groups that are empty here.
"""

_LAST = "Learn more"
"""The group that ends the list, behind those that features bring."""


class Corral(
    DeclaredCommand,
    commands={name: f"commands.{where}" for group in GROUPS.values() for name, (where, _) in group.items()},
    examples=("corral run --gpus 2 -- python train.py",),
):
    """Share GPUs: queue jobs, run them on the right GPUs, see why they wait.

    Commands talk to the server at $CORRAL_URL with $CORRAL_TOKEN (see "corral token"), else in $CORRAL_HOME, else to
    the one that runs in ~/.corral or /var/lib/corral. "corral help COMMAND" explains a command, and "corral help docs"
    lists the documents.
    """

    version: bool = VERSION

    @classmethod
    def find(cls, name: str) -> type[DeclaredCommand] | None:
        if name in cls.commands:
            return super().find(name)
        where = next((where for _, found, where, _ in _of_features() if found == name), None)
        return None if where is None else load(where)

    @classmethod
    def listed(cls) -> Mapping[str, Mapping[str, str]]:
        groups = {title: {name: summary for name, (_, summary) in group.items()} for title, group in GROUPS.items()}
        for title, name, _, summary in _of_features():
            groups.setdefault(title, {})[name] = summary
        groups[_LAST] = groups.pop(_LAST)
        return groups


def _of_features() -> list[tuple[str, str, str, str]]:
    """The title, name, place and summary of each command of a feature."""
    from corral.features.feature_list import features

    return [command for feature in features() for command in feature.commands]


def all_commands() -> dict[str, str]:
    """The summaries of all commands, by name, in the order of the help."""
    return {name: summary for group in Corral.listed().values() for name, summary in group.items()}


def run(words: Sequence[str]) -> int:
    """Run the command in `words` and return the exit code."""
    try:
        return _run(read(Corral, "corral", words))
    except UsageError as error:
        from corral.cli.help.usage_errors import tell

        tell(error)
        return USAGE


def _run(line: Line) -> int:
    if HELP in line.given or not (line.command.runs or VERSION in line.given):
        from corral.cli.help.help_page import show_help

        show_help(line.path, line.command, on_error=HELP not in line.given)
        return 0 if HELP in line.given else USAGE
    if VERSION in line.given:
        from corral.cli.direct.print_version import print_version

        print_version(line.command())
        return 0
    value = line.value()
    return load(value.runs)(value) or 0
