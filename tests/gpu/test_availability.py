"""Looking for GPUs: numbers in every answer, and no for an answer when nothing can be seen."""

import time
from pathlib import Path

import pytest

from corral.core.model.errors import Refused
from corral.gpu import check_gpu_availability, monitor, select_gpus_for_task, wait_for_gpu_availability
from tests.vendors.nvidia.nvml_stub import NvmlStub


@pytest.fixture
def stub(stubbed_nvml: NvmlStub) -> NvmlStub:
    return stubbed_nvml


@pytest.fixture
def assuming_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config.yaml").write_text("assume_available: true\n")
    monkeypatch.setenv("CORRAL_HOME", str(tmp_path))


def test_enough_gpus_are_named(stub: NvmlStub) -> None:
    stub.say("devices 4", "gpu 1 util 90")
    assert check_gpu_availability(3) == (True, "3 of 4 GPUs available (3 needed): 0, 2, 3")


def test_too_few_say_what_is_wrong_with_each_of_the_others(stub: NvmlStub) -> None:
    stub.say("devices 3", "gpu 1 util 90", "gpu 2 used 81000")
    available, message = check_gpu_availability(2, min_memory_mb=10_000)
    assert not available
    assert message == (
        "1 of 3 GPUs available (2 needed, each with 10000 MB free); GPU 1: 90 % in use; GPU 2: 320 MB free"
    )


def test_more_than_there_are_is_said_to_be_hopeless(stub: NvmlStub) -> None:
    assert "this machine has 8, the most you can ask for" in check_gpu_availability(9)[1]


@pytest.mark.usefixtures("no_driver", "assuming_site")
def test_no_gpus_are_refused_whether_or_not_there_are_some() -> None:
    for look in (check_gpu_availability, wait_for_gpu_availability, select_gpus_for_task):
        with pytest.raises(Refused, match="0 GPUs cannot be looked for; 1 or more can"):
            look(0)


@pytest.mark.parametrize("count", [0, -1, 1.5, True, "2"])
def test_a_count_that_is_none_is_refused(count: object) -> None:
    with pytest.raises(Refused, match="required_gpus"):
        check_gpu_availability(count)  # type: ignore[arg-type]


@pytest.mark.usefixtures("no_driver")
def test_without_a_driver_nothing_is_available() -> None:
    assert check_gpu_availability(1)[0] is False
    with pytest.raises(RuntimeError, match="no GPU can be seen"):
        select_gpus_for_task(1)


@pytest.mark.usefixtures("no_driver", "assuming_site")
def test_a_site_may_decide_to_assume_what_it_cannot_see() -> None:
    available, message = check_gpu_availability(2)
    assert available
    assert "as the site decided" in message
    assert select_gpus_for_task(2) == [0, 1]


@pytest.mark.usefixtures("assuming_site")
def test_what_can_be_seen_is_never_assumed(stub: NvmlStub) -> None:
    stub.say("devices 1", "gpu 0 util 100")
    assert check_gpu_availability(1)[0] is False


def test_a_wait_ends_as_soon_as_there_are_enough(stub: NvmlStub) -> None:
    began = time.monotonic()
    assert wait_for_gpu_availability(8, timeout_seconds=60)[0]
    assert time.monotonic() - began < 30


def test_a_wait_ends_with_the_last_answer_when_the_time_is_up(stub: NvmlStub) -> None:
    stub.say("devices 1", "gpu 0 util 90")
    began = time.monotonic()
    available, message = wait_for_gpu_availability(1, timeout_seconds=1, check_interval=600)
    assert not available
    assert "90 % in use" in message
    assert 1.0 <= time.monotonic() - began < 60.0


def test_a_wait_for_more_than_there_are_does_not_begin(stub: NvmlStub) -> None:
    began = time.monotonic()
    assert not wait_for_gpu_availability(9, timeout_seconds=60)[0]
    assert time.monotonic() - began < 30


def test_a_wait_for_memory_that_too_few_gpus_have_does_not_begin(stub: NvmlStub) -> None:
    stub.say("devices 4", "gpu 2 used 79000")
    began = time.monotonic()
    available, message = wait_for_gpu_availability(1, 90_000, timeout_seconds=60)
    assert time.monotonic() - began < 30
    assert not available
    assert message == (
        "0 of 4 GPUs available (1 needed, each with 90000 MB free); 0 of 4 GPUs can ever have 90000 MB free; "
        "the largest has 81920 MB in total"
    )


def test_memory_that_enough_gpus_have_is_waited_for(stub: NvmlStub) -> None:
    stub.say("devices 1", "gpu 0 used 81000")
    message = wait_for_gpu_availability(1, 80_000, timeout_seconds=1, check_interval=600)[1]
    assert message == "0 of 1 GPU available (1 needed, each with 80000 MB free); GPU 0: 320 MB free"


def test_more_gpus_to_select_than_there_are_is_an_error_that_says_how_many_there_are(stub: NvmlStub) -> None:
    with pytest.raises(RuntimeError) as raised:
        select_gpus_for_task(9)
    assert str(raised.value) == (
        "9 GPUs with 8000 MB free needed, 8 of 8 available; this machine has 8, the most you can ask for"
    )


def test_the_best_gpus_are_selected_whatever_their_use(stub: NvmlStub) -> None:
    stub.say("devices 3", "gpu 0 util 90", "gpu 1 used 79000")
    assert select_gpus_for_task(2) == [2, 0]


def test_too_few_to_select_from_is_an_error_with_the_numbers(stub: NvmlStub) -> None:
    stub.say("devices 2", "gpu 1 used 79000")
    with pytest.raises(RuntimeError, match="2 GPUs with 8000 MB free needed, 1 of 2 available; GPU 1: 2320 MB free"):
        select_gpus_for_task(2)


def test_a_site_weighs_memory_and_idle_time_as_it_likes(
    stub: NvmlStub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub.say("devices 2", "gpu 0 util 40", "gpu 1 used 40000")
    assert select_gpus_for_task(2) == [0, 1]
    (tmp_path / "config.yaml").write_text("availability_memory_weight: 0.1\n")
    monkeypatch.setenv("CORRAL_HOME", str(tmp_path))
    monkeypatch.setattr(monitor, "_MONITOR", monitor.GPUMonitor())
    assert select_gpus_for_task(2) == [1, 0]
