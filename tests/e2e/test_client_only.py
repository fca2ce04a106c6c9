"""Where only the client is installed: what talks to a server works, and what needs the rest says what to type."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.client_only import client_only_environ
from tests.e2e.box import Box

TALKS_TO_A_SERVER = """
run --gpus 1 -- echo ran
submit --gpus 1 --after {job} -- true
submit --gpus 1 --dry-run -- true
wait {job}
ps --all --start
why {job}
logs {job}
status
devices
nodes
usage
alloc-map
token list
reserve --gpus 1 --for 1h
cordon 3
"""
WORKS_WITHOUT_ONE = """
version
doctor
estimate llama-7b
check --gpu-model A100 --driver 550.54.15 -- true
config check {settings}
"""
NEEDS_MORE = """
up
up --detach
demo
simulate openb
simulate faults
simulate journal
"""


@pytest.fixture(scope="module")
def client_only(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return client_only_environ(tmp_path_factory.mktemp("client-only"))


def commands(lines: str, **names: object) -> list[list[str]]:
    return [shlex.split(line.format(**names)) for line in lines.splitlines() if line]


def test_every_command_that_talks_to_a_server_works(box: Box, client_only: dict[str, str]) -> None:
    job = box.submit("--gpus", "0", "--", "true")
    settings = box.home / "config.yaml"
    for words in commands(TALKS_TO_A_SERVER + WORKS_WITHOUT_ONE, job=job, settings=settings):
        done = box.run(*words, cwd=None, **client_only)
        assert (done.returncode, done.stderr.count("install")) == (0, 0), f"{words}: {done.stderr}"


def test_the_help_of_every_command_is_there(client_only: dict[str, str]) -> None:
    code = (
        "from corral.cli.app import all_commands, Corral, run;"
        "print(all(Corral.find(name) for name in all_commands()), {run([name, '--help']) for name in all_commands()})"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **client_only}
    )
    assert (done.stdout.splitlines()[-1], done.stderr) == ("True {0}", "")


def test_what_needs_the_rest_says_what_to_type(box: Box, client_only: dict[str, str], tmp_path: Path) -> None:
    for words in commands(NEEDS_MORE, home=tmp_path):
        done = box.run(*words, cwd=None, CORRAL_HOME=str(tmp_path), **client_only)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1), f"{words}: {done.stderr}"
        assert "needs packages that a client does without (alembic" in done.stderr
        assert "[server]" in done.stderr
