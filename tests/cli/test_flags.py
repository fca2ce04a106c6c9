import pytest

from corral.cli.commands.job_options import DeviceFlags, JobFlags, SubmitFlags
from corral.cli.jobs.flags import filled, options_of, parse_words
from corral.client import Client
from corral.core.model.errors import Refused

NOWHERE = Client("/nonexistent")


def test_only_what_was_said_is_an_option_and_zero_is_said() -> None:
    assert options_of(JobFlags(), NOWHERE) == {}
    assert options_of(JobFlags(gpus=0, priority=0, retries=0), NOWHERE) == {"gpus": 0, "priority": 0, "retries": 0}
    assert options_of(SubmitFlags(hold=True, name=""), NOWHERE) == {"hold": True, "name": ""}


def test_what_is_said_wins_over_what_is_filled_in_even_when_it_is_zero() -> None:
    assert filled(SubmitFlags(gpus=0), SubmitFlags(gpus=2, name="n", hold=True)) == SubmitFlags(
        gpus=0, name="n", hold=True
    )


def test_words_are_read_as_on_a_command_line() -> None:
    read = parse_words(
        JobFlags, ["--gpus", "2", "--after", "7", "--after=9", "--env", "A=b=c", "--cpus", "1.5"], "here"
    )
    assert (read.gpus, read.after, read.env, read.cpus) == (2, ["7", "9"], ["A=b=c"], 1.5)
    assert options_of(read, NOWHERE)["env"] == {"A": "b=c"}


@pytest.mark.parametrize("words", [["--gpuz", "1"], ["--gpus"], ["--gpus", "x"], ["stray"]])
def test_a_mistake_in_words_names_where_they_stand(words: list[str]) -> None:
    with pytest.raises(Refused, match=r"^here: "):
        parse_words(DeviceFlags, words, "here")


@pytest.mark.parametrize("given", ["=b", ""])
def test_a_variable_has_a_name(given: str) -> None:
    with pytest.raises(Refused, match="NAME=VALUE"):
        options_of(JobFlags(env=[given]), NOWHERE)


def test_a_variable_without_a_value_has_that_of_the_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A", "of the shell")
    assert options_of(JobFlags(env=["A", "B="]), NOWHERE) == {"env": {"A": "of the shell", "B": ""}}
    monkeypatch.delenv("A")
    with pytest.raises(Refused, match="--env: A is not set here"):
        options_of(JobFlags(env=["A"]), NOWHERE)


def test_a_gpu_named_by_its_uuid_needs_no_server() -> None:
    assert options_of(DeviceFlags(device=["GPU-a"]), NOWHERE) == {"device": ["GPU-a"]}


def test_where_a_job_may_run_is_read_from_words() -> None:
    words = [
        "--speed",
        "v100=1,k80=0.2",
        "--label",
        "zone=a",
        "--label=cuda-major-version=12",
        "--min-driver",
        "550.54",
    ]
    words += ["--min-cuda", "12.1", "--gang", "2", "--one-node", "--avoid", "train", "--avoid=serve"]
    assert options_of(parse_words(SubmitFlags, words, "here"), NOWHERE) == {
        "speed": "v100=1,k80=0.2",
        "label": {"zone": "a", "cuda-major-version": "12"},
        "min_driver": "550.54",
        "min_cuda": "12.1",
        "gang": 2,
        "one_node": True,
        "avoid": ["train", "serve"],
    }


@pytest.mark.parametrize("given", [["zone"], ["=a"], ["zone="], ["zone=a", "zone=b"]])
def test_a_label_has_a_key_and_one_value(given: list[str]) -> None:
    with pytest.raises(Refused, match=r"^--label: "):
        options_of(DeviceFlags(label=given), NOWHERE)


def test_a_nice_value_that_was_given_goes_before_a_priority_that_was_not_and_the_other_way_round() -> None:
    assert filled(SubmitFlags(nice=100), SubmitFlags(priority=3)).priority is None
    assert filled(SubmitFlags(priority=3), SubmitFlags(nice=100)).nice is None
    assert filled(SubmitFlags(), SubmitFlags(nice=100)).nice == 100
