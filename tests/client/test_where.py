"""Where a job may run and how fast it is there, as its user writes it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.client.submitting.options import RequestOptions
from corral.client.submitting.request import submission
from corral.client.submitting.where import parse_cuda, parse_labels, parse_speeds, parse_version
from corral.core.model.errors import Refused
from corral.core.model.jobs.job import Request
from corral.core.model.jobs.submission import Submission
from corral.wire import from_plain, to_plain


def test_speeds_are_read_from_words_and_from_numbers_alike() -> None:
    speeds = (("v100", 1.0), ("k80", 0.2), ("p100", 0.0))
    assert parse_speeds("v100=1, k80=0.2,p100=0") == speeds
    assert parse_speeds({"v100": 1, "k80": 0.2, "p100": 0}) == speeds
    assert parse_speeds(None) == ()


@pytest.mark.parametrize("text", ["", "v100", "v100=", "=1", "v100=fast", "v100=-1", "v100=nan", "v100=inf", "a=1,a=2"])
def test_what_is_no_speed_is_refused_by_name(text: str) -> None:
    with pytest.raises(Refused, match=r"^--speed: ") as refused:
        parse_speeds(text, field="--speed")
    assert refused.value.field == "--speed"


def test_labels_come_in_the_order_of_their_keys() -> None:
    assert parse_labels({"zone": "a", "rack": " 7 "}) == (("rack", "7"), ("zone", "a"))


@pytest.mark.parametrize("labels", [{"": "a"}, {"zone": " "}])
def test_half_a_label_is_refused(labels: dict[str, str]) -> None:
    with pytest.raises(Refused, match=r"^label: .* not a label"):
        parse_labels(labels)


@given(st.lists(st.integers(0, 9_999_999), min_size=1, max_size=5))
def test_any_version_can_be_written_and_read(parts: list[int]) -> None:
    assert parse_version(".".join(map(str, parts)), field="min_driver") == tuple(parts)


def test_of_a_cuda_version_two_numbers_count() -> None:
    assert [parse_cuda(text, field="min_cuda") for text in ("12", "12.1", "12.1.105", None)] == [
        (12, 0), (12, 1), (12, 1), None,
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["", "x", "12.", ".1", "12,1", "-1", "12.x", "99999999"])
def test_what_is_no_version_is_refused_by_name(text: str) -> None:
    with pytest.raises(Refused, match=r"^--min-driver: .* write numbers with dots"):
        parse_version(text, field="--min-driver")


def test_what_is_said_of_the_place_reaches_the_server_whole() -> None:
    options: RequestOptions = {
        "gpus": 2,
        "min_driver": "550.54",
        "min_cuda": "12.1",
        "label": {"cuda-major-version": "12"},
        "avoid": ["train"],
        "gang": 4,
        "spread": True,
        "speed": {"v100": 1, "k80": 0.2},
    }
    sent = submission(["true"], options)
    assert sent.request == Request(
        devices=2,
        min_driver=(550, 54),
        min_cuda=(12, 1),
        labels=(("cuda-major-version", "12"),),
        gang_size=4,
        spread=True,
        avoid_jobs=("train",),
    )
    assert sent.speeds == (("v100", 1.0), ("k80", 0.2))
    assert from_plain(Submission, to_plain(sent, compact=True)) == sent


def test_a_gang_has_a_member_at_least() -> None:
    with pytest.raises(Refused, match=r"^gang: 0 is too small"):
        submission(["true"], {"gang": 0})


def test_nodes_are_named_and_excluded_by_lists_and_one_that_is_named_is_sent_as_before() -> None:
    sent = submission(["true"], {"node": ["gpu-[01-02]", "gpu-02,b"], "exclude": "gpu-[07,09]"}).request
    assert sent == Request(nodes=("gpu-01", "gpu-02", "b"), excluded_nodes=("gpu-07", "gpu-09"))
    assert submission(["true"], {"node": "gpu-[03]"}).request == Request(node="gpu-03")
    with pytest.raises(Refused, match=r"^--exclude: 'gpu-\[1' is not a list of nodes"):
        submission(["true"], {"exclude": "gpu-[1"}, spell=lambda name: f"--{name}")
