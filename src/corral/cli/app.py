"""All commands by task, and how a line is run. A command is loaded when it is used, not to list it."""

from __future__ import annotations

from corral.cli.declaring import HELP, VERSION, Command, load
from corral.cli.reading import UsageError, read
from corral.cli.screen import USAGE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from corral.cli.reading import Line

GROUPS = {
    "Run work": {
        "run": ("running.Run", "Run a command on GPUs that nobody else uses, and wait for it."),
        "submit": ("running.Submit", "Queue a script or a command, and print the job's id."),
        "exec": ("running.Exec", "Run a command inside a running job."),
        "wait": ("running.Wait", "Wait until jobs have ended."),
        "reserve": ("running.Reserve", "Reserve GPUs for interactive work."),
        "adopt": ("running.Adopt", "Make a running process a job, so that it keeps the GPUs it uses."),
    },
    "Look": {
        "ps": ("looking.Ps", "List jobs that wait or run."),
        "show": ("looking.Show", "Show everything about a job."),
        "top": ("looking.Top", "Watch GPUs and jobs on the whole terminal: bars, waits, logs."),
        "dashboard": ("looking.Dashboard", "Open the dashboard in a browser."),
        "status": ("looking.Status", "Show each GPU, its state, and who uses it."),
        "queues": ("looking.Queues", "List queues: policies, quotas, use, and what is left to you."),
        "why": ("looking.Why", "Explain why a job waits, and what would start it now."),
        "logs": ("looking.Logs", "Print the output of a job."),
        "events": ("looking.Events", "Follow what happens to jobs, GPUs and alerts."),
    },
    "Change jobs": {
        "cancel": ("changing.Cancel", "Cancel jobs: stop running ones, remove waiting ones."),
        "update": ("changing.Update", "Change jobs that wait or run: priority, time, name, queue."),
        "hold": ("changing.Hold", "Keep waiting jobs from starting until `corral release`."),
        "release": ("changing.Release", "Let jobs on hold start again, or end reservations."),
        "requeue": ("changing.Requeue", "Run jobs again: those that run, failed or were lost."),
    },
    "GPUs and nodes": {
        "devices": ("gpus_and_nodes.Devices", "List all GPUs with their UUIDs and models."),
        "alloc-map": ("gpus_and_nodes.AllocMap", "Show how much of each GPU is allocated, and to whom."),
        "resources": ("gpus_and_nodes.Resources", "List the resource names of other systems that jobs may use."),
        "nodes": ("gpus_and_nodes.Nodes", "List the nodes, and whether jobs may start on them."),
        "cordon": ("gpus_and_nodes.Cordon", "Keep new jobs from starting on a GPU or a node."),
        "uncordon": ("gpus_and_nodes.Uncordon", "Let jobs start on a GPU or a node again."),
        "drain": ("gpus_and_nodes.Drain", "Empty a node: start nothing more on it."),
        "mig": ("gpus_and_nodes.Mig", "Create and delete MIG slices."),
    },
    "Model services on Kubernetes": {
        "deploy": ("model_services.Deploy", "Deploy a model service on the node with the most idle GPUs."),
        "deployments": ("model_services.Deployments", "List the model services that Corral has deployed."),
        "undeploy": ("model_services.Undeploy", "Remove a model service that Corral has deployed, and what it holds."),
    },
    "Serve models well": {
        "tune": ("tuning.Tune", "Find the best way to serve a model."),
        "tasks": ("tuning.Tasks", "List the tasks of the autotuner; start, cancel and delete them."),
        "experiments": ("tuning.Experiments", "List what a task of the autotuner has tried."),
        "bench": ("tuning.Bench", "Measure an OpenAI-compatible server."),
    },
    "Server and site": {
        "up": ("serving.Up", "Start the server in $CORRAL_HOME (default ~/.corral)."),
        "down": ("serving.Down", "Stop the server in $CORRAL_HOME. Jobs run on."),
        "doctor": ("serving.Doctor", "Check this machine and its server, and show what to fix."),
        "alerts": ("alerts.Alerts", "List the alerts that fire; acknowledge and silence them."),
        "config": ("serving.Config", "Write, check and reload the settings of a site."),
        "channels": ("channels.Channels", "Set where you are told of your jobs, and try it."),
        "token": ("serving.Token", "Create, list and revoke tokens for access over TCP."),
        "agent": ("serving.Agent", "Run the agent of this host, in the foreground."),
    },
    "Plan and measure": {
        "check": ("measuring.Check", "Check whether a command can run on the GPUs here."),
        "estimate": ("measuring.Estimate", "Estimate the GPU memory that a language model needs."),
        "usage": ("measuring.Usage", "Show GPU-hours used, and how well the shares were enforced."),
        "report": ("measuring.Report", "Show what was made of granted GPUs, and what it cost."),
        "kpis": ("measuring.Kpis", "Show key figures: use of GPUs, how jobs fared, health."),
        "simulate": ("simulating.Simulate", "Replay recorded or generated jobs with the scheduler's own code."),
    },
    "Learn more": {
        "demo": ("learning.Demo", "Watch Corral at work for about ten seconds."),
        "completion": ("learning.Completion", "Print a script with which your shell completes commands."),
        "help": ("learning.Help", "Show the help of a command, or a document."),
        "version": ("learning.Version", "Print the version of Corral."),
    },
}
"""Every command, in the group of the task that it is for: the class of `commands` that declares it, and a summary.

The help of the command itself begins with the same words.
"""

COMMANDS = {name: summary for group in GROUPS.values() for name, (_, summary) in group.items()}


class Corral(
    Command,
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
    def listed(cls) -> Mapping[str, Mapping[str, str]]:
        return {title: {name: summary for name, (_, summary) in group.items()} for title, group in GROUPS.items()}


def run(words: Sequence[str]) -> int:
    """Run the command that `words` are; the exit code."""
    try:
        return _run(read(Corral, "corral", words))
    except UsageError as error:
        from corral.cli.usage_errors import tell

        tell(error)
        return USAGE


def _run(line: Line) -> int:
    if HELP in line.given or not (line.command.runs or VERSION in line.given):
        from corral.cli.help_page import show_help

        show_help(line.path, line.command, on_error=HELP not in line.given)
        return 0 if HELP in line.given else USAGE
    if VERSION in line.given:
        from corral.cli.direct.print_version import print_version

        print_version(line.command())
        return 0
    value = line.value()
    return load(value.runs)(value) or 0
