import io
import sys
import time
from dataclasses import replace
from typing import Any

import pytest

from corral.cli.direct.explain_job import explained
from corral.cli.direct.list_nodes import node_line, node_lines
from corral.cli.jobs.endings import ending_of
from corral.cli.jobs.reserve import exports
from corral.cli.screen import clipped, painted
from corral.cli.tables.device_tables import device_lines, status_lines
from corral.cli.tables.job_rows import job_lines, needs_places, oldest_first, start_lines
from corral.cli.tables.text_table import TextTable
from corral.client import (
    ContainerRow,
    DeviceRow,
    Explanation,
    HolderRow,
    JobRow,
    NodeRow,
    PodRow,
    ProcessRow,
    ServerInfo,
    WaitPart,
)
from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.certainty import Certainty
from corral.formatting.job_words import job_place, places_of
from corral.formatting.times import clock_span, clock_time

NOW = 1_800_000_000.0


def job(**given: Any) -> JobRow:
    return JobRow(
        **{
            "id": "17",
            "name": "sft",
            "user": "alice",
            "sequence": 17,
            "gpus": 2,
            "gpus_milli": 2000,
            "submitted_at": NOW - 60,
            **given,
        }
    )


@pytest.fixture(autouse=True)
def _eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("corral.cli.screen.room", lambda: 80)


@pytest.mark.parametrize(
    ("row", "place"),
    [
        (job(wait="Resources"), "(Resources)"),
        (job(wait="Resources", held=True), "(Held)"),
        (job(), "(Submitted)"),
        (job(phase="RUNNING", devices=("GPU-a", "GPU-b")), "GPU 0,3"),
        (job(phase="RUNNING", devices=("GPU-gone",)), "GPU GPU-gone"),
        (job(phase="RUNNING", devices=tuple("afcdb")), "GPU 0-3,5"),
        (job(phase="RUNNING", gpus=0), "CPU"),
        (job(phase="FAILED", exit_code=3), "exit code 3"),
        (job(phase="LOST", reason="the machine was restarted"), "the machine was restarted"),
        (job(phase="CANCELLED"), "cancelled"),
        (job(phase="SUCCEEDED", devices=("GPU-a",)), "GPU 0"),
    ],
)
def test_ps_says_where_a_job_runs_why_it_waits_or_how_it_ended(row: JobRow, place: str) -> None:
    indices = {"GPU-a": 0, "GPU-b": 3, "a": 0, "b": 1, "c": 2, "d": 3, "f": 5}
    assert job_place(row, {uuid: ("", index) for uuid, index in indices.items()}) == place


def test_a_job_without_gpus_tells_its_node_where_there_are_several() -> None:
    on_cpus = job(phase="RUNNING", gpus=0, nodes=("cpu-7",))
    assert job_place(on_cpus, {"GPU-a": ("gpu-01", 0), "GPU-b": ("gpu-02", 0)}) == "CPU cpu-7"
    assert job_place(on_cpus, {}) == "CPU cpu-7"
    devices = (DeviceRow(uuid="GPU-a", index=0, state="free", node="gpu-01"),)
    assert job_place(on_cpus, places_of(devices, [on_cpus])) == "CPU cpu-7"
    here = replace(on_cpus, nodes=("gpu-01",))
    assert job_place(here, places_of(devices, [here])) == "CPU"
    assert needs_places([on_cpus])
    assert not needs_places([replace(on_cpus, nodes=())])


def test_the_gpus_of_a_lone_joined_host_are_named_with_it_as_the_server_is_another_machine() -> None:
    running = job(phase="RUNNING", devices=("GPU-a",), nodes=("gpu-01",))
    here = DeviceRow(uuid="GPU-a", index=0, state="allocated", node="gpu-01")
    assert job_place(running, places_of((here,), [running])) == "GPU 0"
    there = replace(here, joined=True)
    assert job_place(running, places_of((there,), [running])) == "GPU gpu-01:0"


def test_parameters_stand_before_the_place_and_leave_room_for_it() -> None:
    few, many = {"lr": "0.1", "seed": "3"}, {"lr": "0.1", "text": "a long text that takes a line"}
    rows = [job(id="17_0", wait="Resources", params=few), job(id="17_1", wait="Resources", params=many)]
    _, first, second = job_lines(rows, {}, NOW)
    assert first.endswith("lr=0.1 seed=3: (Resources)")
    assert "lr=0.1 text=" in second
    assert second.endswith(": (Resources)")
    assert len(second) <= 80


def test_a_begin_time_is_shown_while_it_is_what_a_job_waits_for() -> None:
    row = job(phase="PENDING", wait="BeginTime", begin_at=NOW)
    assert job_place(row, {}) == f"(BeginTime {clock_time(NOW)})"
    assert job_place(replace(row, wait="Resources"), {}) == "(Resources)"
    assert job_place(replace(row, held=True), {}) == "(Held)"


def test_who_asks_for_memory_has_a_part_until_a_device_says_which() -> None:
    assert start_lines([[job(held=True, gpus=1, gpus_milli=None)]])[1].split()[3] == "part"


def test_starts_are_listed_with_what_nobody_can_tell_marked() -> None:
    soon = job(id="18", wait="Priority", expected_start=NOW, expected_start_is=Certainty.PROMISE, gpus_milli=500)
    lines = [line.split() for line in start_lines([[soon], [job(held=True)]])]
    assert lines[1] == ["18", "sft", "alice", "0.5", *clock_time(NOW).split(), "promise", "Priority"]
    assert lines[2] == ["17", "sft", "alice", "2", "?", "-", "Held"]


def test_who_has_its_devices_and_does_not_begin_is_shown_with_the_reason() -> None:
    starts = job(phase="STARTING", reason="its image cannot be pulled", devices=("GPU-a",))
    assert job_place(starts, {"GPU-a": ("", 0)}) == "GPU 0; its image cannot be pulled"


def test_who_is_being_stopped_is_shown_with_the_reason() -> None:
    leaves = job(phase="STOPPING", reason="job 9 has priority 1 and goes before 5", devices=("GPU-a",))
    assert job_place(leaves, {"GPU-a": ("", 0)}) == "job 9 has priority 1 and goes before 5"


def test_ps_lists_the_oldest_first_and_how_long_each_took() -> None:
    rows = [
        job(id="19", sequence=19, wait="Priority"),
        job(id="18", sequence=18, phase="RUNNING", started_at=NOW - 7500),
        job(id="17", sequence=17, phase="SUCCEEDED", started_at=NOW - 100, ended_at=NOW - 10),
        job(id="16", sequence=16, phase="CANCELLED"),
    ]
    lines = [line.split() for line in job_lines(oldest_first(rows), {}, NOW)]
    assert [line[0] for line in lines] == ["ID", "16", "17", "18", "19"]
    assert [" ".join(line[5:7]) for line in lines[2:4]] == ["1m 30s", "2h 5m"]


def test_every_table_fits_eighty_columns() -> None:
    long = "x" * 200
    jobs = [job(id="123456_99999", name=long, user=long, phase="TIMED_OUT", reason=long, started_at=0.0, ended_at=NOW)]
    device = DeviceRow(
        uuid="GPU-c0ffee00-0000-4000-8000-000000000000", index=15, name=f"NVIDIA {long}", state="unreadable",
        memory_total_mib=81920, memory_used_mib=81920, utilization_pct=100, temperature_c=100, state_reason=long,
        holders=(HolderRow("123456_9999", long, 250),), processes=(ProcessRow(4213, long, long, 11010),),
    )  # fmt: skip
    lines = job_lines(jobs, {}, NOW) + device_lines([device]) + status_lines(ServerInfo(node="n"), [device])
    assert max(map(len, lines)) <= 80


def test_models_have_the_room_of_what_is_the_same_of_all_devices() -> None:
    uuid, model = "GPU-c0ffee00-0000-4000-8000-00000000000", "NVIDIA A100-SXM4-80GB"
    first = DeviceRow(uuid=f"{uuid}0", index=0, name=model, memory_total_mib=81920, means="timeslice", state="free")
    second = DeviceRow(uuid=f"{uuid}1", index=1, name=model, memory_total_mib=81920, means="mps", state="free")
    same = device_lines([first, first])
    assert same[1].endswith("  A100-SXM4-80GB")
    assert same[-1] == "shared: timeslice"
    mixed = device_lines([first, second])
    assert [line.split()[4] for line in mixed] == ["SHARED", "timeslice", "mps"]


def test_status_names_the_node_of_the_only_gpus_where_the_servers_machine_has_none() -> None:
    devices = [DeviceRow(uuid="GPU-a", index=0, state="free", node="gpu-03")]
    assert status_lines(ServerInfo(node="head"), devices)[0].startswith("gpu-03  1 of 1 GPUs free")


def test_status_shows_gauges_holders_and_strangers() -> None:
    devices = [
        DeviceRow(uuid="GPU-a", index=0, name="NVIDIA A100", state="allocated", memory_total_mib=81920,
                  memory_used_mib=11848, utilization_pct=96, temperature_c=77, holders=(HolderRow("17", "alice"),),
                  processes=(ProcessRow(4213, "alice", "python", 11010, job="17"),)),
        DeviceRow(uuid="GPU-b", index=1, name="NVIDIA A100", state="in_use", memory_total_mib=81920,
                  processes=(ProcessRow(99, "bob", "python x.py", 500),)),
        DeviceRow(uuid="GPU-c", index=2, name="NVIDIA A100", state="free", memory_total_mib=81920),
    ]  # fmt: skip
    assert status_lines(ServerInfo(node="gpu-07", driver_version="550.1"), devices) == [
        "gpu-07  1 of 3 GPUs free  driver 550.1",
        "[0] A100 |  77'C,  96 % | 11848 / 81920 MB | allocated alice/17",
        "[1] A100 |   ?'C,   ? % |     ? / 81920 MB | in_use",
        "      bob/99(500M): python x.py",
        "[2] A100 |   ?'C,   ? % |     ? / 81920 MB | free",
    ]


def test_status_says_of_which_cluster_it_is() -> None:
    assert status_lines(ServerInfo(node="gpu-07", cluster="GPU-Cluster-01"), [])[0].startswith("GPU-Cluster-01: gpu-07")


def test_status_names_the_pod_that_has_a_device_and_says_where_nothing_reads_it() -> None:
    pod = PodRow("ml", "train-x7k", "Job/train")
    devices = [
        DeviceRow(uuid="n.gpu-0", index=0, name="NVIDIA A100", state="in_use", metered=False, pod=pod),
        DeviceRow(uuid="n.gpu-1", index=1, name="NVIDIA A100", state="free", metered=False),
    ]
    assert status_lines(ServerInfo(node="n"), devices)[1:] == [
        "these GPUs have no readings: only their jobs are known, not use and memory",
        "[0] A100 |   ?'C,   ? % |     ? /     ? MB | in_use",
        "      pod ml/train-x7k (Job/train)",
        "[1] A100 |   ?'C,   ? % |     ? /     ? MB | free",
    ]


def test_status_names_the_process_of_a_job_that_uses_what_the_job_was_not_given() -> None:
    process = ProcessRow(99, "bob", "x.py", 500, job="17")
    device = DeviceRow(uuid="GPU-a", index=0, name="NVIDIA A100", state="in_use", processes=(process,))
    assert status_lines(ServerInfo(), [device])[-1] == "      bob/99(500M) of job 17: x.py"


def test_status_names_the_container_in_which_others_use_a_device() -> None:
    process = ProcessRow(99, "root", "x.py", 500, container=ContainerRow("theirs", "repo/train:1"))
    device = DeviceRow(uuid="GPU-a", index=0, name="NVIDIA A100", state="in_use", processes=(process,))
    words = "      root/99(500M) in container theirs (repo/train:1): x.py"
    assert status_lines(ServerInfo(), [device])[-1] == words


def test_status_says_that_devices_are_described_and_not_real() -> None:
    assert "mock devices" in status_lines(ServerInfo(mock=True, driver_version="550"), [])[0]


def test_why_tells_the_place_the_start_and_what_would_start_now() -> None:
    told = Explanation("17", Phase.PENDING, "it needs 4 GPUs; 2 are free", 3, None, "--gpus 2")
    assert explained(told) == [
        "it needs 4 GPUs; 2 are free",
        "place in the queue: 3",
        "expected start: not known",
        "starts now with: --gpus 2",
    ]
    in_the_reason = explained(replace(told, reason="it needs 4 GPUs. With --gpus 2 it would start now."))
    assert [line for line in in_the_reason if "--gpus 2" in line] == [
        "it needs 4 GPUs. With --gpus 2 it would start now."
    ]


def test_why_tells_after_the_end_how_the_wait_was_spent() -> None:
    told = Explanation("17", Phase.SUCCEEDED, "it ran", waited=(WaitPart("Resources", 200.0), WaitPart("Held", 20.0)))
    assert explained(told) == ["it ran", "waited 3m 40s: Resources 3m 20s, Held 20s"]


def test_why_says_what_the_log_of_a_failed_job_says() -> None:
    told = Explanation("7", Phase.FAILED, "job 7 failed with exit code 1", diagnosis="out of host memory; ask for more")
    assert explained(told) == ["job 7 failed with exit code 1", "out of host memory; ask for more"]


def test_an_ending_is_one_sentence() -> None:
    assert ending_of(job(phase="TIMED_OUT", exit_code=143, reason="its limit of 2h")) == (
        "job 17 (sft) timed out with exit code 143 (as after SIGTERM: it was told to end): its limit of 2h"
    )


def test_an_ending_says_nothing_twice() -> None:
    assert ending_of(job(phase="CANCELLED", reason="cancelled by bob")) == "job 17 (sft) cancelled by bob"
    long = job(name="sweep-" * 20, phase="CANCELLED", reason="cancelled by bob")
    assert ending_of(long) == f"job 17 ({'sweep-' * 6}swe…) cancelled by bob"


def test_a_reservations_exports_can_be_evaluated_by_a_shell() -> None:
    lines = exports(job(devices=("GPU-a", "MIG-b c"), kind="reserve"))
    assert lines[0] == "export CUDA_VISIBLE_DEVICES='GPU-a,MIG-b c'"
    assert lines[1:] == [
        "export CUDA_DEVICE_ORDER=PCI_BUS_ID",
        "export CORRAL_JOB_ID=17",
        "export CORRAL_RESERVATION=17",
    ]


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_server_without_a_driver_of_its_own_names_no_source() -> None:
    assert status_lines(ServerInfo(source="none"), []) == ["no node with a GPU  0 of 0 GPUs free"]


def test_a_cluster_without_a_node_with_gpus_is_not_called_a_machine() -> None:
    assert status_lines(ServerInfo(source="kubernetes"), []) == [
        "no node with a GPU  0 of 0 GPUs free  source kubernetes"
    ]


def test_colour_is_for_terminals_that_want_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert painted("free", "green", io.StringIO()) == "free"
    assert painted("free", "green", _Terminal()) == "\033[32mfree\033[0m"
    monkeypatch.setenv("NO_COLOR", "1")
    assert painted("free", "green", _Terminal()) == "free"


def test_colour_does_not_shift_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    table = TextTable(("A", "B", "C"), numeric=("B",))
    table.add("one", "2", "three", style="red")
    plain = table.lines(paint="A")
    monkeypatch.setattr(sys, "stdout", _Terminal())
    coloured = table.lines(paint="A")
    assert coloured[1].replace("\033[31m", "").replace("\033[0m", "") == plain[1] == "one  2  three"


def test_text_is_clipped_with_a_mark_and_kept_on_one_line() -> None:
    assert clipped("a\nb  c", 10) == "a b c"
    assert clipped("abcdef", 4) == "abc…"


def test_a_moment_has_its_date_only_when_it_is_not_today() -> None:
    assert clock_time(None) == "-"
    twice = [clock_time(time.time()) for _ in "ab"]  # midnight may come between one look at the clock and the next
    assert len("14:20") in map(len, twice)
    assert len(clock_time(0.0)) == len("1970-01-01 00:00")


def test_a_stretch_of_time_that_is_not_of_today_has_both_dates() -> None:
    noon = time.mktime((2026, 11, 22, 12, 0, 0, 0, 0, -1))
    assert clock_span(noon - 7 * 86_400, noon) == "2026-11-15 12:00 to 2026-11-22 12:00"
    now = time.time()
    assert clock_span(now - 7 * 86_400, now).endswith(time.strftime("to %Y-%m-%d %H:%M", time.localtime(now)))


def test_a_device_that_is_not_well_is_told_with_why_and_since_when() -> None:
    hot = DeviceRow("GPU-1", 1, "Mock", "unhealthy", state_reason="it is at 99°C", state_since=NOW)
    told = f"unhealthy since {clock_time(NOW)}: it is at 99°C"
    assert f"      {told}" in status_lines(ServerInfo(), [hot])
    assert device_lines([DeviceRow("GPU-0", 0, "Mock", "free"), hot])[-1] == f"GPU 1 is {told}"


def of_two_nodes() -> list[DeviceRow]:
    return [
        DeviceRow(
            f"GPU-{node}-{index}", index, "Mock A100", "free", memory_total_mib=81920, node=node, means="timeslice"
        )
        for node in ("gpu-01", "gpu-02")
        for index in range(2)
    ]


def test_with_several_nodes_every_gpu_is_called_by_its_node() -> None:
    devices = of_two_nodes()
    gang = job(phase="RUNNING", devices=("GPU-gpu-01-0", "GPU-gpu-01-1", "GPU-gpu-02-1"))
    assert job_place(gang, places_of(devices)) == "GPU gpu-01:0,1 gpu-02:1"
    assert [line.split()[0] for line in device_lines(devices)[1:5]] == ["gpu-01:0", "gpu-01:1", "gpu-02:0", "gpu-02:1"]
    lines = status_lines(ServerInfo(mock=True), devices)
    assert lines[0] == "2 nodes  4 of 4 GPUs free  mock devices"
    assert [line for line in lines if line.startswith("gpu")] == [f"gpu-0{n}  2 of 2 GPUs free" for n in (1, 2)]
    assert all(len(line) <= 80 for line in [*lines, *device_lines(devices)])


def test_what_is_wrong_with_a_whole_node_is_said_once() -> None:
    reason = "node gpu-02 has not answered since 14:20:31"
    devices = [
        replace(device, state="unreadable", state_reason=reason) if device.node == "gpu-02" else device
        for device in of_two_nodes()
    ]
    lines = status_lines(ServerInfo(), devices)
    assert [line for line in lines if reason in line] == [f"  unreadable: {reason}"]


def test_nodes_are_listed_with_their_state_and_why() -> None:
    ready = NodeRow("gpu-01", "ready", None, NOW, 8, 16.0, 131_072, {"cuda-major-version": "12", "zone": "a"})
    gone = NodeRow("gpu-02", "gone", "node gpu-02 has not answered since 14:20:31; its jobs are given up", None)
    lines = node_lines([ready, gone])
    assert lines[0].split() == ["NODE", "STATE", "GPUS", "CPUS", "MEMORY", "SEEN", "WHY,", "LABELS"]
    assert lines[1].split()[:5] == ["gpu-01", "ready", "8", "16", "128G"]
    assert lines[1].split()[-1:] == ["zone=a"]
    assert "cuda" not in lines[1]
    assert lines[2].split()[:6] == ["gpu-02", "gone", "0", "?", "?", "never"]
    assert all(len(line) <= 80 for line in lines)
    assert node_line(gone).startswith("node gpu-02 is gone (node gpu-02 has not answered")


def test_a_job_that_a_signal_ended_is_told_with_its_name() -> None:
    row = JobRow("17", phase=Phase.FAILED, exit_code=139, signal=11)
    crash = "exit code 139 (SIGSEGV: it read or wrote memory that is not its own)"
    assert ending_of(row) == f"job 17 failed with {crash}"
    assert job_place(row, {}) == crash
