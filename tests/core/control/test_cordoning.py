"""Nodes are cordoned, drained and uncordoned by administrators, and keep their reason."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from corral.clock import ManualClock
from corral.core.access.caller import Caller
from corral.core.control.nodes.cordoning import LONGEST_DEADLINE_S, NodeCordons
from corral.core.ledger.store import SqlLedger, open_ledger
from corral.core.model.errors import Forbidden, NotFound, Refused
from corral.core.ports.ledger import Decided
from corral.core.ports.telemetry import Contact, NodeContact
from tests.core.scheduling.lab import T0, box, observed

ALICE, ROOT = Caller("alice", 1000), Caller("root", 0, admin=True)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[SqlLedger]:
    opened = open_ledger(f"sqlite:///{tmp_path / 'ledger.db'}")
    opened.observe(observed(box("a", 2), box("b", 2)))  # type: ignore[arg-type]
    opened.commit(lambda _: Decided((), None)).result()
    yield opened
    opened.close()


@pytest.fixture
def cordons(ledger: SqlLedger) -> NodeCordons:
    """Of the nodes a and b, and of c, which never answered."""
    return NodeCordons(ledger, ManualClock(T0), lambda: (NodeContact("c", Contact.SILENT, None),))


def states(cordons: NodeCordons) -> dict[str, str]:
    return {row.name: row.state for row in cordons.nodes()}


def test_only_administrators_change_which_nodes_take_jobs(cordons: NodeCordons, ledger: SqlLedger) -> None:
    with pytest.raises(Forbidden, match="cordoning a node is for administrators"):
        cordons.cordon("a", "", ALICE)
    with pytest.raises(Forbidden, match="draining a node is for administrators"):
        cordons.drain("a", "", None, ALICE)
    with pytest.raises(Forbidden, match="uncordoning a node is for administrators"):
        cordons.uncordon("a", ALICE)
    assert ledger.journal() == ()


def test_a_node_is_set_apart_until_it_is_given_back(cordons: NodeCordons) -> None:
    row = cordons.cordon("a", "kernel update", ROOT)
    assert (row.name, row.state, row.reason) == ("a", "cordoned", "cordoned by root: kernel update")
    assert states(cordons)["b"] == "ready"
    row = cordons.uncordon("a", ROOT)
    assert (row.state, row.reason) == ("ready", None)


def test_a_reason_stays_where_none_is_given_later(cordons: NodeCordons) -> None:
    cordons.cordon("a", "kernel update", ROOT)
    assert cordons.drain("a", "", 60.0, ROOT).reason == "drained by root: kernel update"
    assert cordons.cordon("a", "", ROOT).reason == "cordoned by root: kernel update"
    assert cordons.cordon("a", "new disk", ROOT).reason == "cordoned by root: new disk"


def test_the_deadline_of_a_drain_counts_from_now(cordons: NodeCordons, ledger: SqlLedger) -> None:
    cordons.drain("a", "", 1800.0, ROOT)
    cordons.drain("b", "", None, ROOT)
    assert {name: cordon.deadline for name, cordon in ledger.view().node_cordons.items()} == {
        "a": T0 + 1800.0, "b": None,
    }  # fmt: skip


@pytest.mark.parametrize("deadline_s", [-1.0, LONGEST_DEADLINE_S + 1.0, float("nan"), float("inf")])
def test_a_deadline_that_is_none_is_refused(cordons: NodeCordons, ledger: SqlLedger, deadline_s: float) -> None:
    with pytest.raises(Refused) as refused:
        cordons.drain("a", "", deadline_s, ROOT)
    assert (refused.value.field, ledger.journal()) == ("deadline_s", ())


def test_a_node_that_does_not_exist_is_not_found(cordons: NodeCordons, ledger: SqlLedger) -> None:
    with pytest.raises(NotFound, match="there is no node d"):
        cordons.cordon("d", "", ROOT)
    assert ledger.journal() == ()


def test_a_node_that_never_answered_is_listed_and_can_be_set_apart(cordons: NodeCordons) -> None:
    assert list(states(cordons)) == ["a", "b", "c"]
    assert cordons.cordon("c", "to be sent back", ROOT).state == "cordoned"
