import json

import pytest

from corral.core.model.answers.site import NodeRow
from corral.core.model.devices.device import Device, Node, Silence
from corral.core.model.fact import NodeObserved, SilenceObserved
from corral.core.ports.ledger import Decided
from tests.api.world import UUIDS, Served


@pytest.fixture
def two_nodes(served: Served) -> Served:
    """A second node with a device of the same index."""
    other = Node("there", (Device("GPU-22222222", 1, "Mock GPU", 16384),), 8000, 32768, labels=(("zone", "b"),))
    served.world.ledger.observe([NodeObserved(other)])
    served.world.ledger.commit(lambda _: Decided((), None)).result()
    return served


def states(served: Served) -> dict[str, str]:
    return {row["name"]: row["state"] for row in served.call("GET", "/nodes").data["nodes"]}


def test_every_node_is_listed_with_just_the_promised_keys(two_nodes: Served) -> None:
    here, there = two_nodes.call("GET", "/nodes").data["nodes"]
    assert sorted(here) == sorted(NodeRow.__dataclass_fields__)
    assert (here["name"], here["state"], here["devices"], here["cpus"], here["memory_mib"]) == (
        "here", "ready", 2, 8.0, 32768,
    )  # fmt: skip
    assert there["labels"] == {"zone": "b"}


def test_a_node_is_set_apart_drained_and_given_back(two_nodes: Served) -> None:
    (row,) = two_nodes.call("POST", "/nodes/there/cordon", {"reason": "fan"}).data["nodes"]
    assert (row["state"], row["reason"].endswith(": fan")) == ("cordoned", True)
    assert states(two_nodes) == {"here": "ready", "there": "cordoned"}
    (row,) = two_nodes.call("POST", "/nodes/there/drain", {"deadline_s": 60}).data["nodes"]
    assert row["reason"].startswith("drained by ")
    assert row["reason"].endswith(": fan"), "the reason given before is kept"
    (row,) = two_nodes.call("POST", "/nodes/there/uncordon").data["nodes"]
    assert (row["state"], row["reason"]) == ("ready", None)


def test_devices_of_a_node_that_is_set_apart_say_so(two_nodes: Served) -> None:
    two_nodes.call("POST", "/nodes/here/cordon", {"reason": "fan"})
    rows = two_nodes.call("GET", "/devices").data["devices"]
    assert {row["state_reason"] for row in rows if row["node"] == "here"} == {"fan"}
    assert {row["state"] for row in rows if row["node"] == "here"} == {"cordoned"}


def test_a_node_that_does_not_exist_is_not_found_with_the_nearest(two_nodes: Served) -> None:
    answer = two_nodes.call("POST", "/nodes/ther/cordon", {})
    assert (answer.status, answer.error["kind"]) == (404, "not_found")
    assert "did you mean 'there'?" in answer.error["message"]


@pytest.mark.parametrize("deadline", [-1, 1e12, "soon"])
def test_a_deadline_that_is_none_is_refused_by_its_field(two_nodes: Served, deadline: object) -> None:
    answer = two_nodes.call("POST", "/nodes/there/drain", {"deadline_s": deadline})
    assert (answer.status, answer.error["field"]) == (422, "deadline_s")
    assert states(two_nodes)["there"] == "ready"


def test_an_index_that_several_nodes_have_is_refused_naming_them(two_nodes: Served) -> None:
    answer = two_nodes.call("POST", "/devices/1/cordon", {})
    assert (answer.status, answer.error["field"]) == (422, "device")
    assert "name one of here:1, there:1" in answer.error["message"]
    (row,) = two_nodes.call("POST", "/devices/here:1/cordon", {}).data["devices"]
    assert row["uuid"] == UUIDS[1]
    (row,) = two_nodes.call("POST", "/devices/0/cordon", {}).data["devices"]
    assert row["uuid"] == UUIDS[0], "an index that one node alone has will do"
    assert two_nodes.call("POST", "/devices/there:7/cordon", {}).status == 404


def test_a_node_stays_set_apart_for_a_server_that_starts_anew(two_nodes: Served) -> None:
    two_nodes.call("POST", "/nodes/there/drain", {"reason": "kernel", "deadline_s": 60})
    cordon = two_nodes.world.ledger.view().node_cordons["there"]
    journal = two_nodes.world.ledger.journal()
    assert type(journal[-1].fact).__name__ == "NodeDraining"
    assert (cordon.reason, cordon.draining) == ("kernel", True)
    assert cordon.deadline == cordon.at + 60


def test_a_node_that_does_not_answer_is_lost_for_neighbours(two_nodes: Served) -> None:
    silence = Silence(1.0, "node there has not answered since 14:20:31")
    two_nodes.world.ledger.observe([SilenceObserved("there", silence)])
    two_nodes.world.ledger.commit(lambda _: Decided((), None)).result()
    assert states(two_nodes) == {"here": "ready", "there": "silent"}
    with two_nodes.connection() as connection:
        connection.request("POST", "/graphql", json.dumps({"query": "{ agents { id status } }"}))
        told = json.loads(connection.getresponse().read())["data"]
    assert told == {"agents": [{"id": "here", "status": "ALIVE"}, {"id": "there", "status": "LOST"}]}
