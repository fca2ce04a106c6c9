"""Which task runs where, and what it is told."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.host.runtimes.process.srun.layout import Task, common_file, devices_of, exported, lay_out, members_of
from corral.host.runtimes.process.srun.options import BadUsage, parse

NODES = ["a", "a", "b"]


def tasks(*options: str, nodes: list[str] = NODES, **env: str) -> list[Task]:
    return lay_out(nodes, parse([*options, "true"]), {"CORRAL_JOB_ID": "7", **env})


def test_a_task_a_member_unless_more_are_asked_for() -> None:
    assert [task.member for task in tasks()] == [0, 1, 2]
    assert [task.member for task in tasks(nodes=["a"])] == [0]
    assert [task.member for task in tasks(SLURM_NTASKS="6")] == [0, 0, 1, 1, 2, 2]


def test_tasks_come_in_blocks_and_the_first_members_have_one_more() -> None:
    assert [task.member for task in tasks("-n", "7")] == [0, 0, 0, 1, 1, 2, 2]
    assert [task.member for task in tasks("-n", "2")] == [0, 1]
    assert [task.member for task in tasks("--ntasks-per-node=2")] == [0, 0, 1, 1, 2, 2]
    assert [task.member for task in tasks("-N2", "--ntasks-per-node=2")] == [0, 0, 1, 1]


def test_of_fewer_nodes_each_has_as_many_tasks_as_before() -> None:
    assert [task.member for task in tasks("-N1", SLURM_NTASKS="6")] == [0, 0]
    assert [task.member for task in tasks("-w", "b", SLURM_NTASKS="6")] == [2, 2]


def test_ranks_go_on_over_the_members_and_local_ranks_begin_anew_on_each_node() -> None:
    told = [
        (one.env["RANK"], one.env["LOCAL_RANK"], one.env["NODE_RANK"], one.env["WORLD_SIZE"]) for one in tasks("-n4")
    ]
    assert told == [("0", "0", "0", "4"), ("1", "1", "0", "4"), ("2", "2", "0", "4"), ("3", "0", "1", "4")]
    last = tasks("-n4")[-1].env
    assert (last["SLURM_PROCID"], last["SLURM_LOCALID"], last["SLURM_NODEID"], last["SLURM_NTASKS"]) == (
        "3", "0", "1", "4",
    )  # fmt: skip
    assert (last["SLURM_NNODES"], last["SLURMD_NODENAME"]) == ("2", "b")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["-N4"], "4 are asked for, and the job has 3"),
        (["-w", "c"], "c is no node of this job, which has a, a, b"),
        (["-n9", "--ntasks-per-node=2"], "9 tasks are asked for, and 6 fit"),
    ],
)
def test_what_does_not_fit_is_refused(options: list[str], why: str) -> None:
    with pytest.raises(BadUsage, match=why):
        tasks(*options)


@given(count=st.integers(1, 40), members=st.integers(1, 6))
def test_every_task_has_a_place_and_no_member_two_more_than_another(count: int, members: int) -> None:
    laid = tasks("-n", str(count), nodes=[f"n{rank}" for rank in range(members)])
    assert [task.rank for task in laid] == list(range(count))
    each = [sum(task.member == member for task in laid) for member in range(members)]
    assert max(each) - min(each) <= 1


def test_output_that_differs_by_task_is_the_tasks_own_and_any_other_sruns() -> None:
    assert [task.output for task in tasks("-o", "%j-%2t.out")] == ["7-00.out", "7-01.out", "7-02.out"]
    assert [task.output for task in tasks("-o", "%N%n")] == ["a0", "a0", "b1"]
    assert [task.output for task in tasks("-o", "all%%t.out")] == [None] * 3
    assert common_file("all%%t-%j.out", {"CORRAL_JOB_ID": "7"}) == "all%t-7.out"
    assert common_file("%t.out", {}) is None
    assert {task.output for task in tasks("-o", "none")} == {"/dev/null"}


def test_what_is_exported() -> None:
    env = {"PATH": "/bin", "HOME": "/h", "CORRAL_JOB_ID": "7"}
    assert exported(None, env) == exported("ALL", env) == env
    assert exported("ALL,X=1", env) == {**env, "X": "1"}
    assert exported("NONE", env) == {"PATH": "/bin", "CORRAL_JOB_ID": "7"}
    assert exported("HOME,X=1,GONE", env) == {**env, "X": "1"}


def test_gpus_of_a_task_are_the_next_ones_of_its_member() -> None:
    assert [devices_of(task, 2, "G0,G1,G2,G3") for task in range(2)] == ["G0,G1", "G2,G3"]
    with pytest.raises(BadUsage, match="the member has 1, too few for 2 tasks"):
        devices_of(1, 1, "G0")


def test_it_knows_where_it_is() -> None:
    assert members_of({"CORRAL_JOB_ID": "7", "CORRAL_NODE": "a"}) == ["a"]
    script = {"CORRAL_JOB_ID": "7", "CORRAL_GANG_SIZE": "2", "CORRAL_NODES": "a,b", "CORRAL_RANK": "1"}
    assert members_of({**script, "CORRAL_SRUN_SOCKET": "x"}) == ["a", "b"]
    with pytest.raises(BadUsage, match="rank 1 of 2: the job's command runs on every member by itself"):
        members_of(script)
    with pytest.raises(BadUsage, match="submit the script with corral submit"):
        members_of({})
