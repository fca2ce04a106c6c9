"""What a soak claims can be seen not to hold."""

from typing import Any

from tests.engines.kubernetes import manifests
from tests.engines.kubernetes.soak.record import SHRUNK_LATELY_S, Record


def record(gpus: int = 4) -> Record:
    made = Record()
    made.hear_of_node("ADDED", manifests.node("a", gpus=gpus))
    return made


def bound(name: str, *, gpus: int = 1, gang_size: int = 1, phase: str = "Running") -> dict[str, Any]:
    pod = manifests.pod(name, "ml", gpus=gpus, node="a")
    marks = {"corral.dev/bound-for": "1.1", "corral.dev/gang": "g", "corral.dev/gang-size": str(gang_size)}
    return pod | {"metadata": {**pod["metadata"], "uid": name, "annotations": marks}, "status": {"phase": phase}}


def test_a_pod_that_is_bound_to_a_full_node_is_told_of() -> None:
    seen = record()
    seen.hear_of_pod("ADDED", bound("one", gpus=3))
    assert not seen.overfull
    seen.hear_of_pod("ADDED", bound("two", gpus=2))
    assert seen.overfull == ["ml/two: 5 devices of a are taken"]


def test_pods_that_have_ended_take_nothing() -> None:
    seen = record()
    seen.hear_of_pod("ADDED", bound("one", gpus=3))
    seen.hear_of_pod("MODIFIED", bound("one", gpus=3, phase="Succeeded"))
    seen.hear_of_pod("ADDED", bound("two", gpus=4))
    assert not seen.overfull


def test_a_node_that_has_lost_devices_just_now_may_still_get_a_pod() -> None:
    seen = record()
    seen.hear_of_node("MODIFIED", manifests.node("a", gpus=1))
    seen.hear_of_pod("ADDED", bound("one", gpus=4))
    assert not seen.overfull


def test_an_outage_is_no_time_in_which_anybody_hears_that_a_node_has_lost_devices() -> None:
    now_s = 1000.0
    seen = Record(lambda: now_s)
    for gpus in (4, 1):
        seen.hear_of_node("MODIFIED", manifests.node("a", gpus=gpus))
    late_s = now_s + SHRUNK_LATELY_S + 10
    assert not seen.fitted("a", 4, late_s)
    now_s = late_s - 1
    seen.was_away(20)
    assert seen.fitted("a", 4, late_s)
    assert not seen.fitted("a", 4, late_s + 20)


def test_a_gang_is_half_bound_until_all_of_it_is() -> None:
    seen = record()
    seen.hear_of_pod("ADDED", bound("one", gang_size=2))
    seen.look_at_halves()
    first_s, gang = seen.longest_half
    assert (first_s > 0, gang) == (True, "g")
    seen.hear_of_pod("ADDED", bound("two", gang_size=2))
    whole_s, _ = seen.longest_half
    seen.look_at_halves()
    assert seen.longest_half == (whole_s, "g")
