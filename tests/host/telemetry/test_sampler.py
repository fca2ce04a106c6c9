"""The sampler on the stub driver and on mock devices: what the server is told of it, and how it bears a hang."""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from corral.clock import ManualClock, SystemClock
from corral.config import Settings
from corral.core.model.devices.device import DeviceCondition, DeviceProcess, DeviceSample, Node
from corral.core.model.devices.health import SignKind, Verdict
from corral.core.model.errors import BackendFailed
from corral.core.model.fact import AllocationMade, ConditionObserved, Observation
from corral.core.model.placing.allocation import Allocation, Grant, Member, Placement
from corral.core.model.view import View
from corral.core.ports.node import News
from corral.core.ports.telemetry import Care, Source
from corral.host.telemetry.discover import discover
from corral.host.telemetry.host import host_node
from corral.host.telemetry.mock import MockSource
from corral.host.telemetry.node_contact import WatchedNode
from corral.host.telemetry.reading.patient_reader import by_threads
from corral.host.telemetry.sampler import Sampler
from tests.vendors.nvidia.nvml_stub import NvmlStub, stub_uuid

ROW = '[[devices]]\nmother_uuid = "{uuid}"\nmodel_name = "GPU"\nmemory_size = "8G"\n{extra}\n'
PATIENCE_S = 60.0
"""What has not come by then never will, however busy the machine."""
FAST = Settings(sample_interval_s=0.01, stale_sample_s=PATIENCE_S)
HASTY = Settings(sample_interval_s=0.01, stale_sample_s=0.3)


@dataclass
class Listener:
    """A ledger's ear: a view that advances by what is observed."""

    view: View = field(default_factory=View)
    told: list[Observation] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def observe(self, observations: Sequence[Observation]) -> None:
        with self.lock:
            self.told += observations
            self.view = self.view.advance(observations)

    def condition(self, uuid: str) -> DeviceCondition:
        return self.view.conditions[uuid]


class SampledNode:
    """A sampler, and a server that hears it without delay."""

    def __init__(self, source: Source, settings: Settings, listener: Listener) -> None:
        self.node = WatchedNode("n", SystemClock(), settings, view=lambda: listener.view, observe=listener.observe)
        self.sampler = Sampler(by_threads(source, SystemClock()), SystemClock(), settings, listener=self.hear)
        self._listener = listener

    def hear(self, node: Node | None, samples: Sequence[DeviceSample]) -> None:
        visit = self.node.hear(News(1, "only", time.time(), node=node, samples=tuple(samples)))
        if visit is not None:
            self.node.readmit(visit)

    def latest(self) -> dict[str, DeviceSample]:
        return self.node.samples()

    def refresh(self, uuids: Sequence[str], timeout_s: float) -> tuple[ConditionObserved, ...]:
        before = self._listener.view
        return self.node.judged(self.sampler.refresh(uuids, timeout_s), before)


@pytest.fixture
def listener() -> Listener:
    return Listener()


Start = Callable[..., SampledNode]


@pytest.fixture
def start(listener: Listener) -> Iterator[Start]:
    started = []

    def start(source: Source, settings: Settings = FAST) -> SampledNode:
        sampled = SampledNode(source, settings, listener)
        started.append(sampled)
        sampled.sampler.start()
        return sampled

    yield start
    for sampled in started:
        sampled.sampler.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "mock.toml"
    rewrite(path, ROW.format(uuid="a", extra="") + ROW.format(uuid="b", extra=""))
    return path


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, "it did not come to hold"
        time.sleep(0.005)


def rewrite(path: Path, text: str) -> None:
    """In one step: whoever reads meanwhile finds no half of it."""
    draft = path.with_suffix(".draft")
    draft.write_text(text)
    draft.rename(path)


def passes(sampler: SampledNode, uuid: str = "a") -> None:
    """Wait until the sampler has been over all devices a few times more, and has told what there was to tell."""
    for _ in range(4):
        before = sampler.latest()[uuid].taken_at
        eventually(lambda: sampler.latest()[uuid].taken_at > before)  # noqa: B023


def test_the_inventory_and_every_condition_are_known_when_start_returns(
    start: Start, listener: Listener, path: Path
) -> None:
    start(MockSource(path, SystemClock()))
    (node,) = listener.view.nodes.values()
    assert [device.uuid for device in node.devices] == ["a", "b"]
    assert sorted(listener.view.conditions) == ["a", "b"]


def test_an_idle_machine_is_told_once_and_never_again(start: Start, listener: Listener, path: Path) -> None:
    sampler = start(MockSource(path, SystemClock()))
    told = len(listener.told)
    passes(sampler)
    assert len(listener.told) == told


def test_samples_go_on_while_nothing_is_told(start: Start, path: Path) -> None:
    sampler = start(MockSource(path, SystemClock()))
    before = sampler.latest()["a"].taken_at
    eventually(lambda: sampler.latest()["a"].taken_at > before)


def test_a_stranger_is_told_with_its_name(start: Start, listener: Listener, path: Path) -> None:
    start(MockSource(path, SystemClock()))
    process = 'processes = [{ pid = 4194999, user = "nobody-here", memory = "1G" }]'
    rewrite(path, ROW.format(uuid="a", extra=process) + ROW.format(uuid="b", extra=""))
    eventually(lambda: bool(listener.condition("a").strangers))
    assert listener.condition("a").strangers == (DeviceProcess(4194999, 1024, "nobody-here"),)
    assert listener.condition("b").strangers == ()


def test_a_device_that_is_added_and_one_that_is_gone_change_the_inventory(
    start: Start, listener: Listener, path: Path
) -> None:
    sampler = start(MockSource(path, SystemClock()))
    rewrite(path, ROW.format(uuid="b", extra="") + ROW.format(uuid="c", extra=""))
    eventually(lambda: any(d.uuid == "c" for node in listener.view.nodes.values() for d in node.devices))
    assert sorted(sampler.latest()) == ["b", "c"]


def test_a_refresh_is_newer_than_the_samples_before_and_names_only_what_was_asked(
    start: Start, listener: Listener, path: Path
) -> None:
    sampler = start(MockSource(path, SystemClock()), replace(FAST, sample_interval_s=50.0, stale_sample_s=100.0))
    before = {uuid: sample.taken_at for uuid, sample in sampler.latest().items()}
    observations = sampler.refresh(["a"], PATIENCE_S)
    assert [type(observation) for observation in observations] == [ConditionObserved]
    assert sampler.latest()["a"].taken_at > before["a"]
    assert sampler.latest()["b"].taken_at == before["b"]


def test_what_a_refresh_found_does_not_outlast_its_cause(start: Start, listener: Listener, path: Path) -> None:
    sampler = start(MockSource(path, SystemClock()))
    idle = path.read_text()
    rewrite(path, ROW.format(uuid="a", extra="processes = [{ pid = 1073741824 }]") + ROW.format(uuid="b", extra=""))
    found = sampler.refresh(["a"], PATIENCE_S)
    rewrite(path, idle)
    passes(sampler)
    listener.observe(found)
    assert listener.condition("a").strangers != ()
    sampler.refresh(["a"], PATIENCE_S)
    eventually(lambda: listener.condition("a").strangers == ())


def test_a_device_that_is_not_there_comes_back_unreadable(start: Start, path: Path) -> None:
    (sample,) = start(MockSource(path, SystemClock())).sampler.refresh(["z"], PATIENCE_S)
    assert (sample.uuid, sample.fault) == ("z", "there is no such device on this machine")


def test_a_process_of_the_job_that_holds_the_device_is_no_stranger(
    start: Start, listener: Listener, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = MockSource(path, SystemClock())
    ours = DeviceProcess(2**30, 10, job_id="5")
    plain_sample = source.sample
    monkeypatch.setattr(
        source, "sample", lambda uuids=None: tuple(replace(s, processes=(ours,)) for s in plain_sample(uuids))
    )
    placement = Placement((Member("n", (Grant("a", 1000),)),))
    listener.observe([AllocationMade(Allocation("5.1", "5", "alice", placement, 0.0), at=0.0, by="test")])  # type: ignore[list-item]
    start(source)
    assert listener.condition("a").strangers == ()
    assert listener.condition("b").strangers == (ours,)


class FailingSource:
    """A source whose driver fails in ways that no driver should."""

    name = "failing"

    def __init__(self, error: Exception) -> None:
        self.error = error
        self.asked = 0

    def node(self) -> Node:
        return host_node()

    def sample(self, uuids: Sequence[str] | None = None) -> tuple[DeviceSample, ...]:
        self.asked += 1
        raise self.error

    one_by_one = False

    def take_care(self, care: Care) -> None:
        """There is nothing to avoid."""

    def close(self) -> None:
        """Nothing is open."""


def test_a_driver_that_never_answers_leaves_a_host_for_cpu_jobs(start: Start, listener: Listener) -> None:
    start(FailingSource(BackendFailed("no")))
    (node,) = listener.view.nodes.values()
    assert node.devices == ()


def test_an_error_that_nobody_foresaw_is_logged_once_and_survived(
    start: Start, listener: Listener, caplog: pytest.LogCaptureFixture
) -> None:
    source = FailingSource(ZeroDivisionError("what"))
    sampler = start(source)
    eventually(lambda: source.asked > 4)
    assert caplog.text.count("ZeroDivisionError: what") == 1
    assert sampler.latest() == {}


def test_a_device_that_hangs_is_unreadable_alone_and_comes_back_by_itself(
    start: Start, listener: Listener, path: Path
) -> None:
    def readable() -> dict[str, bool]:
        return {uuid: condition.unreadable is None for uuid, condition in listener.view.conditions.items()}

    sampler = start(MockSource(path, SystemClock()))
    eventually(lambda: readable() == {"a": True, "b": True})
    rewrite(path, ROW.format(uuid="a", extra="hang = true") + ROW.format(uuid="b", extra=""))
    eventually(lambda: readable() == {"a": False, "b": True})
    passes(sampler, "b")
    (sign,) = sampler.latest()["a"].signs
    assert (sign.kind, sign.verdict) == (SignKind.UNREADABLE, Verdict.SUSPECT)
    assert "hangs" in sign.detail
    rewrite(path, ROW.format(uuid="a", extra="") + ROW.format(uuid="b", extra=""))
    eventually(lambda: readable() == {"a": True, "b": True})


def test_a_driver_that_answers_for_no_device_makes_all_unreadable_in_time(
    start: Start, listener: Listener, path: Path
) -> None:
    sampler = start(MockSource(path, SystemClock()), HASTY)
    rewrite(path, ROW.format(uuid="a", extra="hang = true"))
    eventually(lambda: sampler.latest()["a"].fault == "the driver has not answered for 0.29 s")
    rewrite(path, ROW.format(uuid="a", extra=""))
    eventually(lambda: sampler.latest()["a"].fault is None)


def test_a_refresh_of_a_device_that_hangs_comes_back_unreadable_within_its_time(
    start: Start, stubbed_nvml: NvmlStub
) -> None:
    sampler = start(discover(SystemClock()), Settings())
    stubbed_nvml.say("gpu 3 hang 1")
    (observation,) = sampler.refresh([stub_uuid(3)], 0.05)
    stubbed_nvml.say()
    assert isinstance(observation, ConditionObserved)
    assert observation.condition.unreadable == "the driver has not answered for 0.05 s"


def test_a_gpu_that_falls_off_the_bus_is_unreadable_alone(
    start: Start, listener: Listener, stubbed_nvml: NvmlStub
) -> None:
    sampler = start(discover(SystemClock()))
    stubbed_nvml.say("gpu 6 lost 1")
    eventually(lambda: listener.condition(stub_uuid(6)).unreadable is not None)
    passes(sampler, stub_uuid(5))
    assert "bus" in str(listener.condition(stub_uuid(6)).unreadable)
    assert listener.condition(stub_uuid(5)).unreadable is None


def test_a_hot_gpu_is_unhealthy_until_it_has_cooled_down(
    start: Start, listener: Listener, stubbed_nvml: NvmlStub
) -> None:
    start(discover(SystemClock()))
    stubbed_nvml.say("gpu 1 temp 99")
    eventually(lambda: listener.condition(stub_uuid(1)).unhealthy is not None)
    stubbed_nvml.say()
    eventually(lambda: listener.condition(stub_uuid(1)).unhealthy is None)


def test_a_stopped_sampler_tells_nothing_more(start: Start, listener: Listener, path: Path) -> None:
    sampler = start(MockSource(path, SystemClock()))
    sampler.sampler.close()
    told = list(listener.told)
    rewrite(path, ROW.format(uuid="a", extra="lost = true"))
    eventually(lambda: not sampler.sampler._thread.is_alive())
    assert listener.told == told


def test_no_driver_is_called_before_the_sampler_asks(stubbed_nvml: NvmlStub) -> None:
    stubbed_nvml.say("gpu 0 hang 1")
    assert discover(ManualClock()).name == "none"


def test_what_becomes_of_a_device_is_logged_once(start: Start, path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    def said() -> list[str]:
        return [record.getMessage() for record in caplog.records if record.name.endswith("state_log")]

    sampler = start(MockSource(path, SystemClock()))
    passes(sampler)
    assert said() == []
    rewrite(path, ROW.format(uuid="a", extra="lost = true") + ROW.format(uuid="b", extra="ecc_errors = 2"))
    eventually(lambda: len(said()) == 2)
    passes(sampler)
    lost, sick = said()
    assert lost == "GPU 0 (a): unreadable: the device is lost: it has fallen off the bus; nothing starts on it"
    assert sick.startswith("GPU 1 (b): unhealthy: 2 uncorrectable memory errors since the driver was loaded")
    rewrite(path, ROW.format(uuid="a", extra=""))
    eventually(lambda: len(said()) == 4)
    assert {line.partition(" after")[0] for line in said()[2:]} == {
        "GPU 0 (a): can be read again", "GPU 1 (b) is gone: the driver no longer names it",
    }  # fmt: skip


def test_docker_that_is_installed_while_the_agent_runs_is_noticed(path: Path) -> None:
    lack: list[str | None] = ["Docker is not installed there"]
    told: list[str | None] = []

    def hear(node: Node | None, samples: Sequence[DeviceSample]) -> None:
        if node is not None:
            told.append(node.no_docker)

    sampler = Sampler(
        by_threads(MockSource(path, SystemClock()), SystemClock()),
        SystemClock(),
        FAST,
        listener=hear,
        no_docker=lambda: lack[-1],
    )
    sampler.start()
    lack.append(None)
    eventually(lambda: len(told) > 1)
    sampler.close()
    assert told == ["Docker is not installed there", None]
