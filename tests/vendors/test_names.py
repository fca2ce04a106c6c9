"""What is one maker's own is named in its folder, and elsewhere by listed files alone: a list that only shrinks."""

import re
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

import corral.vendors

PACKAGE = Path(__file__).parents[2] / "src" / "corral"

OWN = re.compile(
    r"nvidia|nvml|cuda|xid|dcgm|(?<![a-z])mps(?![a-z])|(?<![a-z])mig(?![a-z])|(?<!p)rocm|rocr|amdsmi|amdgpu|(?<![a-z])amd(?![a-z])",
    re.IGNORECASE,
)
COMMON = re.compile(
    r"mig_(?:profile|enabled|changes)|is_mig_device|min_cuda|cuda_version|strict_cuda|vgpu_cuda|exec_nvidia_smi"
    r"|Means\.(?:MPS|MIG)|Cause\.CUDA|mps_(?:control|multi_user|slots)|by_mps|--mig\b|--min-cuda|\b(?:new_)?xid\b"
    r"|xid_pid|SignKind\.XID|XID = |_xid\b"
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


VENDORS = sorted(path.parent.name for path in Path(corral.vendors.__file__).parent.glob("*/__init__.py"))


@pytest.mark.parametrize("vendor", VENDORS)
def test_each_vendor_is_a_folder_with_its_tests(vendor: str) -> None:
    assert find_spec(f"corral.vendors.{vendor}") is not None
    assert (Path(__file__).parent / vendor).is_dir()


@pytest.mark.parametrize("vendor", VENDORS)
def test_each_vendor_is_in_both_contracts_that_keep_vendors_apart(vendor: str) -> None:
    text = (Path(corral.vendors.__file__).parents[3] / "pyproject.toml").read_text()
    contracts = tomllib.loads(text)["tool"]["importlinter"]["contracts"]
    listed = [one.get("modules") or one.get("protected_modules") for one in contracts]
    assert sum(f"corral.vendors.{vendor}" in (modules or ()) for modules in listed) == 2
