"""The command that a task of processes prints, run by a person: its job asks for what the experiment's job had."""

import signal

from corral.client import Client
from tests.e2e.box import Box
from tests.features.tuner.printed import asked_for, in_shell
from tests.features.tuner.tasks import TASK, begun, over

SECRET = "it's $(id) a secret"


def test_the_printed_command_serves_with_the_gpus_variables_and_terms_of_the_experiment(box: Box) -> None:
    with Client(box.home) as client:
        fields = {"parameters": {"tp": [2], "max-num-seqs": [4]}, "project": "of-a-project", "env": {"MINE": SECRET}}
        task_id = begun(client, **{**TASK, **fields})
        assert over(box, client, task_id).status == "completed"
        plan = client.experiments.serving(task_id)
        measured = client.jobs.get(client.experiments.of_number(task_id, plan.experiment_id).job_id or "")
        assert plan.command in box.ok("tasks", "show", task_id)
        assert "secret" not in plan.command
        with in_shell(box, plan.command, MINE=SECRET) as served:
            assert served.stdout is not None
            job = box.until(lambda: [row for row in client.jobs.list() if row.phase == "RUNNING"])[0]
            assert asked_for(client.jobs.get(job.id)) == asked_for(measured)
            assert box.ok("exec", job.id, "--", "sh", "-c", 'printf %s "$MINE"') == SECRET
            assert "serving toy" in next(line for line in served.stdout)
            served.send_signal(signal.SIGINT)
            client.jobs.cancel(job.id)
            served.communicate()


def test_a_variable_that_the_shell_lacks_is_named_before_anything_runs(box: Box) -> None:
    told = box.run("run", "--env", "OF_NO_SHELL", "--", "true")
    assert (told.returncode, "OF_NO_SHELL is not set here" in told.stderr) == (2, True)
    assert box.ok("run", "--env", "MINE", "--", "sh", "-c", 'printf %s "$MINE"', MINE=SECRET) == SECRET


def test_the_winner_of_a_task_of_processes_is_not_deployed_and_the_command_and_the_reason_are_said(box: Box) -> None:
    with Client(box.home) as client:
        task_id = begun(client, **TASK)
        over(box, client, task_id)
        command = client.experiments.serving(task_id).command
    told = box.run("deploy", "--from", task_id)
    assert (told.returncode, told.stdout) == (1, f"{command}\n")
    assert "was a job on Corral's GPUs (deployment_mode process), not a service" in told.stderr.replace("\n", " ")
    contradicting = box.run("deploy", "chat", "--from", task_id, "--gpus", "4")
    assert (contradicting.returncode, "--gpus is given" in contradicting.stderr) == (2, True)
    assert box.run("deploy", "--from", "999").returncode == 1
