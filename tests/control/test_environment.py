from dataclasses import replace

from corral.control.environment import SLURM_MARK, launch_of, stale_notes
from corral.lifecycle.transitions import start
from corral.model.allocation import Allocation, Grant, Member, Placement
from corral.model.device import DeviceCondition, DeviceProcess
from corral.model.fact import AllocationMade, ConditionObserved
from corral.model.view import View
from tests.control.strategies import box, job, with_jobs


def held(*uuids: str) -> tuple[View, Allocation]:
    view = with_jobs(box(), job(1))
    placement = Placement((Member("box", tuple(Grant(uuid, 1000) for uuid in uuids)),))
    _, made = start(view.jobs["1"], placement, None, (), 0.0)
    assert isinstance(made, AllocationMade)
    return view, made.allocation


def environment(*uuids: str) -> dict[str, str]:
    view, allocation = held(*uuids)
    devices = {device.uuid: device for device in view.nodes["box"].devices}
    spec = replace(view.jobs["1"].spec, env=(("CUDA_VISIBLE_DEVICES", "0,1,2,3"), ("HOME", "/home/alice")))
    return dict(launch_of(replace(view.jobs["1"], spec=spec), allocation, devices, "/h", "/h/scratch/1").env)


def test_a_job_looks_like_one_of_slurm_only_when_its_script_asks_for_that() -> None:
    assert [name for name in environment("GPU-1") if name.startswith("SLURM")] == []


def test_a_job_sees_its_own_devices_whatever_its_submitter_saw() -> None:
    found = environment("GPU-1", "GPU-2")
    assert found["CUDA_VISIBLE_DEVICES"] == "GPU-1,GPU-2"
    assert found["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert (found["CORRAL_GPU_INDICES"], found["CORRAL_GPUS"]) == ("1,2", "2")
    assert found["HOME"] == "/home/alice"


def test_a_gang_is_told_how_many_members_it_has_and_no_other_job_is() -> None:
    view, allocation = held("GPU-1", "GPU-2")
    alone = view.jobs["1"]
    gang = replace(alone, spec=replace(alone.spec, request=replace(alone.spec.request, gang_size=2)))
    told = dict(launch_of(gang, allocation, {}, "/h", "/h/scratch/1").env)
    assert (told["CORRAL_GANG_SIZE"], told["CORRAL_GPUS"]) == ("2", "2")
    assert "CORRAL_GANG_SIZE" not in environment("GPU-1", "GPU-2")


def test_an_element_of_an_array_is_told_which_it_is_and_in_slurms_words_where_its_script_is_for_slurm() -> None:
    view, allocation = held()
    alone = view.jobs["1"]
    spec = replace(alone.spec, name="sweep", workdir="/w", request=replace(alone.spec.request, cpu_milli=1500))
    element = replace(alone, id="7_3", array_id="7", array_index=3, spec=replace(spec, env=((SLURM_MARK, "1"),)))
    told = dict(launch_of(element, allocation, {}, "/h", "/h/scratch/7_3").env)
    assert (told["CORRAL_JOB_ID"], told["CORRAL_ARRAY_ID"], told["CORRAL_ARRAY_INDEX"]) == ("7_3", "7", "3")
    assert (told["SLURM_ARRAY_JOB_ID"], told["SLURM_ARRAY_TASK_ID"]) == ("7", "3")
    assert (told["SLURM_JOB_NAME"], told["SLURM_SUBMIT_DIR"], told["SLURM_CPUS_PER_TASK"]) == ("sweep", "/w", "2")
    assert [name for name in environment() if "ARRAY" in name] == []


def test_a_script_for_slurm_finds_its_nodes_and_tasks_and_what_is_each_ones() -> None:
    view, allocation = held("GPU-0", "GPU-1", "GPU-2", "GPU-3")
    alone = view.jobs["1"]
    request = replace(alone.spec.request, devices=2, gang_size=2, cpu_milli=8000)
    for mark, tasks, cpus in (("4", "4", "4"), ("1", "2", "8"), ("many", "2", "8"), ("9" * 4000, "2", "8")):
        job_ = replace(alone, spec=replace(alone.spec, request=request, env=((SLURM_MARK, mark),)))
        told = dict(launch_of(job_, allocation, {}, "/h", "/h/scratch/1").env)
        assert (told["SLURM_NNODES"], told["SLURM_JOB_NUM_NODES"], told["SLURM_GPUS_ON_NODE"]) == ("2", "2", "2")
        assert (told["SLURM_NTASKS"], told["SLURM_CPUS_PER_TASK"]) == (tasks, cpus)
    one = replace(alone, spec=replace(alone.spec, env=((SLURM_MARK, "1"),)))
    assert "SLURM_NTASKS" not in dict(launch_of(one, allocation, {}, "/h", "/h/scratch/1").env)


def test_a_job_without_devices_sees_none() -> None:
    assert environment()["CUDA_VISIBLE_DEVICES"] == ""


def test_a_job_on_a_stale_device_is_warned_of_who_holds_how_much() -> None:
    view, allocation = held("GPU-0", "GPU-1")
    stranger = DeviceProcess(4242, 20_480, user="bob")
    stale = DeviceCondition("GPU-0", strangers=(stranger,), stale=True, lendable=True, memory_free_mib=61_440)
    (note,) = stale_notes(view.advance([ConditionObserved(stale)]), allocation)
    assert "GPU 0 is stale" in note
    assert "bob hold 20G" in note
    assert "60G is left" in note
