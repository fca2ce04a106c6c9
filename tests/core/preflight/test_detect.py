"""A real job's directory is enough to know whether it will run."""

import json
from pathlib import Path

import pytest

from corral.core.ports.preflight import Effect, Place
from corral.core.preflight.detect import Stated, detect
from corral.core.preflight.rules import check
from tests.core.preflight.test_estimate import LLAMA_3_8B


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """A directory with a virtual environment that has torch for CUDA 12.4, and an 8B model in bfloat16."""
    site = tmp_path / "venv" / "lib" / "python3.11" / "site-packages"
    (site / "torch").mkdir(parents=True)
    (site / "torch" / "version.py").write_text("cuda: Optional[str] = '12.4'\n")
    (tmp_path / "venv" / "bin").mkdir()
    (tmp_path / "venv" / "bin" / "python").write_text("")
    (tmp_path / "venv" / "bin" / "vllm").write_text(f"#!{tmp_path}/venv/bin/python\n")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text(json.dumps(LLAMA_3_8B))
    return tmp_path


def env(job: Path) -> dict[str, str]:
    return {"PATH": f"{job}/venv/bin", "HOME": str(job)}


def test_a_server_is_known_by_its_command_its_environment_and_its_model(job: Path) -> None:
    found = detect(["vllm", "serve", "model", "-tp", "2"], env(job), job)
    assert (found.work.runtime, found.work.framework, found.work.dtype) == ((12, 4), "vllm", "bfloat16")
    assert found.work.world_size == 2
    assert found.estimate is not None
    assert [source.partition(":")[0] for source in found.sources] == ["CUDA 12.4", "memory"]


def test_a_bfloat16_model_on_an_old_device_is_blocked_with_the_flag_that_helps(job: Path) -> None:
    place = Place("Tesla T4", driver="550.54.14", compute=(7, 5), device_memory_mib=40960)
    found = detect(["vllm", "serve", "model"], env(job), job)
    (finding,) = check(found.work_in(place), place)
    assert finding.effect is Effect.BLOCK
    assert finding.fix.startswith("--dtype=half")
    mended = detect(["vllm", "serve", "model", "--dtype", "half"], env(job), job)
    assert check(mended.work_in(place), place) == ()


def test_heads_and_ranks_are_read_off_the_model_and_the_command(job: Path) -> None:
    found = detect(["vllm", "serve", "model", "--tensor-parallel-size", "3"], env(job), job)
    assert (found.work.heads, found.work.tensor_parallel) == (32, 3)


def test_a_model_that_does_not_fit_its_grant_is_blocked_by_how_much(job: Path) -> None:
    place = Place("A100", cuda=(12, 4), compute=(8, 0), share_milli=100, memory_mib=8192)
    found = detect(["vllm", "serve", "model"], env(job), job)
    findings = check(found.work_in(place), place)
    assert "memory-fit" in [finding.rule for finding in findings]


def test_what_the_user_states_beats_what_is_found(job: Path) -> None:
    found = detect(["vllm", "serve", "model"], env(job), job, Stated(cuda=(13, 0), dtype="fp8"))
    assert (found.work.runtime, found.work.dtype) == ((13, 0), "fp8")


def test_a_model_that_cannot_be_read_is_estimated_by_its_name_and_said(job: Path) -> None:
    (job / "model-7b").mkdir()
    found = detect(["vllm", "serve", "model-7b"], env(job), job)
    assert found.estimate is not None
    assert "7 billion" in found.estimate.source
    assert any("no config.json" in source for source in found.sources)


def test_paddle_is_known_by_its_environment_and_its_allocator_by_its_variable(job: Path) -> None:
    site = job / "venv" / "lib" / "python3.11" / "site-packages"
    (site / "torch" / "version.py").unlink()
    (site / "torch").rmdir()
    (site / "paddle").mkdir()
    found = detect(["python", "train.py"], {**env(job), "FLAGS_allocator_strategy": "auto_growth"}, job)
    assert (found.work.framework, found.work.allocator) == ("paddle", "auto_growth")


def test_a_job_of_which_nothing_is_known_has_no_findings(tmp_path: Path) -> None:
    found = detect(["./simulate"], {}, tmp_path)
    assert found.work.framework is None
    assert check(found.work_in(Place()), Place()) == ()
