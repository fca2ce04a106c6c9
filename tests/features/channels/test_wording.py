"""What people and programs are told of an alert, whatever users have written into it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.core.model.severity import Severity
from corral.features.channels.message import AlertMessage, AlertState
from corral.features.channels.wording import MOST_CHARACTERS, as_one, harmless, in_name_of, outgoing


def message(number: int, state: AlertState = AlertState.FIRED) -> AlertMessage:
    sentence = f"GPU {number} is 91 °C."
    labels = (("gpu", str(number)),)
    return AlertMessage(
        f"id{number}", "temperature", Severity.CRITICAL, f"device GPU-{number}", state, 5.0, 6.0, 91.0, sentence,
        labels, "temperature gpu-01", "temperature_c",
    )  # fmt: skip


def test_a_program_gets_every_field_and_a_person_a_sentence() -> None:
    told = outgoing(message(3), since=1_795_353_251.5)
    assert told.fields == {
        "id": "id3", "name": "temperature", "severity": "critical", "state": "fired", "subject": "device GPU-3",
        "measure": "temperature_c", "value": 91.0, "since": 1_795_353_251.5, "sentence": "GPU 3 is 91 °C.",
        "labels": {"gpu": "3"},
    }  # fmt: skip
    assert told.title == "[critical] temperature: device GPU-3"
    assert told.body == "GPU 3 is 91 °C.\nsince 2026-11-22 13:14:11 UTC, alert id3"
    assert (told.id, told.type) == ("id3:fired", "failure")


def test_what_is_over_is_good_news_under_an_id_of_its_own() -> None:
    over = outgoing(message(3, AlertState.RESOLVED), since=5.0)
    assert (over.id, over.type, over.title) == ("id3:resolved", "success", "[resolved] temperature: device GPU-3")


def test_who_has_a_name_signs_what_it_tells_and_calls_nobody_by_it() -> None:
    told = outgoing(message(3), since=5.0)
    assert in_name_of(None, told) is told
    signed = in_name_of("GPU-Cluster-01", told)
    assert signed.title == "GPU-Cluster-01: [critical] temperature: device GPU-3"
    assert signed.fields == {**told.fields, "cluster": "GPU-Cluster-01"}
    assert (signed.id, signed.body) == (told.id, told.body)
    assert "@channel" not in in_name_of("@channel", told).title


def test_several_are_told_to_people_as_one_with_a_sentence_each() -> None:
    several = [outgoing(message(number), since=5.0) for number in range(8)]
    told = as_one(several)
    assert told.title == "[critical] temperature: device GPU-0 and 7 more"
    assert told.body.splitlines() == [f"- GPU {number} is 91 °C." for number in range(8)]
    assert as_one(several[:1]) is several[0]


@pytest.mark.parametrize(
    "text", ["@everyone", "hi @HERE", "<!channel>", "<@U123>", "[a](http://b)", "<script>", "a\x1b[2J"]
)
def test_a_name_of_a_job_calls_nobody_and_hides_no_link(text: str) -> None:
    assert text not in harmless(f"Job 1 ({text}) has ended.")


@given(st.text(max_size=3 * MOST_CHARACTERS))
def test_any_text_stays_bounded_and_printable(text: str) -> None:
    told = harmless(text)
    assert all(line.isprintable() for line in told.split("\n"))
    assert len(told) <= 12 * MOST_CHARACTERS
