"""The command line of srun."""

from typing import Any

import pytest

from corral.host.runtimes.process.srun.options import BadUsage, Options, parse


def test_options_come_before_the_command_and_its_own_are_left_to_it() -> None:
    assert parse(["-n", "4", "-l", "python", "train.py", "-n", "9"]) == Options(
        ["python", "train.py", "-n", "9"], ntasks=4, label=True
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-n4"], {"ntasks": 4}),
        (["-n=4"], {"ntasks": 4}),
        (["--ntasks=4"], {"ntasks": 4}),
        (["--ntasks", "4"], {"ntasks": 4}),
        (["-N", "2", "--ntasks-per-node=4"], {"nodes": 2, "ntasks_per_node": 4}),
        (["-N2-4"], {"nodes": 2}),
        (["-lu"], {"label": True, "unbuffered": True}),
        (["-K"], {"kill_on_bad_exit": True}),
        (["--kill-on-bad-exit"], {"kill_on_bad_exit": True}),
        (["--kill-on-bad-exit=0"], {"kill_on_bad_exit": False}),
        (["--gpus-per-task=a100:2"], {"gpus_per_task": 2}),
        (["-o", "%t.out", "-e", "%t.err"], {"output": "%t.out", "error": "%t.err"}),
        (["-w", "a,b"], {"nodelist": ["a", "b"]}),
        (["--export=ALL,X=1"], {"export": "ALL,X=1"}),
        (["--mpi=none", "--"], {}),
    ],
)
def test_an_option_may_be_written_as_slurm_takes_it(words: list[str], said: dict[str, Any]) -> None:
    assert parse([*words, "hostname"]) == Options(["hostname"], **said)


def test_what_changes_nothing_here_is_passed_over_with_its_reason() -> None:
    told = parse(["-c", "4", "--cpu-bind=none", "--overlap", "-t5", "hostname"]).passed_over
    assert [one.partition(" (")[0] for one in told] == ["-c 4", "--cpu-bind none", "--overlap", "-t 5"]
    assert "for all of its tasks" in told[0]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ([], "there is no command to run"),
        (["-n"], "-n needs a value"),
        (["-n", "0", "x"], "-n: '0' is no number that it takes"),
        (["-n", "1e9", "x"], "is no number"),
        (["--ntask=2", "x"], "--ntask is no option of Corral's srun, which has --chdir"),
        (["--mpi=pmix", "x"], "call mpirun"),
        (["--pty", "bash"], "a job has no terminal"),
        (["--kill-on-bad-exit=2", "x"], "is no number"),
    ],
)
def test_what_cannot_be_had_is_refused_with_what_can(words: list[str], why: str) -> None:
    with pytest.raises(BadUsage, match=why):
        parse(words)
