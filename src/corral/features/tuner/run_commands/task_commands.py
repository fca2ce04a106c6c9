"""`corral tasks` and `corral experiments`: list the autotuner's tasks; show, start, cancel and delete them."""

import sys
import time
from collections.abc import Callable, Sequence
from functools import partial

from corral.cli.screen import print_json, room, told, write_lines, write_painted
from corral.cli.tables.text_table import TextTable
from corral.client import Client
from corral.core.model.errors import NotFound
from corral.core.model.printable import printable
from corral.core.model.units import count_of, format_duration
from corral.features.tuner import commands
from corral.features.tuner.answers import ExperimentRow, TaskDetail, TaskRow
from corral.features.tuner.deployments.serving_job import log_rank
from corral.features.tuner.measuring.gpu_records import members_in, model_in
from corral.features.tuner.model.experiment import MEASURED_IN_PART
from corral.features.tuner.tasks.best_combinations import BestCombination, best_combinations, mean_of, sureness
from corral.features.tuner.tasks.task_report import (
    default_of,
    figures,
    front_figures,
    front_of,
    gain_in_words,
    objective_labels,
    parameters_in_words,
)
from corral.formatting.times import clock_time

STATUS_STYLES = {"running": "cyan", "completed": "green", "success": "green", "failed": "red", "cancelled": "yellow"}
_STOP_S = 150.0
_LOOK_S = 0.25


def tasks(given: commands.TasksCommand) -> None:
    """Run `corral tasks`."""
    with Client() as client:
        rows = client.tasks.list()
    if given.json:
        print_json(rows)
        return
    titles = ("ID", "NAME", "USER", "STATUS", "TRIED", "BEST", "TIME", "MODEL")
    table = TextTable(titles, limits={"NAME": 20, "USER": 12}, numeric=("TRIED", "BEST"))
    for row in rows:
        best = "-" if row.best_score is None else f"{abs(row.best_score):.4g}"
        table.add(
            row.id, row.task_name, row.user, row.status, tried_in_words(row), best,
            format_duration(row.elapsed_time), row.model, style=STATUS_STYLES.get(row.status),
        )  # fmt: skip
    write_painted(*(table.lines(paint="STATUS") if rows else ["there are no tasks; `corral tune FILE` makes one"]))


def experiments(given: commands.ExperimentsCommand) -> None:
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


def show(given: commands.TasksShowCommand) -> None:
    """Run `corral tasks show`."""
    with Client() as client:
        detail, rows = client.tasks.get(given.task_id), client.experiments.list(given.task_id, metrics=True)
        lines = [] if given.json else report_lines(detail, rows, partial(command_of, client))
    if given.json:
        print_json(detail)
    else:
        write_painted(*lines)


def logs(given: commands.TasksLogsCommand) -> None:
    """Run `corral tasks logs`."""
    with Client() as client:
        if given.experiment is None:
            for line in client.tasks.logs(given.task_id, follow=given.follow):
                write_lines(printable(line))
                sys.stdout.flush()
            return
        row = client.experiments.of_number(given.task_id, given.experiment)
        if row.job_id is None:
            raise NotFound(
                f"experiment {given.experiment} of task {given.task_id} has no log: no job was submitted for it"
            )
        rank = log_rank(client.jobs.get(row.job_id))
        for block in client.jobs.logs_bytes(row.job_id, follow=given.follow, rank=rank):
            sys.stdout.buffer.write(block)
            sys.stdout.buffer.flush()


def start(given: commands.TasksStartCommand) -> None:
    """Run `corral tasks start`."""
    with Client() as client:
        row = client.tasks.start(given.task_id)
    write_lines(f"task {row.id} is running; `corral experiments {row.id}` shows what it tries")


def cancel(given: commands.TasksCancelCommand) -> None:
    """Run `corral tasks cancel`."""
    with Client() as client:
        client.tasks.cancel(given.task_id)
        give_up_at = time.monotonic() + _STOP_S
        while alive := [row for row in client.experiments.list(given.task_id) if row.completed_at is None]:
            if time.monotonic() > give_up_at:
                write_lines(f"task {given.task_id} is cancelled; {count_of(len(alive), 'experiment')} still stop")
                return
            time.sleep(_LOOK_S)
    write_lines(f"task {given.task_id} is cancelled, and no experiment of it runs")


def restart(given: commands.TasksRestartCommand) -> None:
    """Run `corral tasks restart`."""
    with Client() as client:
        client.tasks.restart(given.task_id)
    write_lines(f"task {given.task_id} starts again")


def clear(given: commands.TasksClearCommand) -> None:
    """Run `corral tasks clear`."""
    with Client() as client:
        client.tasks.clear(given.task_id)
    write_lines(f"task {given.task_id} has no experiments any more")


def delete(given: commands.TasksDeleteCommand) -> None:
    """Run `corral tasks delete`."""
    with Client() as client:
        client.tasks.delete(given.task_id)
    write_lines(f"task {given.task_id} is deleted")


def tried_in_words(row: TaskRow) -> str:
    """The number of experiments so far, and the planned maximum."""
    return f"{row.total_experiments}/{'?' if row.planned_experiments is None else row.planned_experiments}"


def command_of(client: Client, one: ExperimentRow) -> str:
    """The command that serves the model as an experiment did."""
    return client.experiments.serving(one.task_id, one.experiment_id).command


def report_lines(
    detail: TaskDetail, experiments: Sequence[ExperimentRow], command: Callable[[ExperimentRow], str]
) -> list[str]:
    """The findings of a task so far, for `write_painted`. `command` returns that of `command_of`."""
    row = detail.task
    said = f"{count_of(row.total_experiments, 'experiment')}, {row.successful_experiments} succeeded"
    head = f"task {row.id} ({row.task_name}) is {row.status}: {said} in {format_duration(row.elapsed_time)}"
    lines = told(head, room())
    if row.error_message:
        lines += told(row.error_message, room())
    bests = best_combinations(experiments)
    if len(bests) > 1:
        lines += told("no winner: experiments ran on several models of GPU, whose figures do not compare", room())
    for best in bests:
        lines += _best_lines(detail, experiments, best, command, apart=len(bests) > 1)
    return lines + _front_lines(detail, experiments)


def _best_lines(
    detail: TaskDetail,
    experiments: Sequence[ExperimentRow],
    best: BestCombination[ExperimentRow],
    command: Callable[[ExperimentRow], str],
    *,
    apart: bool,
) -> list[str]:
    """The best combination on one model of GPU; the model is named if there are several (`apart`)."""
    row = mean_of(best.experiments)
    measured = default_of(detail, experiments, best.gpu_model)
    default = mean_of(measured) if measured else None
    table = TextTable(("MEASURED", "BEST", "DEFAULT"), numeric=("BEST", "DEFAULT"))
    for figure in figures(row, default):
        table.add(*figure)
    generator = (row.metrics or {}).get("generator", "unknown")
    on = f" on {best.gpu_model or 'GPUs of unknown model'}" if apart else ""
    return [
        "",
        *told(f"best{on}: experiment {row.experiment_id}: {parameters_in_words(row)}", room()),
        f"      {gain_in_words(detail, row, default)}",
        *told(f"      {sureness(best)}", room()),
        *(
            line
            for one in best.experiments
            for said in one.disturbances
            for line in told(f"      noise: experiment {one.experiment_id}: {said}", room())
        ),
        "",
        *(f"  {line}" for line in table.lines(indent=2)),
        printable(f"  measured by the load generator {generator}"),
        "",
        printable(f"serve it: {command(row)}"),
    ]


def _front_lines(detail: TaskDetail, experiments: Sequence[ExperimentRow]) -> list[str]:
    """With several objectives, the experiments that no other beats, with their measurements."""
    front = front_of(detail, experiments)
    if not front:
        return []
    titles = ("NO", *(label.upper() for label in objective_labels(detail)), "GPUS", "PARAMETERS")
    table = TextTable(titles, numeric=titles[:-2])
    for one in front:
        table.add(str(one.experiment_id), *front_figures(detail, one), gpus_in_words(one), parameters_in_words(one))
    return [
        "",
        "  no other experiment is better in every figure than these:",
        *(f"  {line}" for line in table.lines(indent=2)),
    ]


def outcome(row: ExperimentRow) -> str:
    """The result of an ended experiment: a line, and below it the server's last lines if it failed."""
    words = f"experiment {row.experiment_id}: {_tried(row)}: {row.status}"
    if row.error_message:
        return f"{words}: {row.error_message}"
    if row.objective_score is None:
        return f"{words}, {MEASURED_IN_PART}"
    return f"{words}, score {row.objective_score:.4g} in {format_duration(row.elapsed_time)}{_noise(row)}"


def experiment_table(rows: Sequence[ExperimentRow], front: Sequence[ExperimentRow] = ()) -> list[str]:
    """The table of experiments. A star marks the front: no other experiment is better in every objective."""
    stars = {one.id for one in front}
    several = len({model_in(row.gpu_info) for row in rows if row.gpu_info}) > 1
    table = TextTable(
        ("NO", "STATUS", "SCORE", "GPUS", "STARTED", "TIME", "PARAMETERS, WHY"), numeric=("NO", "SCORE", "TIME")
    )
    for row in rows:
        score = "-" if row.objective_score is None else f"{row.objective_score:.4g}"
        table.add(
            f"{row.experiment_id}{'*' if row.id in stars else ''}", row.status, score,
            gpus_in_words(row, in_full=several), clock_time(row.started_at),
            format_duration(row.elapsed_time), _tried(row) + _why(row),
            style=STATUS_STYLES.get(row.status),
        )  # fmt: skip
    return table.lines(paint="STATUS")


def _tried(row: ExperimentRow) -> str:
    """The parameters of an experiment, and the experiment that it measures again."""
    again = "" if row.repeats is None else f" (measures experiment {row.repeats} again)"
    return parameters_in_words(row) + again


def _why(row: ExperimentRow) -> str:
    if row.error_message:
        return f": {row.error_message}"
    partly = f": {MEASURED_IN_PART}" if row.status == "success" and row.objective_score is None else ""
    return partly + _noise(row)


def _noise(row: ExperimentRow) -> str:
    """The possible disturbances of a measurement in words; "" if none is known."""
    return f" (noise: {'; '.join(row.disturbances)})" if row.disturbances else ""


def gpus_in_words(row: ExperimentRow, *, in_full: bool = True) -> str:
    """The number of GPUs, of nodes if they are several, and the model or its first word; "N/A" if not known."""
    if not row.gpu_info:
        return "N/A"
    members = members_in(row.gpu_info)
    count = f"{row.gpu_info.get('count')}{f' on {members} nodes' if members > 1 else ''}"
    name = str(row.gpu_info.get("model") or "")
    model = name if in_full else name.split(" ", maxsplit=1)[0]
    return f"{count} ({model})" if model else count
