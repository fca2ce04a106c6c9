"""GPUs chosen for a service are held until its pods have them or the deadline has passed."""

import json

from corral.features.services.holds import HOLD_S, Hold, changes, held_gpus, holds_in, service_key

NOW = 1_800_000_000.0
A = service_key("ome", "team", "a")


def written(*holds: Hold) -> dict[str, str]:
    data: dict[str, str] = {}
    for hold in holds:
        data |= {key: value for key, value in changes(data, NOW, hold).items() if value is not None}
    return data


def hold(service: str = A, gpus: int = 2, until: float = NOW + HOLD_S) -> Hold:
    return Hold(service, "n1", gpus, until)


def test_what_was_written_is_read() -> None:
    assert holds_in(written(hold()), NOW) == [hold()]


def test_a_hold_counts_for_what_the_pods_of_its_service_do_not_have_yet() -> None:
    assert held_gpus([hold()], {}) == {"n1": 2}
    assert held_gpus([hold()], {A: 1})["n1"] == 1
    assert held_gpus([hold()], {A: 4})["n1"] == 0
    assert held_gpus([hold(), hold("ome.team.b", 3)], {})["n1"] == 5
    assert held_gpus([hold()], {}, without=A)["n1"] == 0


def test_pods_on_several_nodes_are_held_on_each_until_they_are_seen() -> None:
    both = Hold(A, "n1", 8, NOW + HOLD_S, ("n2",))
    assert holds_in(written(both), NOW) == [both]
    assert held_gpus([both], {}) == {"n1": 8, "n2": 8}
    assert held_gpus([both], {A: 8}) == {"n1": 0, "n2": 8}
    assert held_gpus([both], {A: 16}) == {"n1": 0, "n2": 0}
    for beside in (7, [7], ["n"] * 1000):
        assert holds_in({A: json.dumps({"node": "n1", "gpus": 1, "until": NOW + 9, "beside": beside})}, NOW) == []


def test_a_hold_ends_with_its_deadline_and_is_removed_by_the_next_that_writes() -> None:
    data = written(hold(until=NOW + 10))
    assert holds_in(data, NOW + 9.0)
    assert holds_in(data, NOW + 10.0) == []
    assert changes(data, NOW + 10.0, None) == {A: None}
    assert changes(data, NOW + 9.0, None) == {}


def test_a_service_that_is_gone_holds_nothing() -> None:
    assert changes(written(hold()), NOW, None, removed=A) == {A: None}


def test_entries_that_make_no_sense_hold_nothing_and_are_removed() -> None:
    until = NOW + HOLD_S
    nonsense = ["", "[]", "7", "{}", '{"node": 1, "gpus": 1, "until": 2}', "null", '{"until": NaN}']
    nonsense += [json.dumps({"node": "n1", "gpus": gpus, "until": until}) for gpus in (0, -1, True, 1.5, "2", 10**9)]
    nonsense += [json.dumps({"node": "n1", "gpus": 1, "until": moment}) for moment in (1e300, "x", until * 2, None)]
    data = {f"k{number}": text for number, text in enumerate(nonsense)}
    assert holds_in(data, NOW) == []
    assert changes(data, NOW, None) == dict.fromkeys(data)
