"""A job that cannot run here is refused before it waits, with the fix; whoever insists is on record."""

import os
import pwd
import sys
from pathlib import Path

import pytest

from tests.e2e.box import SETTINGS, Box, described, serving


def python_with_torch(root: Path, cuda: str) -> str:
    """The interpreter of an environment whose torch was built for this CUDA version."""
    site = root / "lib" / "python3.11" / "site-packages" / "torch"
    site.mkdir(parents=True)
    (site / "version.py").write_text(f"cuda: Optional[str] = '{cuda}'\n")
    (root / "bin").mkdir()
    (root / "bin" / "python").symlink_to(sys.executable)
    return str(root / "bin" / "python")


@pytest.fixture
def too_new(tmp_path: Path) -> str:
    """A Python whose torch is a major version ahead of the driver, which is for CUDA 12.4."""
    return python_with_torch(tmp_path / "env", "13.0")


def test_a_job_that_no_device_here_can_run_is_refused_with_the_fix(box: Box, too_new: str) -> None:
    done = box.run("submit", "--", too_new, "-m", "train")
    assert done.returncode == 2
    assert "CUDA 13.0" in done.stderr
    assert "->" in done.stderr
    assert "--force submits it anyway" in done.stderr


def test_a_job_without_gpus_is_not_inspected(box: Box, too_new: str) -> None:
    assert box.ended(box.submit("--gpus", "0", "--", too_new, "-c", "pass"))["phase"] == "SUCCEEDED"


def test_who_insists_is_on_record_and_the_log_says_what_was_overridden(box: Box, too_new: str) -> None:
    job = box.submit("--force", "--", too_new, "-c", "print('ran')")
    assert box.ended(job)["phase"] == "SUCCEEDED"
    told, ran = box.ok("logs", job).splitlines()
    assert told.startswith("corral: preflight: ")
    assert ran == "ran"
    assert box.api(f"/api/v1/jobs/{job}")["spec"]["forced_by"] == pwd.getpwuid(os.geteuid()).pw_name


def test_a_warning_goes_to_the_jobs_log_and_refuses_nothing(box: Box, tmp_path: Path) -> None:
    newer = python_with_torch(tmp_path / "env", "12.8")
    job = box.submit("--", newer, "-c", "pass")
    assert box.ended(job)["phase"] == "SUCCEEDED"
    assert "corral: preflight: " in box.ok("logs", job)
    assert "12.8" in box.ok("logs", job)


def test_check_says_the_same_before_anything_is_submitted(box: Box, too_new: str) -> None:
    done = box.run("check", "--", too_new, "-m", "train")
    assert (done.returncode, "CUDA 13.0" in done.stdout) == (1, True)


def test_estimate_names_the_devices_here_that_would_hold_the_model(box: Box) -> None:
    told = box.ok("estimate", "Llama-3-70B", "--tp", "4", "--dtype", "fp16", "--context", "32k", "--batch", "8")
    assert "GPUs here with enough memory: 0, 1, 2, 3 (Mock A100)" in told


def test_a_dry_run_is_refused_as_the_submission_would_be(box: Box, too_new: str) -> None:
    done = box.run("submit", "--dry-run", "--", too_new, "-m", "train")
    assert (done.returncode, "CUDA 13.0" in done.stderr) == (2, True)


SITE = f"""{SETTINGS}
vgpu:
  0: {{layer: gpu-manager, cuda: 12.4}}
  1: {{layer: gpu-manager, cuda: 12.2}}
"""


def test_a_part_of_a_virtual_gpu_is_given_only_to_programs_that_its_layer_knows(tmp_path: Path) -> None:
    of_12_4, of_11_8 = (python_with_torch(tmp_path / cuda, cuda) for cuda in ("12.4", "11.8"))
    with serving(described(2), SITE) as box:
        part = ("submit", "--gpus", "0.5", "--hold")
        newer = box.run(*part, "--", of_12_4, "-m", "train")
        assert newer.returncode == 2
        assert "gpu-manager is built for CUDA 12.2" in newer.stderr
        assert "its virtual GPUs support CUDA below 12.4 only" in newer.stderr
        assert "must be of one major version; they are 11, 12 and 12" in box.run(*part, "--", of_11_8, "-m", "t").stderr
        assert box.run("submit", "--gpus", "1", "--hold", "--", of_12_4, "-m", "train").returncode == 0
        assert "below 12.4 only" in box.run("check", "--gpus", "0.5", "--", of_12_4, "-m", "train").stdout


def test_a_site_hands_out_no_gpu_that_is_too_old_for_it() -> None:
    with serving(described(2), f"{SETTINGS}min_compute_capability: 9.0\n") as box:
        done = box.run("submit", "--", "true")
        assert done.returncode == 2
        assert "no GPU here has compute capability 9.0 or higher; the highest is 8.0" in done.stderr
        assert "this site uses no GPU below compute capability 9.0" in " ".join(done.stderr.split())
        tried = " ".join(box.run("submit", "--dry-run", "--", "true").stdout.split())
        assert "this site uses no GPU below compute capability 9.0" in tried
        assert "starts now" not in tried
        hungry = box.run("submit", "--gpus", "0", "--cpus", "9999", "--", "true")
        assert (hungry.returncode, "this site" in hungry.stderr) == (2, False)
        assert "excludes every GPU here" in box.run("config", "check").stdout + (box.home / "server.log").read_text()


def test_a_site_weighs_availability_as_it_likes() -> None:
    with serving(described(1, extra="utilization_pct = 40"), f"{SETTINGS}availability_memory_weight: 0.25\n") as box:
        box.until(lambda: box.api("/api/v1/devices")["devices"][0]["availability"] is not None)
        (device,) = box.api("/api/v1/devices")["devices"]
        memory = device["memory_free_mib"] / device["memory_total_mib"]
        assert device["availability"] == pytest.approx(0.25 * memory + 0.75 * (100 - device["utilization_pct"]) / 100)
