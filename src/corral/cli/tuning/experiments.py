"""`corral experiments`: list the experiments of an autotuner's task."""

from corral.cli.commands import tuning
from corral.cli.screen import print_json, write_painted
from corral.cli.tuning.tasks import experiment_table
from corral.client import Client
from corral.tuner.tasks.task_report import front_of, objective_labels


def experiments(given: tuning.ExperimentsCommand) -> None:
    """Run `corral experiments`."""
    with Client() as client:
        rows = client.experiments.list(given.task_id, metrics=given.json)
        detail = client.tasks.get(given.task_id)
        if not given.json and len(objective_labels(detail)) > 1:
            rows = client.experiments.list(given.task_id, metrics=True)
    if given.json:
        print_json(rows)
    else:
        write_painted(
            *(
                experiment_table(rows, front_of(detail, rows))
                if rows
                else [f"task {given.task_id} has no experiments yet"]
            )
        )
