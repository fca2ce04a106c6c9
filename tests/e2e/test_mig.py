"""MIG slices are changed by a plan that is shown, and only where the site allows it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.box import Box

DEVICES = """slot_name = "cuda"
devices = [
{ mother_uuid = "GPU-s", model_name = "NVIDIA A100-1g.10gb", memory_size = "10G", is_mig_device = true },
{ mother_uuid = "GPU-w", model_name = "NVIDIA A100", memory_size = "80G", is_mig_device = false },
]
[attributes]
nvidia_driver = "550.54.15"
cuda_runtime = "12.4"
"""
NVIDIA_SMI = """#!/bin/sh
echo "$@" >> "$(dirname "$0")/asked"
case "$2" in
-lgip) echo "|   0  MIG 1g.10gb       19     6/7        9.50       No     14     0     0   |" ;;
-lgi) echo "|   0  MIG 1g.10gb         19        9          2:1     |" ;;
esac
"""


@pytest.fixture
def sliced(new_box: Callable[[str], Box]) -> Callable[[str], Box]:
    """Makes a server on a sliced and a whole device, with such settings, beside a stand-in for nvidia-smi."""

    def make(settings: str) -> Box:
        box = new_box(DEVICES)
        (box.home / "config.yaml").write_text(f"kill_grace: 1s\n{settings}")
        tools = box.home / "tools"
        tools.mkdir()
        (tools / "nvidia-smi").write_text(NVIDIA_SMI)
        (tools / "nvidia-smi").chmod(0o755)
        box.env["PATH"] = f"{tools}:{box.env['PATH']}"
        box.up()
        return box

    return make


def asked(box: Box) -> list[str]:
    """What the stand-in was asked to do, questions left out."""
    lines = (box.home / "tools" / "asked").read_text().splitlines()
    return [line for line in lines if "-lg" not in line]


def test_a_plan_is_shown_and_nothing_is_done_until_it_is_asked_for(sliced: Callable[[str], Box]) -> None:
    box = sliced("mig_changes: true\n")
    purpose, command, end = box.ok("mig", "cut", "0", "1g.10gb", "--count", "2").splitlines()
    assert purpose == "cut GPU-s into 2 more slices of 1g.10gb"
    assert command == "nvidia-smi mig -i GPU-s -cgi 19,19 -C"
    assert end == "nothing was done; add --apply to do it"
    assert asked(box) == []
    assert box.ok("mig", "cut", "0", "1g.10gb", "--count", "2", "--apply").endswith("done\n")
    assert asked(box) == ["mig -i GPU-s -cgi 19,19 -C"]
    box.ok("mig", "give-up", "GPU-s", "--apply")
    assert asked(box)[1:] == ["mig -dci -i GPU-s -gi 9", "mig -dgi -i GPU-s -gi 9"]


def test_where_the_site_does_not_allow_it_a_plan_is_shown_and_not_carried_out(sliced: Callable[[str], Box]) -> None:
    box = sliced("")
    assert "nvidia-smi mig -i GPU-s -cgi 19 -C" in box.ok("mig", "cut", "0", "1g.10gb")
    refused = box.run("mig", "cut", "0", "1g.10gb", "--apply")
    assert refused.returncode != 0
    assert "an administrator may run: nvidia-smi mig -i GPU-s -cgi 19 -C" in refused.stderr
    assert asked(box) == []


def test_slices_are_never_taken_from_a_job(sliced: Callable[[str], Box], tmp_path: Path) -> None:
    box = sliced("mig_changes: true\n")
    job = box.submit("--mig", "1g.10gb", "--", "sleep", "60")
    box.until_phase(job, "RUNNING")
    refused = box.run("mig", "give-up", "0", "--apply")
    assert (refused.returncode, "jobs still use slice 9" in refused.stderr) == (2, True)
    whole = box.run("mig", "cut", "1", "1g.10gb")
    assert (whole.returncode, "is not in MIG mode" in whole.stderr) == (2, True)
