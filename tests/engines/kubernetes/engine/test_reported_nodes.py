"""A node with an agent has its devices by UUID: while it reports, when it falls silent, and once the agent is gone."""

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from corral.clock import ManualClock
from corral.core.lifecycle.exchanging import exchange, launches_on
from corral.core.model.devices.device import Device, DeviceProcess, DeviceSample, Node, Silence
from corral.core.model.fact import AllocationMade, JobSubmitted, SilenceObserved
from corral.core.model.placing.allocation import Allocation, Grant, Member, Placement
from corral.core.model.runs.launch import Launch, LaunchPhase
from corral.core.model.view import View
from corral.core.ports.engine import FeedNews
from corral.core.ports.job_devices import Choose, LaunchDevices, Targets
from corral.engines.kubernetes.agent.agent_report import PROTOCOL, AgentReport, GivenDevices, GivenShare
from corral.engines.kubernetes.agent_reports.agent_pods import AgentPod
from corral.engines.kubernetes.agent_reports.report_box import NodeReport, ReportBox
from corral.engines.kubernetes.cluster.node_facts import NodeFacts, read_node
from corral.engines.kubernetes.cluster.watch_state import Change
from corral.engines.kubernetes.engine import node_book
from corral.engines.kubernetes.engine.cluster_feed import ClusterFeed
from corral.engines.kubernetes.engine.node_book import NodeBook
from corral.engines.kubernetes.engine.reported_nodes import REMOVED_AFTER_S, ReportedNodes
from corral.engines.kubernetes.inventory.occupants import keep_occupant
from tests.engines.kubernetes import manifests
from tests.engines.kubernetes.pods.launches import launch_of

SILENT_AFTER_S = 30.0
GPUS = ("GPU-a", "GPU-b", "GPU-c")


class Ledger:
    """The devices of jobs over a view in memory, by the functions that the server's ledger runs."""

    def __init__(self) -> None:
        self.view = View()
        self.failed: dict[str, str] = {}

    def on(self, node: str) -> Sequence[LaunchDevices]:
        return [
            LaunchDevices(launch, one.placement.members[rank].grants)
            for launch, one, rank in launches_on(self.view, node)
        ]

    def exchange(self, node: str, choose: Choose, *, closed: bool = False) -> Targets | None:
        if closed and node not in self.view.silences:
            return None
        targets = choose(self.on(node))
        facts = exchange(self.view, targets, by="test", at=1.0)
        if facts is None:
            return None
        self.view = self.view.advance(facts)
        return targets

    def fail(self, launch_id: str, reason: str) -> None:
        self.failed[launch_id] = reason


class Rig:
    """A book, its feed, the box of reports, and the ledger's devices."""

    def __init__(self) -> None:
        self.clock = ManualClock(1000.0)
        self.book = NodeBook(self.clock)
        self.box = ReportBox()
        self.ledger = Ledger()
        self.pods: list[AgentPod] = []
        self.phases: dict[str, LaunchPhase] = {}
        self.feed = ClusterFeed(self.book, self.clock, members=lambda now: None, trouble=lambda: None)
        self.nodes = ReportedNodes(
            self.book,
            self.box,
            self,  # type: ignore[arg-type]
            self.clock,
            phase=lambda launch_id: self.phases.get(launch_id, LaunchPhase.RUNNING),
        )

    def values(self) -> list[AgentPod]:
        """The pods of agents, as a cache has them."""
        return self.pods

    def node(self, name: str = "a", gpus: int = 3, labels: dict[str, str] | None = None) -> NodeFacts:
        item = manifests.node(name, gpus=gpus)
        item["metadata"].setdefault("labels", {}).update(labels or {})
        facts = read_node(item)
        self.book.nodes_changed([Change(None, facts)])
        return facts

    def agent(self, node: str = "a") -> None:
        self.pods = [AgentPod("corral-system", f"agent-{node}", "uid", node)]

    def job(self, number: int, *uuids: str, node: str = "a") -> Launch:
        """A running job whose launch has these devices by the ledger and by the book."""
        launch = launch_of(number, gpus=len(uuids), node=node)
        uses = tuple(
            replace(
                use,
                device=replace(use.device, uuid=uuid),
                newcomer=replace(use.newcomer, grant=Grant(uuid, 1000)),
            )
            for use, uuid in zip(launch.uses, uuids, strict=True)
        )
        launch = replace(launch, uses=uses)
        member = Member(node, tuple(Grant(uuid, 1000) for uuid in uuids))
        made = Allocation(f"{number}.1", str(number), "alice", Placement((member,)), 1.0)
        self.ledger.view = self.ledger.view.advance(
            [JobSubmitted(launch.job, at=0.0, by="alice"), AllocationMade(made, at=1.0, by="test")]
        )
        self.book.hold(launch, ("ml", f"pod-{number}"))
        return launch

    def report(
        self, *uuids: str, node: str = "a", given: dict[str, tuple[str, ...]] | None = None, **more: Any
    ) -> None:
        devices = tuple(Device(uuid, index, "NVIDIA H100", 81920) for index, uuid in enumerate(uuids))
        now = self.clock.now()
        samples = more.pop("samples", None) or tuple(map(self.sample, uuids))
        pids = more.pop("process_pods", {})
        told = tuple(GivenDevices("ml", pod, "main", "nvidia.com/gpu", ids) for pod, ids in (given or {}).items())
        report = AgentReport(PROTOCOL, "1", now, Node(node, devices, 1, 1), samples, given=told, **more)
        self.box.put(NodeReport(node, ("corral-system", f"agent-{node}"), report, now, SILENT_AFTER_S, pids))

    def sample(self, uuid: str, **more: Any) -> DeviceSample:
        values = {"utilization_pct": 5, "memory_used_mib": 1, "memory_free_mib": 81919, "memory_total_mib": 81920}
        return DeviceSample(uuid, self.clock.now(), **{**values, "processes": (), **more})

    def look(self) -> FeedNews:
        """One round, and what the feed tells after it. Silences come to the ledger."""
        self.nodes.look()
        told = self.feed.news(0.0)
        for name, why in told.silent.items():
            self.ledger.view = self.ledger.view.advance([SilenceObserved(name, Silence(1.0, why))])
        return told

    def settle(self) -> FeedNews:
        self.look()
        return self.look()

    def held(self) -> dict[str, list[str]]:
        return {one.launch_id: [grant.uuid for grant in one.grants] for one in self.ledger.on("a")}

    def devices(self) -> list[str]:
        seen = self.book.see("a")
        assert seen is not None
        return [device.uuid for device in seen.node.devices]

    def faults(self) -> dict[str, str | None]:
        seen = self.book.see("a")
        assert seen is not None
        return {sample.uuid: sample.fault for sample in seen.samples}


@pytest.fixture
def rig() -> Rig:
    made = Rig()
    made.nodes.attend(made.ledger)
    return made


def test_a_node_without_an_agent_is_counted(rig: Rig) -> None:
    rig.node()
    rig.look()
    assert rig.devices() == ["a.gpu-0", "a.gpu-1", "a.gpu-2"]


def test_a_report_brings_the_devices_and_samples_by_their_uuids(rig: Rig) -> None:
    rig.node()
    rig.agent()
    rig.report(*GPUS)
    told = rig.look().news["a"]
    assert told.node is not None
    assert [(one.uuid, one.memory_mib) for one in told.node.devices] == [(uuid, 81920) for uuid in GPUS]
    assert [(one.uuid, one.utilization_pct, one.fault) for one in told.samples] == [(uuid, 5, None) for uuid in GPUS]
    rig.report(*GPUS, samples=(rig.sample("GPU-a", utilization_pct=90), *map(rig.sample, GPUS[1:])))
    assert rig.feed.news(0.0).news["a"].samples[0].utilization_pct == 90


def test_readings_alone_are_told_together_and_other_changes_at_once(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.node()
    rig.agent()
    rig.report(*GPUS)
    rig.look()
    rig.report(*GPUS)
    rig.feed.news(0.0)
    monkeypatch.setattr(node_book, "READINGS_EVERY_S", 1000.0)
    rig.report(*GPUS, samples=tuple(rig.sample(uuid, utilization_pct=90) for uuid in GPUS))
    began_s = time.monotonic()
    told = rig.feed.news(0.3).news["a"]
    assert time.monotonic() - began_s >= 0.3, "they are told once the time is up"
    assert (told.node, told.samples[0].utilization_pct) == (None, 90)
    rig.report(*GPUS, "GPU-d")
    began_s = time.monotonic()
    node = rig.feed.news(100.0).news["a"].node
    assert node is not None
    assert len(node.devices) == 4
    monkeypatch.setattr(node_book, "READINGS_EVERY_S", 0.01)
    rig.report(*GPUS, "GPU-d", samples=tuple(rig.sample(uuid, utilization_pct=80) for uuid in (*GPUS, "GPU-d")))
    assert rig.feed.news(100.0).news["a"].samples[0].utilization_pct == 80
    assert time.monotonic() - began_s < 100.0


def test_an_inventory_that_has_not_changed_is_not_made_again(rig: Rig) -> None:
    rig.node()
    rig.agent()
    rig.report(*GPUS)
    rig.look()
    before = rig.book.see("a")
    rig.report(*GPUS)
    now = rig.book.see("a")
    assert before is not None
    assert now is not None
    assert now is not before
    assert now.node.devices is before.node.devices


def test_running_jobs_get_the_devices_that_the_kubelet_gave_them_while_nothing_starts_there(rig: Rig) -> None:
    rig.node()
    rig.job(1, "a.gpu-0")
    rig.job(2, "a.gpu-1")
    rig.agent()
    rig.report(*GPUS, given={"pod-1": ("GPU-c",), "theirs": ("GPU-a",)})
    why = rig.look().silent["a"]
    assert why == "the agent of node a has come, and the GPUs of its jobs get other names"
    assert rig.held() == {"1.1": ["a.gpu-0"], "2.1": ["a.gpu-1"]}
    told = rig.look()
    assert rig.held() == {"1.1": ["GPU-c"], "2.1": ["GPU-b"]}
    assert (told.silent, told.news["a"].node is not None) == ({}, True)
    assert rig.devices() == list(GPUS)


def test_an_agent_that_was_not_heard_yet_lets_nothing_start(rig: Rig) -> None:
    rig.node()
    rig.job(1, "a.gpu-0")
    rig.agent()
    rig.look()
    why = "the agent of node a (pod corral-system/agent-a) has not reported since this server started"
    assert rig.faults() == dict.fromkeys(["a.gpu-0", "a.gpu-1", "a.gpu-2"], why)
    assert rig.held() == {"1.1": ["a.gpu-0"]}


def test_a_silent_agent_makes_the_devices_unreadable_until_it_reports_again(rig: Rig) -> None:
    rig.node()
    rig.job(1, "GPU-a")
    rig.agent()
    rig.report(*GPUS)
    rig.look()
    assert set(rig.faults().values()) == {None}
    rig.clock.advance(SILENT_AFTER_S)
    told = rig.look().news["a"].samples
    assert [one.uuid for one in told] == list(GPUS)
    assert all(str(one.fault).startswith("the agent of node a (pod corral-system/agent-a) has not") for one in told)
    rig.clock.advance(5)
    assert rig.look().news == {}, "the same fault is no news"
    assert rig.held() == {"1.1": ["GPU-a"]}
    rig.report(*GPUS)
    rig.look()
    assert set(rig.faults().values()) == {None}


def test_after_a_restart_jobs_keep_their_devices_and_nothing_starts_until_the_agent_is_heard() -> None:
    rig = Rig()
    rig.node()
    rig.job(1, "GPU-b")
    rig.nodes.attend(rig.ledger)
    assert rig.devices() == ["a.gpu-0", "a.gpu-1", "GPU-b"]
    assert all(
        "has not reported since this server started: it has no pod there" in str(f) for f in rig.faults().values()
    )
    rig.agent()
    rig.report(*GPUS)
    rig.settle()
    assert (rig.devices(), rig.held()) == (list(GPUS), {"1.1": ["GPU-b"]})


def test_an_agent_that_is_removed_leaves_a_counted_node(rig: Rig) -> None:
    rig.node()
    rig.agent()
    rig.report(*GPUS)
    rig.look()
    rig.job(1, "GPU-c")
    rig.pods = []
    rig.clock.advance(SILENT_AFTER_S)
    rig.look()
    assert rig.held() == {"1.1": ["GPU-c"]}, "an upgrade may bring another pod"
    rig.clock.advance(REMOVED_AFTER_S + 1)
    assert rig.look().silent == {"a": "the agent of node a was removed, and the GPUs of its jobs get other names"}
    rig.look()
    assert rig.held() == {"1.1": ["a.gpu-0"]}
    assert rig.devices() == ["a.gpu-0", "a.gpu-1", "a.gpu-2"]
    rig.report(*GPUS, node="b")


def test_equal_pods_that_got_each_others_devices_swap(rig: Rig) -> None:
    rig.node()
    rig.agent()
    rig.job(1, "GPU-a")
    rig.job(2, "GPU-b")
    rig.phases = dict.fromkeys(("1.1", "2.1"), LaunchPhase.CLAIMED)
    rig.report(*GPUS, given={"pod-1": ("GPU-b",), "pod-2": ("GPU-a",)})
    rig.look()
    assert rig.held() == {"1.1": ["GPU-a"], "2.1": ["GPU-b"]}, "a pod of that name may be meant that was deleted"
    rig.phases = {}
    rig.look()
    assert rig.held() == {"1.1": ["GPU-b"], "2.1": ["GPU-a"]}
    assert {one.launch_id: one.uuids for one in rig.book.held_on("a")} == {"1.1": ("GPU-b",), "2.1": ("GPU-a",)}
    assert rig.ledger.failed == {}


def test_a_pod_that_got_what_it_cannot_have_is_failed_and_told_why(rig: Rig) -> None:
    rig.node()
    rig.agent()
    rig.job(1, "GPU-a")
    rig.report(*GPUS, given={"pod-1": ("GPU-a", "GPU-b")})
    rig.look()
    assert rig.ledger.failed == {
        "1.1": "its node gave it GPU GPU-a, GPU-b, and it was to have GPU GPU-a: these are 2 GPUs, not 1"
    }


def test_devices_of_pods_that_are_no_jobs_are_in_use(rig: Rig) -> None:
    rig.node()
    rig.agent()
    item = manifests.pod("theirs", "ml", gpus=1, node="a")
    item["metadata"]["uid"] = "uid-theirs"
    rig.book.occupants_changed([Change(None, keep_occupant(item))])
    part = GivenShare("ml", "half", None, "GPU-c", 500, 40960)
    whole = GivenShare("ml", "theirs", "uid-theirs", "GPU-b", 1000, None)
    rig.report(*GPUS, given={"theirs": ("GPU-b",), "half": ("GPU-c::1",)}, shares=(part, whole))
    rig.look()
    seen = rig.book.see("a")
    assert seen is not None
    assert [None if one.pod is None else one.pod.name for one in seen.samples] == [None, "theirs", None]
    assert [[(one.pod.name, one.share_milli) for one in sample.parts] for sample in seen.samples] == [
        [],
        [],
        [("half", 500)],
    ]


def test_a_pod_whose_device_the_kubelet_does_not_tell_has_a_free_one(rig: Rig) -> None:
    rig.node()
    rig.agent()
    rig.job(1, "GPU-c")
    item = manifests.pod("theirs", "ml", gpus=1, node="a")
    item["metadata"]["uid"] = "uid-theirs"
    rig.book.occupants_changed([Change(None, keep_occupant(item))])
    rig.report(*GPUS)
    rig.look()
    seen = rig.book.see("a")
    assert seen is not None
    assert [None if one.pod is None else one.pod.name for one in seen.samples] == [None, "theirs", None]


def test_processes_belong_to_the_jobs_of_their_pods(rig: Rig) -> None:
    rig.node()
    rig.agent()
    rig.job(1, "GPU-a")
    rig.job(2, "GPU-b")
    processes = tuple(DeviceProcess(pid) for pid in (10, 11, 12))
    pods = {10: ("ml", "pod-1"), 11: ("ml", "pod-2")}
    rig.report(*GPUS, samples=tuple(rig.sample(uuid, processes=processes) for uuid in GPUS), process_pods=pods)
    rig.look()
    seen = rig.book.see("a")
    assert seen is not None
    found = [[one.job_id for one in sample.processes or ()] for sample in seen.samples]
    assert found == [["1", "2", "1"], ["1", "2", "2"], ["1", "2", None]]


def test_a_device_that_is_gone_stays_listed_while_a_job_has_it(rig: Rig) -> None:
    rig.node()
    rig.agent()
    rig.job(1, "GPU-c")
    rig.report(*GPUS)
    rig.look()
    rig.report(*GPUS[:2])
    rig.look()
    assert rig.devices() == list(GPUS)
    assert rig.faults() == {"GPU-a": None, "GPU-b": None, "GPU-c": "the agent of its node does not report it"}
    assert rig.held() == {"1.1": ["GPU-c"]}


def test_devices_that_the_cluster_does_not_offer_are_unhealthy(rig: Rig) -> None:
    rig.node(gpus=1)
    rig.agent()
    rig.report(*GPUS)
    rig.look()
    seen = rig.book.see("a")
    assert seen is not None
    ill = [sample.illness for sample in seen.samples]
    assert ill == [None, *["only 1 of 3 GPUs of node a are offered by its cluster"] * 2]


def test_a_node_whose_cluster_offers_replicas_of_gpus_stays_counted(rig: Rig) -> None:
    rig.node(
        labels={
            "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3-SHARED",
            "nvidia.com/gpu.replicas": "3",
            "nvidia.com/gpu.sharing-strategy": "time-slicing",
        }
    )
    rig.agent()
    rig.report("GPU-a")
    rig.look()
    assert rig.devices() == ["a.gpu-0", "a.gpu-1", "a.gpu-2"]
    assert set(rig.faults().values()) == {None}


def test_a_node_that_leaves_the_cluster_is_forgotten(rig: Rig) -> None:
    facts = rig.node()
    rig.agent()
    rig.report(*GPUS)
    rig.look()
    rig.book.nodes_changed([Change(facts, None)])
    rig.look()
    assert rig.book.reported("a") is None


def test_a_pod_with_a_slice_has_the_device_of_the_slice_and_the_others_are_seen_as_before(rig: Rig) -> None:
    rig.node()
    rig.agent()
    rig.report(*GPUS)
    rig.settle()
    cut = replace(Device("MIG-1", 3, "NVIDIA H100", 10240), parent_uuid="GPU-a", mig_profile="1g.10gb")
    devices = (*(Device(uuid, index, "NVIDIA H100", 81920) for index, uuid in enumerate(GPUS)), cut)
    given = (GivenDevices("ml", "theirs", "main", "nvidia.com/mig-1g.10gb", ("MIG-1",)),)
    parts = (GivenShare("ml", "others", None, "MIG-1", 1000, None),)
    now = rig.clock.now()
    report = AgentReport(PROTOCOL, "1", now, Node("a", devices, 1, 1), tuple(map(rig.sample, GPUS)), given, parts)
    rig.box.put(NodeReport("a", ("corral-system", "agent-a"), report, now, SILENT_AFTER_S))
    rig.look()
    assert rig.devices() == list(GPUS)
    seen = rig.book.see("a")
    assert seen is not None
    assert [sample.pod is not None for sample in seen.samples] == [True, False, False]


def test_no_job_gets_a_slice_or_a_whole_device_that_corrals_plugin_gave_to_another_pod(rig: Rig) -> None:
    rig.node()
    rig.job(1, "a.gpu-0")
    rig.agent()
    cut = replace(Device("MIG-1", 0, "NVIDIA H100", 81920), parent_uuid="GPU-a")
    devices = (cut, *(Device(uuid, index, "NVIDIA H100", 81920) for index, uuid in enumerate(GPUS, 1)))
    given = (GivenDevices("ml", "theirs", "main", "nvidia.com/gpu", ("GPU-a",)),)
    whole = (GivenShare("ml", "theirs", "uid", "GPU-a", 1000, None),)
    now = rig.clock.now()
    report = AgentReport(PROTOCOL, "1", now, Node("a", devices, 1, 1), tuple(map(rig.sample, GPUS)), given, whole)
    rig.box.put(NodeReport("a", ("corral-system", "agent-a"), report, now, SILENT_AFTER_S))
    rig.settle()
    assert rig.held() == {"1.1": ["GPU-b"]}


def test_a_report_of_thousands_of_pods_and_parts_costs_little(rig: Rig) -> None:
    rig.node()
    rig.agent()
    uuids = [f"GPU-{number}" for number in range(1000)]
    given: dict[str, tuple[str, ...]] = {f"pod-{number}": (uuids[0], uuids[number % 1000]) for number in range(10_000)}
    parts = tuple(GivenShare("ml", f"part-{number}", None, uuids[0], 1, 0) for number in range(10_000))
    rig.report(*uuids)
    rig.settle()
    rig.report(*uuids, given=given, shares=parts)
    began_s = time.thread_time()
    assert len(rig.devices()) == 1000
    assert time.thread_time() - began_s < 2
