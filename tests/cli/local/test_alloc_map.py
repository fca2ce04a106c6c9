"""The map as a person sees it: a bar a device, its jobs stacked by owner, and other people's scratch roots."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from corral.cli.local.alloc_map import BAR_CELLS, bar, map_lines
from corral.client import HolderRow, MappedDevice

CORRAL = [sys.executable, "-c", "import sys; from corral.cli import main; sys.exit(main())"]
GOOD = """SCRATCH_SIZE=0m
MOUNTS=
SLOTS={"cuda.shares":"1.2","cpu":"1"}
CUDA.SHARES_SHARES=GPU-a:0.6,GPU-b:0.6
"""


def device(index: int, *jobs: HolderRow) -> MappedDevice:
    milli = sum(job.share_milli for job in jobs)
    return MappedDevice(f"GPU-{index}", index, "NVIDIA A100-SXM4-80GB", "here", "timeslice", milli, jobs)


def test_jobs_are_stacked_by_owner_and_the_rest_is_free() -> None:
    lines = map_lines(
        [
            device(0, HolderRow("3", "bob", 250, 20480), HolderRow("1", "alice", 500, 40960)),
            device(1, HolderRow("2", "alice", 1000)),
            device(2),
        ]
    )
    assert "0.75 |AAAAAAAAAABBBBB.....| 1 0.5 40G, 3 0.25" in lines[0]
    assert f"1.00 |{'A' * BAR_CELLS}| 2 1" in lines[1]
    assert f"0.00 |{'.' * BAR_CELLS}|" in lines[2]
    assert lines[3:] == ["A alice 1.5 in 1, 2", "B bob 0.25 in 3"]
    assert max(map(len, lines)) <= 80


def test_a_sliced_device_and_its_slices_are_told_apart() -> None:
    whole = MappedDevice("GPU-m", 5, "NVIDIA A100 80GB", "here", "mig")
    part = MappedDevice("MIG-1", 6, "NVIDIA A100 80GB", "here", "mig", mig_profile="1g.10gb")
    first, second = map_lines([whole, part])
    assert (first.startswith("[5] A100 80GB"), "only its slices are allocated" in first) == (True, True)
    assert second.startswith("[6] 1g.10gb ")


@pytest.mark.parametrize("shares", [[10], [10] * 20, [990, 10], [333, 333, 334]])
def test_a_bar_is_never_longer_than_its_cells(shares: list[int]) -> None:
    jobs = [HolderRow(str(number), "alice", share) for number, share in enumerate(shares)]
    drawn = bar(jobs, {"alice": "A"})
    assert (len(drawn), drawn[0]) == (BAR_CELLS, "A")


def test_a_thousand_jobs_fit_the_width() -> None:
    jobs = [HolderRow(str(number), f"user{number}", 10) for number in range(100)]
    assert max(map(len, map_lines([device(0, *jobs)]))) <= 80


def test_a_scratch_root_is_read_and_bad_files_are_named_and_hide_nothing(tmp_path: Path) -> None:
    for kernel, text in (("k1", GOOD), ("k2", GOOD[:70]), ("k3", GOOD.replace("GPU-a:", "GPU:a:"))):
        (tmp_path / kernel / "config").mkdir(parents=True)
        (tmp_path / kernel / "config" / "resource.txt").write_text(text)
    (tmp_path / "ended").mkdir()
    env = {**os.environ, "CORRAL_HOME": str(tmp_path / "none")}
    words = [*CORRAL, "alloc-map", "--scan", str(tmp_path)]
    told = subprocess.run(words, env=env, capture_output=True, text=True, timeout=90)
    assert [line.split()[:2] for line in told.stdout.splitlines()] == [["GPU-a", "0.60"], ["GPU-b", "0.60"]]
    assert "k2/config/resource.txt: " in told.stderr
    assert "has a colon" in told.stderr
    as_json = subprocess.run([*words, "--json"], env=env, capture_output=True, text=True, timeout=90)
    assert json.loads(as_json.stdout) == {"GPU-a": "0.60", "GPU-b": "0.60"}


def test_a_scratch_root_that_is_not_there_is_refused(tmp_path: Path) -> None:
    words = [*CORRAL, "alloc-map", "--scan", str(tmp_path / "nowhere")]
    told = subprocess.run(words, capture_output=True, text=True, timeout=90)
    assert (told.returncode, "name a scratch root" in told.stderr) == (2, True)
