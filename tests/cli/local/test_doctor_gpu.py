"""What is wrong with a machine's GPUs is found, with the command that mends it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from corral.cli.local.doctor import gpu_findings
from corral.cli.local.doctor_gpu import (
    GPU_CHECKS,
    Surroundings,
    check_containers,
    check_device_files,
    check_mig,
    check_mps,
    check_paddle,
    check_persistence,
    check_precision,
    check_process_mode,
    check_runtime,
)
from corral.core.model.devices.device import Device, Node, Partition
from corral.core.model.devices.means import Means
from corral.core.model.home import Home
from corral.formatting.check_result import OK, WARNING

A100 = Device("GPU-a", 0, "NVIDIA A100", 81920, compute_capability=(8, 0), mig_enabled=False, persistence=True)
NODE = Node("here", (A100,), 8000, 32768, driver_version="550.54.15", cuda_version=(12, 4))


@pytest.fixture
def here(tmp_path: Path) -> Surroundings:
    """A machine in order, with no tools besides the driver's."""
    for name in ("nvidia0", "nvidiactl", "nvidia-uvm"):
        (tmp_path / name).touch()
    return Surroundings(
        NODE,
        dev=tmp_path,
        toolkit=tmp_path / "cuda",
        docker_config=tmp_path / "daemon.json",
        mps_pipes=tmp_path / "pipes",
        env={},
        which=lambda _: None,
    )


def with_device(here: Surroundings, **changes: object) -> Surroundings:
    return replace(here, node=replace(NODE, devices=(replace(A100, **changes),)))  # type: ignore[arg-type]


def tools(tmp_path: Path, **printed: str) -> Callable[[str], str | None]:
    """Programs that print so much, by name, found as `which` finds them."""
    for name, text in printed.items():
        program = tmp_path / name.replace("_", "-")
        program.write_text(f"#!/bin/sh\necho '{text}'\n")
        program.chmod(0o755)
    return lambda name: str(tmp_path / name) if (tmp_path / name).exists() else None


def test_a_machine_in_order_has_no_warnings(here: Surroundings) -> None:
    assert [check(here).state for check in GPU_CHECKS] == [OK] * len(GPU_CHECKS)


def test_a_device_file_that_is_missing_is_named_with_how_to_make_it(here: Surroundings) -> None:
    (here.dev / "nvidia-uvm").unlink()
    found = check_device_files(here)
    assert (found.state, "nvidia-uvm missing" in found.found, "nvidia-modprobe" in found.advice) == (
        WARNING,
        True,
        True,
    )


def test_a_driver_that_unloads_is_warned_of(here: Surroundings) -> None:
    found = check_persistence(with_device(here, persistence=False))
    assert (found.state, found.advice) == (WARNING, "sudo nvidia-smi -pm 1")


def test_a_toolkit_newer_than_the_driver_is_warned_of(here: Surroundings) -> None:
    (here.toolkit / "lib64").mkdir(parents=True)
    (here.toolkit / "lib64" / "libcudart.so.13.0.48").touch()
    found = check_runtime(here)
    assert (found.state, "CUDA 13.0" in found.found, "999" in found.found) == (WARNING, True, True)


def test_a_gpu_without_bfloat16_is_named_with_the_flag_that_helps(here: Surroundings) -> None:
    found = check_precision(with_device(here, compute_capability=(7, 0), model="Tesla V100"))
    assert (found.state, "Tesla V100" in found.found, "--dtype=half" in found.advice) == (WARNING, True, True)


def test_paddles_allocator_is_warned_of_until_it_is_set(here: Surroundings, tmp_path: Path) -> None:
    (tmp_path / "env" / "bin").mkdir(parents=True)
    (tmp_path / "env" / "bin" / "python3").touch()
    (tmp_path / "env" / "lib" / "python3.11" / "site-packages" / "paddle").mkdir(parents=True)
    env = {"PATH": str(tmp_path / "env" / "bin")}
    found = check_paddle(replace(here, env=env))
    assert (found.state, found.advice) == (WARNING, "export FLAGS_allocator_strategy=naive_best_fit")
    assert check_paddle(replace(here, env={**env, "FLAGS_allocator_strategy": "naive_best_fit"})).state == OK


def with_mps(here: Surroundings, program: Path, text: str) -> Surroundings:
    """A site that shares by MPS, with a control program of that text."""
    program.write_text(text)
    program.chmod(0o755)
    return replace(here, sharing=[("*", Means.MPS)], mps_control=str(program))


def test_mps_is_looked_at_where_the_site_asks_for_it(here: Surroundings, tmp_path: Path) -> None:
    missing = check_mps(replace(here, sharing=[("*", Means.MPS)], mps_control=str(tmp_path / "none")))
    assert (missing.state, "not installed" in missing.found, "not shared" in missing.found) == (WARNING, True, True)
    installed = with_mps(here, tmp_path / "control", "#!/bin/sh\n")
    assert check_mps(installed).state == OK
    old = replace(installed, node=replace(NODE, cuda_version=(11, 4)))
    assert "MPS needs a driver for CUDA 11.5" in check_mps(old).found


def test_mps_that_cannot_be_is_told_without_a_driver_too(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(f"sharing: {{0: mps}}\nmps_control: {tmp_path}/none\n")
    found = {one.about: one for one in gpu_findings(Home(tmp_path), None)}
    assert "not installed" in found["MPS"].found
    (tmp_path / "config.yaml").write_text("sharing: exclusive\n")
    assert "not installed" not in "".join(one.found for one in gpu_findings(Home(tmp_path), None))


def test_a_mode_for_several_users_is_looked_for_before_anybody_counts_on_it(here: Surroundings, tmp_path: Path) -> None:
    old = replace(with_mps(here, tmp_path / "old", "#!/bin/sh\n# -d\n"), mps_multi_user=True)
    found = check_mps(old)
    assert (found.state, "has no option -multiuser-server" in found.found) == (WARNING, True)
    new = replace(with_mps(here, tmp_path / "new", "#!/bin/sh\n# -d -multiuser-server\n"), mps_multi_user=True)
    assert check_mps(new).state == OK


def test_an_mps_daemon_of_somebody_elses_is_named(here: Surroundings) -> None:
    here.mps_pipes.mkdir()
    (here.mps_pipes / "nvidia-cuda-mps-control.pid").write_text("1\n")
    assert check_mps(here).state == WARNING


def test_a_process_mode_that_no_program_can_set_is_warned_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert check_process_mode(asked=False, described=False, by_root=True).state == OK
    missing = check_process_mode(asked=True, described=False, by_root=True)
    assert (missing.state, missing.found.partition(",")[0]) == (WARNING, "nvidia-smi is not installed here")
    tools(tmp_path, nvidia_smi="")
    assert check_process_mode(asked=True, described=False, by_root=True).state == OK
    assert check_process_mode(asked=True, described=True, by_root=True).state == WARNING
    assert "only root" in check_process_mode(asked=True, described=False, by_root=False).found


def test_a_device_in_mig_mode_without_slices_can_run_nothing(here: Surroundings) -> None:
    found = check_mig(with_device(here, mig_enabled=True))
    assert (found.state, "-cgi" in found.advice) == (WARNING, True)
    cut = with_device(here, mig_enabled=True, partitions=(Partition("MIG-1", "1g.10gb", 9728),))
    assert check_mig(cut).found == "1 slice on GPU 0"


CTK = "NVIDIA Container Toolkit CLI version"


@pytest.mark.parametrize(
    ("printed", "config", "told"),
    [
        ({}, "", "NVIDIA container toolkit is missing"),
        ({"nvidia_ctk": f"{CTK} 1.6.2"}, "", "older than 1.7.0"),
        ({"nvidia_ctk": f"{CTK} 1.17.4"}, "{}", "does not list the nvidia runtime"),
        ({"nvidia_ctk": f"{CTK} 1.17.4"}, '{"runtimes": {"nvidia": {}}}', "containers can use GPUs"),
    ],
)
def test_docker_without_a_way_to_gpus_is_warned_of(
    here: Surroundings, tmp_path: Path, printed: dict[str, str], config: str, told: str
) -> None:
    here.docker_config.write_text(config)
    found = check_containers(replace(here, which=tools(tmp_path, docker="", **printed)))
    assert told in found.found
    assert found.state == (OK if "runtimes" in config else WARNING)
