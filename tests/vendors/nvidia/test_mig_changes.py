"""Slices are cut and given up by a plan that is shown first and carried out only where that is allowed."""

from dataclasses import replace

import pytest

from corral.core.model.devices.device import Device
from corral.core.model.errors import BackendFailed, Forbidden, Refused
from corral.vendors.nvidia.mig_changes import (
    MigInstance,
    MigOffer,
    carry_out,
    parse_instances,
    parse_offers,
    plan_create,
    plan_destroy,
)

OFFERS = """\
+-----------------------------------------------------------------------------+
| GPU instance profiles:                                                      |
| GPU   Name             ID    Instances   Memory     P2P    SM    DEC   ENC  |
|                              Free/Total   GiB              CE    JPEG  OFA  |
|=============================================================================|
|   0  MIG 1g.10gb       19     4/7        9.50       No     14     0     0   |
|                                                             1     0     0   |
+-----------------------------------------------------------------------------+
|   0  MIG 1g.10gb+me    20     1/1        9.50       No     14     1     0   |
|                                                             1     1     1   |
+-----------------------------------------------------------------------------+
|   0  MIG 3g.40gb        9     0/2        39.25      No     42     2     0   |
|                                                             3     0     0   |
+-----------------------------------------------------------------------------+
"""
INSTANCES = """\
+-------------------------------------------------------+
| GPU instances:                                        |
| GPU   Name             Profile  Instance   Placement  |
|                          ID       ID       Start:Size |
|=======================================================|
|   0  MIG 1g.10gb         19        9          2:1     |
+-------------------------------------------------------+
|   0  MIG 3g.40gb          9        2          4:4     |
+-------------------------------------------------------+
"""


def test_offers_are_read_from_what_nvidia_smi_prints() -> None:
    assert parse_offers(OFFERS) == (
        MigOffer("1g.10gb", 19, 4, 7),
        MigOffer("1g.10gb+me", 20, 1, 1),
        MigOffer("3g.40gb", 9, 0, 2),
    )
    assert parse_offers("No MIG-enabled devices found.\n") == ()


def test_instances_are_read_from_what_nvidia_smi_prints() -> None:
    assert parse_instances(INSTANCES) == (MigInstance("1g.10gb", 9, 2, 1), MigInstance("3g.40gb", 2, 4, 4))


def test_a_plan_to_cut_names_the_profile_by_number_once_per_slice(sliced: Device) -> None:
    plan = plan_create(sliced, "1g.10gb", 2, parse_offers(OFFERS))
    assert plan.lines() == (
        "cut GPU-m into 2 more slices of 1g.10gb",
        "nvidia-smi mig -i GPU-m -cgi 19,19 -C",
    )


@pytest.mark.parametrize(
    ("profile", "count", "words"),
    [
        ("3g.40gb", 1, "room for 0 more of 3g.40gb"),
        ("1g.10gb", 5, "room for 4 more of 1g.10gb"),
        ("4g.20gb", 1, "it offers 1g.10gb, 1g.10gb\\+me, 3g.40gb"),
    ],
)
def test_what_cannot_be_cut_is_refused_with_what_can(sliced: Device, profile: str, count: int, words: str) -> None:
    with pytest.raises(Refused, match=words):
        plan_create(sliced, profile, count, parse_offers(OFFERS))


def test_a_device_out_of_mig_mode_is_not_cut(sliced: Device) -> None:
    with pytest.raises(Refused, match="-mig 1"):
        plan_create(replace(sliced, mig_enabled=False), "1g.10gb", 1, parse_offers(OFFERS))


def test_giving_up_slices_ends_the_compute_instances_first(sliced: Device) -> None:
    assert plan_destroy(sliced, parse_instances(INSTANCES), busy=()).lines() == (
        "give up 2 idle slices of GPU-m",
        "nvidia-smi mig -dci -i GPU-m -gi 2",
        "nvidia-smi mig -dgi -i GPU-m -gi 2",
        "nvidia-smi mig -dci -i GPU-m -gi 9",
        "nvidia-smi mig -dgi -i GPU-m -gi 9",
    )


def test_a_slice_that_a_job_holds_is_not_given_up(sliced: Device) -> None:
    with pytest.raises(Refused, match=r"still use slice 2 \(3g\.40gb\)"):
        plan_destroy(sliced, parse_instances(INSTANCES), busy={2})


class Tool:
    """nvidia-smi, which notes what it was asked for and fails at some of it."""

    def __init__(self, fails_at: str = "-") -> None:
        self.calls: list[str] = []
        self._fails_at = fails_at

    def __call__(self, arguments: tuple[str, ...]) -> str:
        self.calls.append(" ".join(arguments))
        if self._fails_at in arguments:
            raise BackendFailed("In use by client")
        return ""


def test_a_plan_runs_only_where_the_administrator_allows_it(sliced: Device) -> None:
    tool = Tool()
    plan = plan_create(sliced, "1g.10gb", 1, parse_offers(OFFERS))
    with pytest.raises(Forbidden, match="nvidia-smi mig -i GPU-m -cgi 19 -C"):
        carry_out(plan, allowed=False, run=tool)
    assert tool.calls == []
    carry_out(plan, allowed=True, run=tool)
    assert tool.calls == ["mig -i GPU-m -cgi 19 -C"]


def test_a_plan_stops_at_the_first_command_that_fails(sliced: Device) -> None:
    tool = Tool(fails_at="-dgi")
    with pytest.raises(BackendFailed, match="In use by client"):
        carry_out(plan_destroy(sliced, parse_instances(INSTANCES), busy=()), allowed=True, run=tool)
    assert len(tool.calls) == 2
