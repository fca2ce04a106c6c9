"""Who had more than was needed is told what to ask for."""

from typing import Any

import pytest

from corral.core.model.jobs.job import JobSpec, Request
from corral.core.model.placing.allocation import Member
from corral.core.model.runs.run_history import HeldAllocation
from corral.features.accounting.smaller_requests import command_of, smaller_request
from corral.features.accounting.waste import UnusedGrant

ATTEMPT = HeldAllocation("7.1", "7", "my job", "alice", "p", "q", 0.0, 3600.0, (Member("n", ()),))


@pytest.mark.parametrize(
    ("asked", "found", "flags"),
    [
        ({"devices": 4}, {"devices": 4, "devices_used": 1}, "--gpus 1"),
        ({"devices": 2}, {"devices": 2, "devices_used": 0}, "--gpus 0"),
        ({"devices": 2}, {"devices": 2, "devices_used": 0, "memory_most_mib": 600}, "--gpus 0"),
        ({"devices": 2}, {"devices": 2, "devices_used": 0, "memory_most_mib": 9_000}, "--gpu-mem 11G"),
        ({"devices": 8}, {"devices": 8, "devices_used": 0, "memory_most_mib": 70_000, "oversized": False}, "--gpus 1"),
        ({}, {"memory_most_mib": 9_000}, "--gpu-mem 11G"),
        ({"share_milli": 500, "memory_mib": 40_960}, {"memory_most_mib": 10}, "--gpu-mem 1G"),
        ({"devices": 4, "models": ("H100",)}, {"devices": 4, "memory_most_mib": 9_000}, "--gpus 4 --min-memory 11G"),
        ({"devices": 2, "gang_size": 2}, {"devices": 4, "devices_used": 3}, "--gpus 2 --gang 2"),
    ],
)
def test_the_request_that_would_have_done_is_a_ready_command(
    asked: dict[str, Any], found: dict[str, Any], flags: str
) -> None:
    fields = {"devices": 1, "devices_used": found.get("devices", 1), "memory_most_mib": None, **found}
    one = UnusedGrant(
        ATTEMPT, device_ms=1, idle_ms=0, memory_granted_mib=80_000,
        **{"oversized": fields["memory_most_mib"] is not None} | fields,
    )  # fmt: skip
    spec = JobSpec(
        user="alice",
        name="my job",
        queue="night",
        time_limit_s=5400.0,
        command=("python", "a b.py"),
        request=Request(**asked),
    )
    assert smaller_request(spec, one) == flags
    assert command_of(spec, flags) == (
        f"corral submit {flags} --name 'my job' --queue night --time 1h30m -- python 'a b.py'"
    )
