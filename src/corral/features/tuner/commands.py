"""Commands of the autotuner, and its load generator."""

from __future__ import annotations

from corral.cli.declaring import DeclaredCommand, flag, number, path, text, whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path


class TuneCommand(
    DeclaredCommand,
    runs="corral.features.tuner.run_commands.tune.tune",
    examples=(
        "corral tune task.json --dry-run",
        "corral tune task.json --follow",
        "corral tune --demo",
    ),
):
    """Find the best way to serve a model.

    Candidates are deployed on GPUs from the queue, and each is measured under the traffic of the task.

    Without --follow it prints the task's id; `corral tasks show ID` shows the result. Exits with 1 if no experiment
    succeeded. "corral help docs autotuner" has an example of a task's file, and all its keys.
    """

    file: Path | None = path(metavar="[TASK.json]", help="The file of the task: model, parameters, traffic, goal.")
    follow: bool = flag("--follow", "-f", help="Show each experiment until the task is done.")
    dry_run: bool = flag("--dry-run", help="Show what the task would take at most, and create none.")
    demo: bool = flag("--demo", help="Tune a stand-in on mock GPUs with a server of its own, in about a minute.")


class TasksShowCommand(
    DeclaredCommand, runs="corral.features.tuner.run_commands.task_commands.show", examples=("corral tasks show 17",)
):
    """Show the result of a task: the best parameters, the measurements, and the command to serve with them."""

    task_id: str = text(metavar="TASK", help="Its id in `corral tasks`.", required=True)
    json: bool = flag("--json", help="Print JSON.")


class TasksLogsCommand(
    DeclaredCommand,
    runs="corral.features.tuner.run_commands.task_commands.logs",
    examples=(
        "corral tasks logs -f 17",
        "corral tasks logs 17 --experiment 3",
    ),
):
    """Print the events of a task and its experiments, a line each; or the output of one experiment's server."""

    task_id: str = text(metavar="TASK", help="Its id in `corral tasks`.", required=True)
    follow: bool = flag("--follow", "-f", help="Keep printing until the task no longer runs.")
    experiment: int | None = whole(
        "--experiment", "-e", metavar="NO", help="Output of the server of this experiment.", least=1
    )


class TasksStartCommand(
    DeclaredCommand, runs="corral.features.tuner.run_commands.task_commands.start", examples=("corral tasks start 17",)
):
    """Start a task. A task that failed or was cancelled continues where it was."""

    task_id: str = text(metavar="TASK", help="Its id in `corral tasks`.", required=True)


class TasksCancelCommand(
    DeclaredCommand,
    runs="corral.features.tuner.run_commands.task_commands.cancel",
    examples=("corral tasks cancel 17",),
):
    """Cancel a task: no further experiment begins. Waits until running experiments have stopped."""

    task_id: str = text(metavar="TASK", help="Its id in `corral tasks`.", required=True)


class TasksRestartCommand(
    DeclaredCommand,
    runs="corral.features.tuner.run_commands.task_commands.restart",
    examples=("corral tasks restart 17",),
):
    """Delete the experiments of a task that does not run, and start it again."""

    task_id: str = text(metavar="TASK", help="Its id in `corral tasks`.", required=True)


class TasksClearCommand(
    DeclaredCommand, runs="corral.features.tuner.run_commands.task_commands.clear", examples=("corral tasks clear 17",)
):
    """Delete the experiments of a task that does not run."""

    task_id: str = text(metavar="TASK", help="Its id in `corral tasks`.", required=True)


class TasksDeleteCommand(
    DeclaredCommand,
    runs="corral.features.tuner.run_commands.task_commands.delete",
    examples=("corral tasks delete 17",),
):
    """Delete a task that does not run, and its experiments."""

    task_id: str = text(metavar="TASK", help="Its id in `corral tasks`.", required=True)


class TasksCommand(
    DeclaredCommand,
    runs="corral.features.tuner.run_commands.task_commands.tasks",
    commands={
        "show": TasksShowCommand,
        "logs": TasksLogsCommand,
        "start": TasksStartCommand,
        "cancel": TasksCancelCommand,
        "restart": TasksRestartCommand,
        "clear": TasksClearCommand,
        "delete": TasksDeleteCommand,
    },
    examples=(
        "corral tasks",
        "corral tasks cancel 17",
    ),
):
    """List the tasks of the autotuner; start, cancel and delete them."""

    json: bool = flag("--json", help="Print JSON.")


class ExperimentsCommand(
    DeclaredCommand,
    runs="corral.features.tuner.run_commands.task_commands.experiments",
    examples=(
        "corral experiments 17",
        "corral experiments 17 --json",
    ),
):
    """List the experiments of a task of the autotuner. A lower score is better; JSON has all measurements."""

    task_id: str = text(metavar="TASK", help="Its id in `corral tasks`.", required=True)
    json: bool = flag("--json", help="Print JSON.")


class BenchCommand(
    DeclaredCommand,
    runs="corral.features.tuner.run_commands.bench.bench",
    examples=("corral bench http://127.0.0.1:8000 --model llama-3-8b -c 1 -c 8",),
):
    """Measure an OpenAI-compatible server.

    Prints latency, time to first token, time for each further token, and throughput for each level of load.

    Each scenario is measured at each concurrency, by genai-bench where it is installed and has the tokenizer. A key for
    the server is read from OPENAI_API_KEY.
    """

    url: str = text(metavar="URL", help="Where the server answers, without /v1.", required=True)
    model: str = text("--model", "-m", metavar="NAME", help="Name of the model in requests.", required=True)
    scenario: list[str] | None = text(
        "--scenario", metavar="TEXT", help="D(100,100), N(480,240)/(300,150) or U(...).", many=True
    )
    concurrency: list[int] | None = whole("--concurrency", "-c", metavar="N", help="Requests at a time.", many=True)
    requests: int = whole("--requests", metavar="N", help="At most, of each level.", default=100)
    minutes: float = number("--minutes", metavar="N", help="At most, of each level.", default=1.0)
    params: str | None = text("--params", metavar="JSON", help='More fields of each request: {"ignore_eos": true}.')
    tokenizer: str = text(
        "--tokenizer", metavar="DIR", help="Where genai-bench finds the model's tokenizer.", default=""
    )
    generator: str = text(
        "--generator", metavar="NAME", help="genai-bench, or corral: the one that is built in.", default=""
    )
    task: str = text("--task", metavar="NAME", help="Kind of task that the model serves.", default="text-to-text")
    json: bool = flag("--json", help="Print JSON, with every statistic.")
