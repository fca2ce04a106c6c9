from dataclasses import replace

from corral.core.control.launching.environment import launches_of, with_rendezvous
from corral.core.control.launching.slurm_environment import SLURM_MARK
from corral.core.lifecycle.starting import start
from corral.core.model.devices.device import Device, DeviceCondition, DeviceProcess, Node
from corral.core.model.devices.numa import NumaBinding
from corral.core.model.fact import AllocationMade, ConditionObserved, NodeObserved
from corral.core.model.jobs.job import Job, JobKind
from corral.core.model.placing.allocation import Allocation, Grant, Member, Placement
from corral.core.model.runs.launch import Launch
from corral.core.model.view import View
from corral.core.ports.node import Rendezvous
from tests.core.control.strategies import box, job, with_jobs

MEETING = Rendezvous("10.0.0.4", 40123, 40124, "hush")


def held(*uuids: str) -> tuple[View, Allocation]:
    view = with_jobs(box(), job(1))
    placement = Placement((Member("box", tuple(Grant(uuid, 1000) for uuid in uuids)),))
    _, made = start(view.jobs["1"], placement, by="test", at=0.0)
    assert isinstance(made, AllocationMade)
    return view, made.allocation


def environment(*uuids: str) -> dict[str, str]:
    view, allocation = held(*uuids)
    spec = replace(view.jobs["1"].spec, env=(("CUDA_VISIBLE_DEVICES", "0,1,2,3"), ("HOME", "/home/alice")))
    (launch,) = launches_of(replace(view.jobs["1"], spec=spec), allocation, view)
    return dict(launch.env)


def test_a_job_looks_like_one_of_slurm_only_when_its_script_asks_for_that() -> None:
    assert [name for name in environment("GPU-1") if name.startswith("SLURM")] == []


def test_a_job_sees_its_own_devices_whatever_its_submitter_saw() -> None:
    found = environment("GPU-1", "GPU-2")
    assert found["CUDA_VISIBLE_DEVICES"] == "GPU-1,GPU-2"
    assert found["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert (found["CORRAL_GPU_INDICES"], found["CORRAL_GPUS"]) == ("1,2", "2")
    assert found["HOME"] == "/home/alice"


def test_python_writes_at_once_unless_the_submitter_has_said_otherwise() -> None:
    assert environment()["PYTHONUNBUFFERED"] == "1"
    for given in ("", "0", "1", "2"):
        (told,) = launched(member("a", 0), given={"PYTHONUNBUFFERED": given})
        assert told["PYTHONUNBUFFERED"] == given
    assert {one["PYTHONUNBUFFERED"] for one in launched(member("a", 0), member("b", 0))} == {"1"}


def test_an_element_of_an_array_is_told_which_it_is_and_in_slurms_words_where_its_script_is_for_slurm() -> None:
    view, allocation = held()
    alone = view.jobs["1"]
    spec = replace(alone.spec, name="sweep", workdir="/w", request=replace(alone.spec.request, cpu_milli=1500))
    marked = replace(spec, env=((SLURM_MARK, "1,10,0,18,2"),))
    element = replace(alone, id="7_3", array_id="7", array_index=3, spec=marked)
    (launch,) = launches_of(element, allocation, view)
    told = dict(launch.env)
    extent = [told[f"SLURM_ARRAY_TASK_{name}"] for name in ("COUNT", "MIN", "MAX", "STEP")]
    assert extent == ["10", "0", "18", "2"]
    assert (told["CORRAL_JOB_ID"], told["CORRAL_ARRAY_ID"], told["CORRAL_ARRAY_INDEX"]) == ("7_3", "7", "3")
    assert (told["SLURM_ARRAY_JOB_ID"], told["SLURM_ARRAY_TASK_ID"]) == ("7", "3")
    assert (told["SLURM_JOB_NAME"], told["SLURM_SUBMIT_DIR"], told["SLURM_CPUS_PER_TASK"]) == ("sweep", "/w", "2")
    assert [name for name in environment() if "ARRAY" in name] == []


def test_a_job_without_devices_sees_none() -> None:
    assert environment()["CUDA_VISIBLE_DEVICES"] == ""


def fleet(*names: str) -> View:
    """Nodes of four GPUs each: a-0 to a-3 of node a."""
    nodes = (
        Node(name, tuple(Device(f"{name}-{i}", i, "NVIDIA A100", 81920) for i in range(4)), 16000, 65536)
        for name in names
    )
    return View().advance([NodeObserved(node) for node in nodes])


def member(node: str, *indices: int, share: int = 1000) -> Member:
    grants = tuple(Grant(f"{node}-{index}", share) for index in indices)
    return Member(node, grants, cpu_milli=2000, host_memory_mib=512)


def launched(*members: Member, given: dict[str, str] | None = None, script: bool = False) -> list[dict[str, str]]:
    return [dict(one.env) for one in launches(*members, given=given, script=script)]


def launches(*members: Member, given: dict[str, str] | None = None, script: bool = False) -> tuple[Launch, ...]:
    view, waiting = started(fleet("a", "b"), 1, *members, given=given, script=script)
    return launches_of(waiting, view.allocations["1.1"], view)


def started(
    view: View, number: int, *members: Member, given: dict[str, str] | None = None, script: bool = False
) -> tuple[View, Job]:
    waiting = job(number)
    request = replace(waiting.spec.request, gang_size=len(members), cpu_milli=2000)
    spec = replace(waiting.spec, request=request, env=tuple((given or {}).items()), script=script)
    view = with_jobs(view, replace(waiting, spec=spec))
    view = view.advance(start(view.jobs[str(number)], Placement(members), by="test", at=0.0))
    return view, view.jobs[str(number)]


RANKS = ("RANK", "LOCAL_RANK", "NODE_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")


def test_members_are_told_their_ranks_by_node_then_by_device() -> None:
    told = launched(member("a", 0), member("a", 1), member("b", 2))
    assert [tuple(one[name] for name in RANKS) for one in told] == [
        ("0", "0", "0", "3", "2"),
        ("1", "1", "0", "3", "2"),
        ("2", "0", "1", "3", "1"),
    ]
    assert [(one["CORRAL_RANK"], one["CORRAL_NODE"]) for one in told] == [("0", "a"), ("1", "a"), ("2", "b")]
    assert {(one["CORRAL_GANG_SIZE"], one["CORRAL_NODES"]) for one in told} == {("3", "a,a,b")}


def test_a_member_sees_its_own_devices_alone() -> None:
    told = launched(member("a", 0, 1), member("b", 2, 3))
    assert [one["CUDA_VISIBLE_DEVICES"] for one in told] == ["a-0,a-1", "b-2,b-3"]
    assert [(one["CORRAL_GPUS"], one["CORRAL_GPU_INDICES"]) for one in told] == [("2", "0,1"), ("2", "2,3")]


def test_a_rank_that_the_submitter_had_is_a_gangs_no_longer_and_left_to_any_other_job() -> None:
    given = {"RANK": "7", "WORLD_SIZE": "9"}
    assert [one["RANK"] for one in launched(member("a", 0), member("b", 0), given=given)] == ["0", "1"]
    (alone,) = launched(member("a", 0), given=given)
    assert (alone["RANK"], alone["WORLD_SIZE"]) == ("7", "9")


def test_a_job_that_a_member_of_a_gang_submits_is_no_part_of_that_gang() -> None:
    (gang, _) = launched(member("a", 0), member("b", 0))
    (alone,) = launched(member("a", 1), given=gang)
    assert not {"CORRAL_RANK", "CORRAL_GANG_SIZE", "CORRAL_NODES"} & alone.keys()


def test_a_script_has_no_rank_for_it_runs_once() -> None:
    told, _ = launched(member("a", 0), member("b", 0), script=True)
    assert not set(RANKS) & told.keys()
    assert (told["CORRAL_RANK"], told["CORRAL_GANG_SIZE"]) == ("0", "2")


def test_a_launch_is_one_member_with_its_part_of_its_node() -> None:
    first, second = launches(member("a", 0), member("b", 2))
    assert (first.id, second.id) == ("1.1", "1.1-1")
    assert (second.node, second.rank, second.members) == ("b", 1, 2)
    assert (second.cpu_milli, second.host_memory_mib, second.runtime) == (2000, 512, "process")
    assert [use.device.uuid for use in second.uses] == ["b-2"]


def test_what_corral_did_not_start_is_watched() -> None:
    view, held_by = started(fleet("a"), 1, member("a", 0))
    session = replace(held_by, spec=replace(held_by.spec, kind=JobKind.RESERVE))
    assert [one.runtime for one in launches_of(session, view.allocations["1.1"], view)] == ["watch"]


def test_who_came_to_a_device_before_is_told_other_jobs_and_members_of_lower_rank() -> None:
    view, _ = started(fleet("a"), 1, member("a", 0, share=300))
    view, gang = started(view, 2, member("a", 0, share=200), member("a", 0, share=250))
    first, second = launches_of(gang, view.allocations["2.1"], view)
    assert [tenant.job_id for tenant in first.uses[0].tenants] == ["1"]
    assert [tenant.job_id for tenant in second.uses[0].tenants] == ["1", "2"]
    assert (second.uses[0].newcomer.grant.share_milli, second.uses[0].newcomer.alone) == (250, True)


def test_a_share_over_several_devices_is_not_alone_on_any() -> None:
    (launch,) = launches(member("a", 0, 1, share=600))
    assert [use.newcomer.alone for use in launch.uses] == [False, False]


def test_a_slice_is_told_with_the_device_that_it_is_cut_from() -> None:
    cut = Device("a-0-s", 4, "NVIDIA A100 MIG 1g.10gb", 9856, mig_profile="1g.10gb", parent_uuid="a-0")
    whole = Device("a-0", 0, "NVIDIA A100", 81920, mig_enabled=True)
    view = View().advance([NodeObserved(Node("a", (whole, cut), 16000, 65536))])
    view, sliced = started(view, 1, Member("a", (Grant("a-0-s", 1000),)))
    (launch,) = launches_of(sliced, view.allocations["1.1"], view)
    assert [(use.device, use.whole) for use in launch.uses] == [(cut, whole)]


def test_a_device_that_is_gone_is_missing_among_the_uses() -> None:
    (launch,) = launches(member("a", 0, 9))
    assert [use.device.uuid for use in launch.uses] == ["a-0"]
    assert dict(launch.env)["CUDA_VISIBLE_DEVICES"] == "a-0,a-9"


def test_all_members_are_told_to_meet_in_one_place() -> None:
    gang = launches(member("a", 0), member("b", 0))
    told = [dict(one.env) for one in with_rendezvous(gang, MEETING)]
    assert {(one["MASTER_ADDR"], one["MASTER_PORT"]) for one in told} == {("10.0.0.4", "40123")}
    assert [one["RANK"] for one in told] == ["0", "1"]
    assert not {"CORRAL_SRUN_ADDRESS", "CORRAL_SRUN_SECRET"} & told[0].keys()


def test_the_members_of_a_script_are_told_where_its_srun_meets_them() -> None:
    gang = launches(member("a", 0), member("b", 0), script=True)
    told = [dict(one.env) for one in with_rendezvous(gang, MEETING)]
    assert {(one["CORRAL_SRUN_ADDRESS"], one["CORRAL_SRUN_SECRET"]) for one in told} == {("10.0.0.4:40124", "hush")}


def test_a_script_for_slurm_on_several_nodes_finds_them_and_its_tasks() -> None:
    for mark, tasks, cpus in (("4", "4", "1"), ("1", "2", "2"), ("many", "2", "2"), ("9" * 4000, "2", "2")):
        told, _ = launched(member("a", 0, 1), member("b", 0, 1), given={SLURM_MARK: mark}, script=True)
        assert (told["SLURM_NNODES"], told["SLURM_JOB_NUM_NODES"], told["SLURM_GPUS_ON_NODE"]) == ("2", "2", "2")
        assert (told["SLURM_NTASKS"], told["SLURM_CPUS_PER_TASK"]) == (tasks, cpus)
        assert (told["SLURM_JOB_NODELIST"], told["SLURM_NODELIST"]) == ("a,b", "a,b")
        assert told["SLURM_TASKS_PER_NODE"] == f"{int(tasks) // 2}(x2)"
        assert (told["SLURM_PROCID"], told["SLURM_LOCALID"], told["SLURM_NODEID"]) == ("0", "0", "0")
    (one,) = launched(member("a", 0), given={SLURM_MARK: "1"}, script=True)
    assert not {"SLURM_NTASKS", "SLURM_PROCID"} & one.keys()
    assert one["SLURM_NODEID"] == "0"


def test_a_script_for_slurm_on_one_node_finds_it_and_its_tasks() -> None:
    (one,) = launched(member("a", 0), given={SLURM_MARK: "3"}, script=True)
    names = ("SLURM_JOB_ID", "SLURM_JOBID", "SLURM_JOB_NODELIST", "SLURM_NODELIST", "SLURM_TASKS_PER_NODE")
    assert [one[name] for name in names] == ["1", "1", "a", "a", "3"]
    assert (one["SLURM_NNODES"], one["SLURM_JOB_NUM_NODES"]) == ("1", "1")
    uneven = launched(member("a", 0), member("b", 0), member("b", 1), given={SLURM_MARK: "7"}, script=True)
    assert {told["SLURM_TASKS_PER_NODE"] for told in uneven} == {"3,4"}


def test_no_mpirun_takes_it_for_a_cluster_of_slurm_unless_it_is_told_to() -> None:
    (one,) = launched(member("a", 0), given={SLURM_MARK: "1", "OMPI_MCA_plm": "rsh"}, script=True)
    assert (one["OMPI_MCA_plm"], one["OMPI_MCA_ras"]) == ("rsh", "^slurm")
    assert (one["PRTE_MCA_plm"], one["HYDRA_RMK"], one["HYDRA_LAUNCHER"]) == ("^slurm", "user", "ssh")


def test_what_another_job_of_slurm_was_told_is_not_taken_over() -> None:
    others = {"SLURM_ARRAY_TASK_ID": "3", "SLURM_ARRAY_TASK_MAX": "9", "SLURM_NTASKS": "8", "SLURM_CONF": "/etc/s"}
    (one,) = launched(member("a", 0), given={SLURM_MARK: "1", **others}, script=True)
    assert {name for name in others if name in one} == {"SLURM_CONF"}


def test_the_log_of_a_member_on_a_stale_device_warns_of_who_holds_how_much() -> None:
    view, gang = started(fleet("a", "b"), 1, member("a", 0), member("b", 0))
    stranger = DeviceProcess(77, 20_480, user="bob")
    stale = DeviceCondition("b-0", strangers=(stranger,), stale=True, lendable=True, memory_free_mib=61_440)
    view = view.advance([ConditionObserved(stale)])
    first, second = launches_of(gang, view.allocations["1.1"], view, notes=("goes on",))
    assert first.notes == ("goes on",)
    assert second.notes[0] == "goes on"
    assert "GPU 0 is stale: processes of bob hold 20G" in second.notes[1]


def test_a_member_with_whole_devices_is_bound_to_their_numa_nodes() -> None:
    view, allocation = held("GPU-1")
    node = view.nodes["box"]
    near = tuple(replace(device, numa_node=1) for device in node.devices)
    seen = view.advance([NodeObserved(replace(node, devices=near, numa_cpus=((0, (0, 1)), (1, (2, 3)))))])
    (launch,) = launches_of(seen.jobs["1"], allocation, seen)
    assert launch.numa == NumaBinding((1,), (2, 3))
    (unbound,) = launches_of(view.jobs["1"], allocation, view)
    assert unbound.numa is None


def checkpoint_dirs_of(members: int = 1, *, script: bool = False, **change: object) -> list[tuple[str, ...]]:
    view, allocation = held()
    names = tuple("ab"[rank % 2] for rank in range(members))
    placement = Placement(tuple(Member(name, ()) for name in names))
    spec = replace(view.jobs["1"].spec, workdir="/w", script=script, **change)  # type: ignore[arg-type]
    job_1 = replace(view.jobs["1"], spec=spec)
    launches = launches_of(job_1, replace(allocation, placement=placement), view)
    return [launch.checkpoint_dirs for launch in launches]


def test_a_job_that_saves_its_work_has_a_directory_for_it() -> None:
    assert checkpoint_dirs_of() == [()]
    assert checkpoint_dirs_of(checkpoint_signal="USR1") == [("checkpoint",)]
    assert checkpoint_dirs_of(checkpoint_dir="saved/%j") == [("/w/saved/1",)]
    assert checkpoint_dirs_of(checkpoint_dir="/data", checkpoint_signal="USR1") == [("/data",)]


def test_each_member_of_a_gang_has_a_directory_but_its_script_has_one() -> None:
    assert checkpoint_dirs_of(2, checkpoint_dir="/d") == [("/d/rank-0", "/d/rank-1")] * 2
    assert checkpoint_dirs_of(2, checkpoint_dir="/d/%t") == [("/d/0", "/d/1")] * 2
    assert checkpoint_dirs_of(2, checkpoint_signal="USR1") == [("checkpoint/rank-0", "checkpoint/rank-1")] * 2
    assert checkpoint_dirs_of(2, script=True, checkpoint_dir="/d") == [("/d",)] * 2


def test_a_job_knows_the_signal_that_asks_it_to_save() -> None:
    view, allocation = held()
    spec = replace(view.jobs["1"].spec, checkpoint_signal="B:USR1", checkpoint_grace_s=90.0)
    spec = replace(spec, env=(("CORRAL_RESTORE", "/of/another"), ("CORRAL_CHECKPOINT_DIR", "/of/another")))
    (launch,) = launches_of(replace(view.jobs["1"], spec=spec), allocation, view)
    told = {name: value for name, value in launch.env if "CHECKPOINT" in name or "RESTORE" in name}
    assert told == {"CORRAL_CHECKPOINT_SIGNAL": "USR1", "CORRAL_CHECKPOINT_GRACE_S": "90"}
