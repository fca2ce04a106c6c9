"""`corral experiments`: what a task of the autotuner has tried."""

from corral.cli.screen import command_group, example, print_json, write_painted
from corral.cli.tasks import Json, TaskId, experiment_table
from corral.client import Client
from corral.tuner.task_report import front_of, objective_labels

app = command_group()


@app.command(epilog=example("corral experiments 17", "corral experiments 17 --json"))
def experiments(task_id: TaskId, json: Json = False) -> None:
    """List what a task of the autotuner has tried. A lower score is better; JSON has all that was measured."""
    with Client() as client:
        rows = client.experiments.list(task_id, metrics=json)
        detail = client.tasks.get(task_id)
        if not json and len(objective_labels(detail)) > 1:
            rows = client.experiments.list(task_id, metrics=True)
    if json:
        print_json(rows)
    else:
        write_painted(
            *(experiment_table(rows, front_of(detail, rows)) if rows else [f"task {task_id} has no experiments yet"])
        )
