"""Printed commands, as a person runs them, and what a job asks for."""

import subprocess
from pathlib import Path
from typing import Any

from corral.core.model.answers.job_details import JobDetail
from tests.e2e.box import CORRAL, Box, Command

_PORT = "--port 8000"


def in_shell(box: Box, command: str, **environ: str) -> Command:
    """A command in a shell that has these variables. Its server takes any free port in place of the printed one."""
    assert command.count(_PORT) == 1
    env = {**box.env, **environ, "PATH": f"{Path(CORRAL).parent}:/usr/bin:/bin"}
    line = command.replace(_PORT, "--port 0")
    return Command(["bash", "-c", line], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)


def asked_for(job: JobDetail) -> dict[str, Any]:
    """What a job asks for, apart from its command and its variables, and the models of GPU that it got.

    The first experiment of a task asks for any model, and the command asks for the model that it got.
    """
    names = ("request", "queue", "project", "container", "workdir", "exclusive")
    asked = {name: job.spec.get(name) for name in names}
    request = {name: value for name, value in (asked["request"] or {}).items() if name != "models"}
    return {**asked, "request": request, "models": [one.name for one in job.grant]}
