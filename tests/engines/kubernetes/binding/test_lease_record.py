"""Who may take the lease of a scheduler name, and what its object says."""

import pytest

from corral.engines.kubernetes.binding.lease_record import (
    DURATION_S,
    LONGEST_S,
    SURE_S,
    LeaseCandidate,
    LeaseRecord,
    LeaseStep,
    lease_name,
    made,
    next_step,
    read_lease,
    released,
    renewed,
    taken,
)

ME = LeaseCandidate("gpu-01_aaaa_1", "aaaa", "boot-1:7:9", "root@gpu-01:/root/.corral")
OTHER = LeaseCandidate("gpu-02_bbbb_1", "bbbb", "boot-2:7:9", "root@gpu-02:/root/.corral")
NOW = "2026-01-02T03:04:05.000006Z"


def lease_of(candidate: LeaseCandidate) -> LeaseRecord:
    return read_lease(made("corral", candidate, NOW))


def test_its_holder_renews_it_and_others_wait_until_they_saw_no_renewal_for_as_long_as_it_lasts() -> None:
    record = lease_of(OTHER)
    assert next_step(record, OTHER, 1000.0) is LeaseStep.RENEW
    assert next_step(record, ME, DURATION_S - 0.1) is LeaseStep.WAIT
    assert next_step(record, ME, DURATION_S) is LeaseStep.TAKE


def test_what_was_released_is_taken_at_once() -> None:
    item = made("corral", OTHER, NOW)
    item["spec"] |= released(read_lease(item))["spec"]
    assert next_step(read_lease(item), ME, 0.0) is LeaseStep.TAKE


def test_an_earlier_process_of_the_same_home_is_not_waited_for_and_a_copy_of_the_home_is() -> None:
    earlier = LeaseCandidate("gpu-01_aaaa_0", ME.tag, ME.home, ME.where)
    copied = LeaseCandidate("gpu-01_aaaa_0", ME.tag, "boot-1:7:10", ME.where)
    assert next_step(lease_of(earlier), ME, 0.0) is LeaseStep.TAKE
    assert next_step(lease_of(copied), ME, 0.0) is LeaseStep.WAIT


def test_a_holder_stops_before_anybody_else_begins() -> None:
    assert SURE_S < DURATION_S


def test_a_renewal_is_seen_whatever_the_clocks_say() -> None:
    item = made("corral", OTHER, NOW)
    before = read_lease(item)
    item["spec"] |= renewed(before, "1999-01-01T00:00:00.000000Z")["spec"]
    assert read_lease(item).seen != before.seen


def test_who_takes_it_counts_and_changes_that_version_alone() -> None:
    item = made("corral", OTHER, NOW)
    item["metadata"]["resourceVersion"] = "17"
    change = taken(read_lease(item), "corral", ME, NOW)
    assert change["metadata"]["resourceVersion"] == "17"
    assert change["spec"]["leaseTransitions"] == 1
    assert read_lease(change).holder == ME.identity


@pytest.mark.parametrize(
    "spec",
    [
        {"holderIdentity": "x" * 10_000, "leaseDurationSeconds": 10**9, "leaseTransitions": 10**12},
        {"holderIdentity": 5, "leaseDurationSeconds": -3, "leaseTransitions": "many", "acquireTime": "\x1b[2J"},
        {},
    ],
)
def test_what_makes_no_sense_keeps_nobody_from_it_for_long(spec: dict[str, object]) -> None:
    record = read_lease({"metadata": {"annotations": []}, "spec": spec})
    assert 1 <= record.duration_s <= LONGEST_S
    assert str(record).isprintable()
    assert taken(record, "corral", ME, NOW)["spec"]["leaseTransitions"] < 1 << 31


def test_schedulers_have_leases_of_their_own_with_names_that_are_allowed() -> None:
    schedulers = ["corral", "Corral", "team-a", "a..b", "-x", "a.-b", "x" * 253]
    names = [lease_name(one) for one in schedulers]
    assert len(set(names)) == len(schedulers)
    assert all(name == name.lower() and ".." not in name and len(name) <= 253 for name in names)
