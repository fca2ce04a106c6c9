import pytest

from corral.core.model.answers.devices import DeviceRow
from tests.api.world import UUIDS, Served


def test_every_device_is_listed_with_just_the_promised_keys(served: Served) -> None:
    rows = served.call("GET", "/devices").data["devices"]
    assert [row["uuid"] for row in rows] == list(UUIDS)
    assert sorted(rows[0]) == sorted(DeviceRow.__dataclass_fields__)


@pytest.mark.parametrize("name", ["1", UUIDS[1]])
def test_a_device_is_set_apart_and_given_back_by_index_or_uuid(served: Served, name: str) -> None:
    (row,) = served.call("POST", f"/devices/{name}/cordon", {"reason": "fan"}).data["devices"]
    assert (row["uuid"], row["state"]) == (UUIDS[1], "cordoned")
    assert "fan" in row["state_reason"]
    (row,) = served.call("POST", f"/devices/{name}/uncordon").data["devices"]
    assert row["state"] != "cordoned"


def test_a_device_that_does_not_exist_is_not_found_even_with_a_slash_in_its_name(served: Served) -> None:
    for name in ("9", "MIG-GPU-0%2F1%2F0"):
        assert served.call("POST", f"/devices/{name}/cordon", {}).error["kind"] == "not_found"


def test_the_server_tells_about_itself(served: Served) -> None:
    assert served.call("GET", "/server").data["home"] == str(served.world.home.root)


def test_health_is_for_everyone(served: Served) -> None:
    assert served.call_tcp("GET", "/health", token=None).data == {"status": "ok"}


def test_fair_shares_are_told_with_their_half_life_and_formula(served: Served) -> None:
    told = served.call("GET", "/fair-shares").data
    assert (told["half_life_s"], told["rows"]) == (7 * 86400, [])
    assert "0.5 ^ (age / half-life)" in told["formula"]


def test_usage_is_told_for_a_period_and_bad_questions_are_refused_by_field(served: Served) -> None:
    told = served.call("GET", "/usage?by=queue&since=0").data
    assert (told["by"], told["since"], told["total"]["gpu_hours"]) == ("queue", 0, 0)
    for question, field in (("by=team", "by"), ("since=99999999999", "since"), ("since=soon", "since"), ("x=1", "x")):
        refused = served.call("GET", f"/usage?{question}")
        assert (refused.status, refused.error["field"]) == (422, field), question


def test_a_second_cordon_keeps_the_reason_unless_it_has_one_of_its_own(served: Served) -> None:
    def reason(given: str | None) -> str:
        (row,) = served.call("POST", "/devices/1/cordon", {} if given is None else {"reason": given}).data["devices"]
        return str(row["state_reason"])

    assert [reason("fan"), reason(None), reason(""), reason("smoke"), reason(None)] == ["fan"] * 3 + ["smoke"] * 2
    served.call("POST", "/devices/1/uncordon")
    assert reason(None) == "None"


def test_the_settings_are_reloaded_and_the_answer_says_what_changed(served: Served) -> None:
    served.world.home.config_file.write_text("max_queue_size: 7\nkill_grace: 5s\n")
    answer = served.call("POST", "/config/reload")
    assert (answer.status, answer.data) == (
        200,
        {
            "changed": [{"setting": "max_queue_size", "old": "100000", "new": "7"}],
            "after_restart": [{"setting": "kill_grace", "old": "10s", "new": "5s"}],
            "remarks": [],
        },
    )


def test_settings_with_a_mistake_are_refused_with_its_line(served: Served) -> None:
    served.world.home.config_file.write_text("max_queue_size: 7\nkil_grace: 5s\n")
    answer = served.call("POST", "/config/reload")
    assert answer.status == 422
    assert (
        "config.yaml, line 2: kil_grace is not a setting; did you mean 'kill_grace'?" in answer.data["error"]["message"]
    )
    assert served.world.ledger.view().limits.max_queue_size is None


def test_the_listing_of_queues_tells_what_is_left(served: Served) -> None:
    assert served.call("POST", "/config/reload").data == {"changed": [], "after_restart": [], "remarks": []}
    (row,) = served.call("GET", "/queues").data["queues"]
    assert (row["name"], row["kind"], row["left_milli"]) == ("default", "queue", None)
    assert row["quota"]["share_milli"] is None
