"""What is one maker's own is named in its folder, and elsewhere by listed files alone: a list that only shrinks."""

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "corral"

OWN = re.compile(
    r"nvidia|nvml|cuda|xid|dcgm|(?<![a-z])mps(?![a-z])|(?<![a-z])mig(?![a-z])|(?<!p)rocm|rocr|amdsmi|amdgpu|(?<![a-z])amd(?![a-z])",
    re.IGNORECASE,
)
COMMON = re.compile(
    r"mig_(?:profile|enabled|changes)|is_mig_device|min_cuda|cuda_version|strict_cuda|vgpu_cuda|exec_nvidia_smi"
    r"|Means\.(?:MPS|MIG)|Cause\.CUDA|mps_(?:control|multi_user)|by_mps|--mig\b|--min-cuda|\b(?:new_)?xid\b"
)
"""Words of the model, the settings and the commands, which users write."""

LISTED = Path(__file__).with_name("names_elsewhere.txt")
EXCEPTIONS = {line for line in LISTED.read_text().splitlines() if line and not line.startswith("#")}


def naming() -> set[str]:
    """The files outside of the vendors' folders that name what is one maker's own."""
    files = {path.relative_to(PACKAGE).as_posix(): path for path in PACKAGE.rglob("*.py")}
    return {
        name
        for name, path in files.items()
        if not name.startswith("vendors/") and OWN.search(COMMON.sub("", path.read_text()))
    }


def test_no_other_file_names_what_is_one_makers_own() -> None:
    assert sorted(naming() - EXCEPTIONS) == []


def test_a_file_that_names_it_no_more_leaves_the_list() -> None:
    assert sorted(EXCEPTIONS - naming()) == []


@pytest.mark.parametrize("vendor", ["nvidia", "amd"])
def test_each_vendor_is_a_folder_with_its_tests(vendor: str) -> None:
    assert find_spec(f"corral.vendors.{vendor}") is not None
    assert (Path(__file__).parent / vendor).is_dir()
