"""What must never happen on a node is noted as it happens, whatever the ledger says."""

from corral.core.model.view import View
from corral.sim.faults.witness import Witness
from tests.host.node.conftest import a_launch


def test_a_device_that_two_launches_use_at_once_is_told() -> None:
    witness = Witness()
    witness.began("a", a_launch(1, "true", uuid="GPU-0"))
    witness.began("a", a_launch(2, "true", uuid="GPU-1"))
    assert witness.broken == []
    witness.began("a", a_launch(3, "true", uuid="GPU-0"))
    assert witness.broken == ["2000 milli of GPU-0 are used at once, by 1.1, 3.1"]


def test_a_launch_that_has_ended_uses_nothing() -> None:
    witness = Witness()
    witness.began("a", a_launch(1, "true", uuid="GPU-0"))
    witness.ended("1.1", 0)
    witness.began("a", a_launch(2, "true", uuid="GPU-0"))
    assert witness.broken == []
    assert witness.ends == {"1.1": 0}


def test_a_launch_that_begins_twice_is_told() -> None:
    witness = Witness()
    witness.began("a", a_launch(1, "true"))
    witness.ended("1.1", 0)
    witness.began("b", a_launch(1, "true"))
    assert witness.broken == ["launch 1.1 ran 2 times"]


def test_a_launch_beside_one_that_the_ledger_has_given_up_is_told() -> None:
    witness = Witness()
    witness.view = View
    witness.began("a", a_launch(1, "true"))
    witness.began("b", a_launch(2, "true"))
    assert witness.broken == []
    witness.began("a", a_launch(3, "true"))
    assert witness.broken == ["launch 3.1 began on a while 1.1, long given up, ran there"]
