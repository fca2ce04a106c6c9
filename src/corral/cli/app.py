"""All commands by task, with the module of each. A module is loaded when its command is used, not to list it."""

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperGroup
from typer.exceptions import TyperException

from corral.cli.direct.print_version import print_version


class Listed(NamedTuple):
    """A command as `corral --help` lists it: the module of this package that defines it, and a summary in one line.

    The help of the command itself begins with the same words.
    """

    module: str
    summary: str


GROUPS = {
    "Run work": {
        "run": Listed("run", "Run a command on GPUs that nobody else uses, and wait for it."),
        "submit": Listed("submit", "Queue a script or a command, and print the job's id."),
        "exec": Listed("execute", "Run a command inside a running job."),
        "wait": Listed("wait", "Wait until jobs have ended."),
        "reserve": Listed("reserve", "Reserve GPUs for interactive work."),
        "adopt": Listed("reserve", "Make a running process a job, so that it keeps the GPUs it uses."),
    },
    "Look": {
        "ps": Listed("ps", "List jobs that wait or run."),
        "show": Listed("show", "Show everything about a job."),
        "top": Listed("top", "Watch GPUs and jobs on the whole terminal: bars, waits, logs."),
        "dashboard": Listed("dashboard", "Open the dashboard in a browser."),
        "status": Listed("listing", "Show each GPU, its state, and who uses it."),
        "queues": Listed("queues", "List queues: policies, quotas, use, and what is left to you."),
        "why": Listed("why", "Explain why a job waits, and what would start it now."),
        "logs": Listed("logs", "Print the output of a job."),
        "events": Listed("events", "Follow what happens to jobs, GPUs and alerts."),
    },
    "Change jobs": {
        "cancel": Listed("change", "Cancel jobs: stop running ones, remove waiting ones."),
        "update": Listed("update", "Change jobs that wait or run: priority, time, name, queue."),
        "hold": Listed("change", "Keep waiting jobs from starting until `corral release`."),
        "release": Listed("change", "Let jobs on hold start again, or end reservations."),
        "requeue": Listed("change", "Run jobs again: those that run, failed or were lost."),
    },
    "GPUs and nodes": {
        "devices": Listed("listing", "List all GPUs with their UUIDs and models."),
        "alloc-map": Listed("local.alloc_map", "Show how much of each GPU is allocated, and to whom."),
        "resources": Listed("resources", "List the resource names of other systems that jobs may use."),
        "nodes": Listed("nodes", "List the nodes, and whether jobs may start on them."),
        "cordon": Listed("cordon", "Keep new jobs from starting on a GPU or a node."),
        "uncordon": Listed("cordon", "Let jobs start on a GPU or a node again."),
        "drain": Listed("nodes", "Empty a node: start nothing more on it."),
        "mig": Listed("mig", "Create and delete MIG slices."),
    },
    "Model services on Kubernetes": {
        "deploy": Listed("deploy", "Deploy a model service on the node with the most idle GPUs."),
        "deployments": Listed("deploy", "List the model services that Corral has deployed."),
        "undeploy": Listed("deploy", "Remove a model service that Corral has deployed, and what it holds."),
    },
    "Serve models well": {
        "tune": Listed("tune", "Find the best way to serve a model."),
        "tasks": Listed("tasks", "List the tasks of the autotuner; start, cancel and delete them."),
        "experiments": Listed("experiments", "List what a task of the autotuner has tried."),
        "bench": Listed("bench", "Measure an OpenAI-compatible server."),
    },
    "Server and site": {
        "up": Listed("local.server", "Start the server in $CORRAL_HOME (default ~/.corral)."),
        "down": Listed("local.server", "Stop the server in $CORRAL_HOME. Jobs run on."),
        "doctor": Listed("local.doctor", "Check this machine and its server, and show what to fix."),
        "alerts": Listed("alerts", "List the alerts that fire; acknowledge and silence them."),
        "config": Listed("local.config", "Write, check and reload the settings of a site."),
        "channels": Listed("channels", "Set where you are told of your jobs, and try it."),
        "token": Listed("token_command", "Create, list and revoke tokens for access over TCP."),
        "agent": Listed("local.agent", "Run the agent of this host, in the foreground."),
    },
    "Plan and measure": {
        "check": Listed("local.check", "Check whether a command can run on the GPUs here."),
        "estimate": Listed("local.estimate", "Estimate the GPU memory that a language model needs."),
        "usage": Listed("usage", "Show GPU-hours used, and how well the shares were enforced."),
        "report": Listed("report", "Show what was made of granted GPUs, and what it cost."),
        "kpis": Listed("kpis", "Show key figures: use of GPUs, how jobs fared, health."),
        "simulate": Listed("local.simulate", "Replay recorded or generated jobs with the scheduler's own code."),
    },
    "Learn more": {
        "demo": Listed("demo", "Watch Corral at work for about ten seconds."),
        "completion": Listed("completion", "Print a script with which your shell completes commands."),
        "help": Listed("help_command", "Show the help of a command, or a document."),
        "version": Listed("local.server", "Print the version of Corral."),
    },
}
"""Every command, in the group of the task that it is for."""

COMMANDS = {name: listed for group in GROUPS.values() for name, listed in group.items()}


class _Commands(TyperGroup):
    """Loads a command only when it is used, so that no command pays for the others."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"corral.cli.{COMMANDS[cmd_name].module}")
        loaded = typer.main.get_command(module.app)
        found = loaded.commands.get(cmd_name, loaded) if isinstance(loaded, TyperGroup) else loaded
        for command in _with_subcommands(found):
            _write_usage_as_in_a_manual(command)
        return found

    def get_params(self, ctx: Any) -> list[Any]:
        params = super().get_params(ctx)
        for param in params:
            # Typer's own way to set up completion knows no values; `corral completion` is the one to show.
            param.hidden = param.hidden or param.name in ("install_completion", "show_completion")  # type: ignore[attr-defined]
        return params

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        widest = max(map(len, COMMANDS))
        for title, group in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(widest), listed.summary) for name, listed in group.items()])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if not args[0].startswith("-") and args[0] not in COMMANDS:
            from corral.cli.other_tools import no_such_command

            ctx.fail(no_such_command(args[0], COMMANDS))
        return super().resolve_command(ctx, args)

    def make_context(self, *args: Any, **settings: Any) -> Any:
        with _errors_in_words():
            return super().make_context(*args, **settings)

    def invoke(self, ctx: Any) -> Any:
        with _errors_in_words():
            return super().invoke(ctx)


@contextmanager
def _errors_in_words() -> Iterator[None]:
    try:
        yield
    except TyperException as error:
        from corral.cli.usage_errors import fit_to_terminal

        fit_to_terminal(error)
        raise


def _with_subcommands(command: Any) -> Iterator[Any]:
    yield command
    if isinstance(command, TyperGroup):
        for below in command.commands.values():
            yield from _with_subcommands(below)


def _write_usage_as_in_a_manual(command: Any) -> None:
    """A manual writes what is needed plainly, and typer in braces."""
    pieces = command.collect_usage_pieces
    vars(command)["collect_usage_pieces"] = lambda ctx: [piece.strip("{}") for piece in pieces(ctx)]


def _print_version(ctx: typer.Context, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        raise typer.Exit(print_version())


app = typer.Typer(
    cls=_Commands,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
    epilog="\b\nExample:\n  corral run --gpus 2 -- python train.py",
)


@app.callback()
def corral(
    version: Annotated[
        bool, typer.Option("-V", "--version", help="Print the version.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Share GPUs: queue jobs, run them on the right GPUs, see why they wait.

    Commands talk to the server at $CORRAL_URL with $CORRAL_TOKEN (see "corral token"), else in $CORRAL_HOME, else to
    the one that runs in ~/.corral or /var/lib/corral. "corral help COMMAND" explains a command, and "corral help docs"
    lists the documents.
    """
