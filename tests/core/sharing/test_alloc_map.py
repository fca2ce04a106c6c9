"""The map says of each device what is allocated, by the ledger and by the files, and where the two differ."""

import json

from corral.core.model.fact import AllocationMade
from corral.core.model.placing.allocation import Allocation, Grant, Member, Placement
from corral.core.model.placing.split import split
from corral.core.model.view import View
from corral.core.sharing.alloc_map import (
    AllocatedDevice,
    Share,
    alloc_map,
    alloc_map_of_files,
    allocated_device,
    disagreements,
    gpu_alloc_map,
)
from corral.core.sharing.resource_txt import ResourceFile, resource_file

D1, D2 = "c59395cd-ac91-4cd3-a1b0-3d2568aa2d01", "c59395cd-ac91-4cd3-a1b0-3d2568aa2d02"


def allocation(job_id: str, *grants: Grant, node: str = "n1", user: str = "ada") -> Allocation:
    return Allocation(f"a{job_id}", job_id, user, Placement((Member(node, grants),)), created_at=0.0)


def view(*allocations: Allocation) -> View:
    return View().advance(AllocationMade(one, at=0.0, by="test") for one in allocations)


def test_a_fifth_and_six_fifths_of_two_devices_give_the_known_map() -> None:
    first = split(200, [1000, 1000])
    assert isinstance(first, tuple)
    second = split(1200, [1000 - part for part in first])
    assert isinstance(second, tuple)
    held = view(
        allocation("1", *(Grant(uuid, part) for uuid, part in zip((D1, D2), first, strict=True) if part)),
        allocation("2", *(Grant(uuid, part) for uuid, part in zip((D1, D2), second, strict=True) if part)),
    )
    assert json.loads(gpu_alloc_map(alloc_map(held))) == {D1: "0.60", D2: "0.80"}


def test_free_devices_and_other_nodes_are_absent() -> None:
    held = view(allocation("1", Grant("a", 1000)), allocation("2", Grant("b", 250), node="n2"))
    assert alloc_map(held) == {"a": "1.00", "b": "0.25"}
    assert alloc_map(held, "n2") == {"b": "0.25"}
    assert alloc_map(view()) == {}


def test_each_device_knows_its_jobs_and_their_owners() -> None:
    held = view(allocation("1", Grant("a", 250, 2048)), allocation("2", Grant("a", 500), user="bob"))
    assert allocated_device(held, "a") == AllocatedDevice(
        "a", (Share("1", "ada", 250, 2048), Share("2", "bob", 500, None))
    )
    assert allocated_device(held, "a").allocated_milli == 750
    assert allocated_device(held, "z") == AllocatedDevice("z", ())


def test_files_give_the_same_map_as_the_ledger() -> None:
    files = [resource_file([Grant(D1, 600), Grant(D2, 600)]), resource_file([Grant(D2, 200)])]
    assert alloc_map_of_files(files) == {D1: "0.60", D2: "0.80"}


def test_ledger_and_files_that_agree_have_nothing_to_say() -> None:
    grants = (Grant("a", 600), Grant("b", 600))
    assert disagreements({"1": {"a": 600, "b": 600}, "2": {}}, {"1": resource_file(grants)}) == ()


def test_a_slice_that_is_held_by_ledger_and_file_alike_is_no_disagreement() -> None:
    grants = (Grant("MIG-a/3/0", 1000),)
    file = resource_file(grants, mig_profile="1g.10gb")
    assert disagreements({"1": {"MIG-a/3/0": 1000}}, {"1": file}) == ()
    assert len(disagreements({"1": {}}, {"1": file})) == 1


def test_each_disagreement_is_named() -> None:
    ledger = {"1": {"a": 600}, "2": {"b": 500}, "4": {"d": 100}}
    files = {"2": resource_file([Grant("b", 250), Grant("c", 250)]), "3": resource_file([Grant("a", 100)])}
    files["4"] = resource_file([Grant("d", 100)])
    assert disagreements(ledger, files) == (
        "job 1 has an allocation and no resource file; the ledger counts",
        "job 2 holds 0.5 of b by the ledger and 0.25 by its resource file; the ledger counts",
        "job 2 holds 0 of c by the ledger and 0.25 by its resource file; the ledger counts",
        "job 3 has a resource file and no allocation in the ledger; the ledger counts",
    )


def test_a_file_that_names_ever_so_many_devices_is_told_of_in_few_printable_sentences() -> None:
    hostile = ResourceFile((), (("cuda.shares", tuple((f"\x1b[31m{n}" + "x" * 500, "1") for n in range(9000))),))
    said = disagreements({"7": {"GPU-1": 1000}}, {"7": hostile})
    assert len(said) == 17
    assert said[-1] == "job 7: ledger and resource file differ in 8985 devices more; the ledger counts"
    assert all(one.isprintable() and len(one) < 1000 for one in said)
