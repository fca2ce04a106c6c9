"""What a kubelet gave counts, unless it cannot serve the job; equal pods may swap."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from corral.core.model.devices.device import Device, Node
from corral.core.model.placing.allocation import Grant
from corral.core.ports.job_devices import LaunchDevices
from corral.engines.kubernetes.agent.agent_report import PROTOCOL, AgentReport, GivenDevices, GivenShare
from corral.engines.kubernetes.agent_reports.given_devices import Assignment, given_to_pods

BIG = [Device(f"GPU-{number}", number, "H100", 81920) for number in range(4)]
SMALL = Device("GPU-T4", 4, "T4", 16384)
DEVICES = {device.uuid: device for device in [*BIG, SMALL]}


def launch(number: int, *uuids: str, share: int = 1000) -> LaunchDevices:
    return LaunchDevices(f"{number}.1", tuple(Grant(uuid, share) for uuid in uuids))


def changes(assignment: Assignment, *launches: LaunchDevices) -> dict[str, list[str]]:
    return {one: [device.uuid for device in theirs] for one, theirs in assignment.choose(launches).items()}


def test_what_was_given_as_chosen_changes_nothing() -> None:
    plan = Assignment(DEVICES, given={"1.1": ("GPU-1", "GPU-0")})
    assert changes(plan, launch(1, "GPU-0", "GPU-1"), launch(2, "GPU-2")) == {}
    assert plan.disagreements == {}


def test_a_launch_gets_what_its_pod_was_given() -> None:
    assert changes(Assignment(DEVICES, given={"1.1": ("GPU-2",)}), launch(1, "GPU-0")) == {"1.1": ["GPU-2"]}


def test_equal_pods_swap_and_one_that_was_given_nothing_yet_gets_what_the_other_left() -> None:
    both = Assignment(DEVICES, given={"1.1": ("GPU-1",), "2.1": ("GPU-0",)})
    assert changes(both, launch(1, "GPU-0"), launch(2, "GPU-1")) == {"1.1": ["GPU-1"], "2.1": ["GPU-0"]}
    one = Assignment(DEVICES, given={"1.1": ("GPU-1",)}, taken=("GPU-2",))
    assert changes(one, launch(1, "GPU-0"), launch(2, "GPU-1")) == {"1.1": ["GPU-1"], "2.1": ["GPU-0"]}


def test_a_device_of_another_kind_is_a_disagreement() -> None:
    plan = Assignment(DEVICES, given={"1.1": ("GPU-T4",)})
    assert changes(plan, launch(1, "GPU-0")) == {}
    assert plan.disagreements["1.1"].startswith("its node gave it GPU GPU-T4, and it was to have GPU GPU-0: ")


def test_another_number_of_devices_is_a_disagreement() -> None:
    plan = Assignment(DEVICES, given={"1.1": ("GPU-0", "GPU-1")})
    assert changes(plan, launch(1, "GPU-0")) == {}
    assert "these are 2 GPUs, not 1" in plan.disagreements["1.1"]


def test_a_device_that_is_full_by_what_others_were_given_is_a_disagreement() -> None:
    plan = Assignment(DEVICES, given={"1.1": ("GPU-1",), "2.1": ("GPU-1",)})
    assert changes(plan, launch(1, "GPU-0", share=600), launch(2, "GPU-2", share=600)) == {"1.1": ["GPU-1"]}
    assert list(plan.disagreements) == ["2.1"]


def test_counted_devices_become_those_that_were_given_and_free_ones_otherwise() -> None:
    plan = Assignment(DEVICES, given={"2.1": ("GPU-0",)}, taken=("GPU-1",))
    held = launch(1, "a.gpu-0", "a.gpu-1"), launch(2, "a.gpu-2")
    assert changes(plan, *held) == {"1.1": ["GPU-2", "GPU-3"], "2.1": ["GPU-0"]}


def test_parts_of_one_device_stay_together_when_devices_are_counted_again() -> None:
    counted = {f"a.gpu-{slot}": Device(f"a.gpu-{slot}", slot, "H100", 81920) for slot in range(2)}
    held = launch(1, "GPU-7", share=500), launch(2, "GPU-7", share=500), launch(3, "GPU-8")
    assert changes(Assignment(counted), *held) == {"1.1": ["a.gpu-0"], "2.1": ["a.gpu-0"], "3.1": ["a.gpu-1"]}


def test_a_launch_for_which_no_device_is_left_keeps_its_name() -> None:
    assert changes(Assignment({"GPU-0": BIG[0]}), launch(1, "a.gpu-0"), launch(2, "a.gpu-1")) == {"1.1": ["GPU-0"]}


def test_the_kubelets_names_of_parts_are_those_of_their_device() -> None:
    report = AgentReport(
        PROTOCOL,
        "1",
        0.0,
        Node("a", tuple(BIG), 1, 1),
        (),
        given=(
            GivenDevices("ml", "one", "main", "nvidia.com/gpu", ("GPU-1", "GPU-0")),
            GivenDevices("ml", "two", "main", "nvidia.com/mps-core", ("GPU-2::4", "GPU-2::5", "GPU-nowhere")),
            GivenDevices("ml", "none", "main", "nvidia.com/gpu", ("GPU-nowhere",)),
        ),
        shares=(GivenShare("ml", "three", None, "GPU-3", 500, None),),
    )
    assert given_to_pods(report) == {
        ("ml", "one"): ("GPU-1", "GPU-0"),
        ("ml", "two"): ("GPU-2",),
        ("ml", "three"): ("GPU-3",),
    }


SHARES = st.sampled_from([250, 500, 1000])
NAMES = st.sampled_from([*DEVICES, "a.gpu-0", "a.gpu-1", "GPU-gone"])


@given(st.data())
def test_no_device_is_given_twice_and_every_launch_has_as_many_as_before(data: st.DataObject) -> None:
    milli: Counter[str] = Counter()
    held = []
    for number in range(data.draw(st.integers(0, 8))):
        share, uuids = data.draw(SHARES), data.draw(st.lists(NAMES, min_size=1, max_size=2, unique=True))
        if all(milli[uuid] + share <= 1000 for uuid in uuids):
            milli.update(dict.fromkeys(uuids, share))
            held.append(launch(number, *uuids, share=share))
    told = st.lists(st.sampled_from(list(DEVICES)), min_size=1, max_size=2, unique=True)
    given_now = data.draw(st.dictionaries(st.sampled_from([one.launch_id for one in held] or ["0.1"]), told))
    found = Assignment(DEVICES, given_now, data.draw(st.sets(st.sampled_from(list(DEVICES))))).choose(held)
    after: Counter[str] = Counter()
    kept = [one for one in held if one.launch_id not in found]
    for one in held:
        if one.launch_id in found:
            assert len(found[one.launch_id]) == len(one.grants)
            for grant, device in zip(one.grants, found[one.launch_id], strict=True):
                after[device.uuid] += grant.share_milli
    for one in kept:
        for grant in one.grants:
            after[grant.uuid] += grant.share_milli
    assert sum(after.values()) == sum(milli.values())
    assert all(amount <= 1000 for amount in after.values()), (held, given_now, found)
