"""The health of devices over HTTP."""

import os
import pwd
from typing import Any

import pytest

from corral.core.model.devices.device import DeviceSample
from corral.core.model.devices.health import DeviceHealth, Health, HealthSign, SignKind, Verdict
from corral.core.model.devices.vitals import Vitals
from corral.core.model.errors import NodeUnreachable
from corral.core.model.fact import AllocationEnded, AllocationMade, DeviceHealthChanged
from corral.core.model.placing.allocation import Allocation, Grant, Member, Placement
from corral.core.ports.ledger import Decided
from corral.host.node.mock.simulated_node import SimulatedHost
from tests.api.world import UUIDS, Served

NOBODY = pwd.getpwuid(65534).pw_name
SICK, WELL = UUIDS


def write(served: Served, *facts: Any) -> None:
    served.world.ledger.commit(lambda _: Decided(facts, None)).result()


def fall_sick(served: Served, *, at: float = 100.0, state: Health = Health.QUARANTINED) -> None:
    health = DeviceHealth(state, "Xid 79: the GPU has fallen off the bus", at, (SignKind.XID,), relapses=1, noted=at)
    write(served, DeviceHealthChanged(SICK, health, ("Xid 79",), at=at, by="corral:health-watch"))


def shows(served: Served, sign: HealthSign) -> None:
    served.world.samples[SICK] = DeviceSample(
        SICK,
        100.0,
        ecc_errors=2,
        temperature_c=41,
        vitals=Vitals(90.0, remap_pending=True, pcie_replays=7),
        signs=(sign,),
    )


ERRORS = HealthSign(SignKind.ECC_UNCORRECTABLE, Verdict.QUARANTINE, "2 memory errors", 90.0, lasts=True)


def test_sick_devices_are_listed_and_every_listing_of_devices_says_so(served: Served) -> None:
    assert served.call("GET", "/device-health").data == {"devices": [], "total": 2}
    fall_sick(served)
    (row,) = served.call("GET", "/device-health").data["devices"]
    assert (row["uuid"], row["health"], row["index"], row["relapses"]) == (SICK, "quarantined", 0, 1)
    sick, well = served.call("GET", "/devices").data["devices"]
    assert (sick["state"], sick["health"]) == ("quarantined", "quarantined")
    assert sick["state_reason"] == sick["health_reason"] == "Xid 79: the GPU has fallen off the bus"
    assert (well["health"], well["health_reason"], well["health_since"]) == ("healthy", None, None)


def test_an_administrators_word_goes_above_the_signs(served: Served) -> None:
    fall_sick(served)
    shows(served, ERRORS)
    row = served.call("POST", "/devices/0/trust").data
    assert (row["health"], row["trusted"]) == ("healthy", ["ecc_uncorrectable"])
    assert served.call("GET", "/devices").data["devices"][0]["state"] == "free"


def test_a_device_is_tested_on_demand_once_its_fault_is_gone(served: Served) -> None:
    fall_sick(served)
    shows(served, ERRORS)
    refused = served.call("POST", f"/devices/{SICK}/probe")
    assert refused.status == 409
    assert "still has its fault (2 memory errors)" in refused.error["message"]
    served.world.samples.clear()
    assert served.call("POST", f"/devices/{SICK}/probe").data["health"] == "probation"


@pytest.mark.skipif(os.geteuid() != 0, reason="only a server of root's has tokens of other users")
def test_users_see_the_health_of_devices_and_change_nothing(served: Served) -> None:
    fall_sick(served)
    token = served.call("POST", "/tokens", {"user": NOBODY}).data["token"]
    assert served.call_tcp("GET", "/device-health", token=token).status == 200
    for what in ("trust", "probe"):
        assert served.call_tcp("POST", f"/devices/0/{what}", token=token).status == 403


def test_the_evidence_has_the_errors_the_counters_the_changes_and_who_ran(served: Served) -> None:
    member = Member("here", (Grant(SICK, 500),))
    now, job = served.clock.now() - 1, served.submit()
    write(served, AllocationMade(Allocation("a", job, "alice", Placement((member,)), now), at=now, by="test"))
    fall_sick(served, at=now)
    shows(served, ERRORS)
    found = served.call("GET", "/devices/0/evidence").data
    assert found["errors"] == ["2 memory errors"]
    counters = {counter["name"]: counter["value"] for counter in found["counters"]}
    assert counters == {
        "uncorrectable_memory_errors": "2",
        "temperature_c": "41",
        "remap_pending": "yes",
        "pcie_replays": "7",
    }
    assert [(change["health"], change["evidence"]) for change in found["changes"]] == [("quarantined", ["Xid 79"])]
    assert [(run["job"], run["user"], run["share_milli"], run["ended_at"]) for run in found["runs"]] == [
        (job, "alice", 500, None)
    ]


def test_the_evidence_has_the_job_whose_time_a_fault_cost_until_it_left_the_device(served: Served) -> None:
    began, job = served.clock.now() - 9, served.submit()
    made = Allocation("a", job, "alice", Placement((Member("here", (Grant(SICK, 1000),)),)), began)
    write(served, AllocationMade(made, at=began, by="test"))
    write(served, AllocationEnded("a", job, unbilled_from=began, at=began + 5, by="test"))
    (run,) = served.call("GET", "/devices/0/evidence").data["runs"]
    assert (run["job"], round(run["ended_at"] - run["began_at"])) == (job, 5)


@pytest.mark.skipif(os.geteuid() != 0, reason="only a server of root's has tokens of other users")
def test_the_drivers_log_is_for_administrators(served: Served) -> None:
    host = LoggingHost(served.world.node)
    served.world.node.parts |= {"host": host}
    token = served.call("POST", "/tokens", {"user": NOBODY}).data["token"]
    assert served.call("GET", "/devices/0/evidence").data["driver_log"] == [f"NVRM: Xid of {SICK}"]
    found = served.call_tcp("GET", "/devices/0/evidence", token=token).data
    assert found["driver_log"] == []
    assert "only administrators" in found["driver_log_missing"]
    host.answers = False
    assert "does not answer" in served.call("GET", "/devices/0/evidence").data["driver_log_missing"]


class LoggingHost(SimulatedHost):
    """A host whose kernel's log has a line about each device, as long as it answers."""

    answers = True

    def driver_log(self, uuid: str) -> tuple[str, ...] | None:
        if not self.answers:
            raise NodeUnreachable("node here does not answer")
        return (f"NVRM: Xid of {uuid}",)


def test_a_sick_device_that_no_node_has_any_more_is_known_by_its_uuid(served: Served) -> None:
    health = DeviceHealth(Health.QUARANTINED, "lost", 1.0, noted=1.0)
    write(served, DeviceHealthChanged("GPU-gone", health, at=1.0, by="corral:health-watch"))
    (row,) = served.call("GET", "/device-health").data["devices"]
    assert (row["uuid"], row["node"]) == ("GPU-gone", None)
    assert served.call("POST", "/devices/GPU-gone/trust").data["health"] == "healthy"
    assert served.call("POST", "/devices/GPU-other/trust").status == 404


def test_metrics_tell_the_health_of_devices_that_were_ever_sick(served: Served) -> None:
    fall_sick(served)
    text = served.world.metrics.text().decode()
    assert 'health="quarantined"} 1' in text
    assert 'health="healthy"} 0' in text
    assert WELL not in text.split("corral_device_health{", 1)[1].split("# HELP")[0]
