import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.core.model.jobs.named_values import named_values
from corral.core.model.jobs.sweep import Sweep, with_values, with_values_in_pattern

LR = (("lr", "0.1"), ("seed", "{lr}"))


def test_the_last_parameter_of_a_sweep_changes_fastest() -> None:
    sweep = Sweep({"lr": ("0.1", "0.01"), "seed": ("0", "1")})
    assert sweep.size == 4
    assert list(sweep.elements()) == [
        (("lr", "0.1"), ("seed", "0")),
        (("lr", "0.1"), ("seed", "1")),
        (("lr", "0.01"), ("seed", "0")),
        (("lr", "0.01"), ("seed", "1")),
    ]


def test_zipped_values_are_paired_in_their_order() -> None:
    sweep = Sweep({"lr": ("0.1", "0.01"), "seed": ("4", "5")}, zipped=True)
    assert sweep.size == 2
    assert list(sweep.elements()) == [(("lr", "0.1"), ("seed", "4")), (("lr", "0.01"), ("seed", "5"))]


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("--lr={lr}", "--lr=0.1"),
        ("{lr}{lr}", "0.10.1"),
        ("{seed}", "{lr}"),  # a value is not replaced again
        ('{"lr":{lr}}', '{"lr":0.1}'),
        ("${lr} {{lr}} {LR} {lr } { lr}", "${lr} {{lr}} {LR} {lr } { lr}"),
        ("awk '{print $1}' {} {x} {0} {", "awk '{print $1}' {} {x} {0} {"),
    ],
)
def test_only_the_name_of_a_parameter_in_braces_is_replaced(text: str, filled: str) -> None:
    assert with_values(text, LR) == filled


@given(st.text(alphabet="{}$lrx ", max_size=12))
def test_text_without_the_name_of_a_parameter_stays_as_it_is(text: str) -> None:
    assert with_values(text, (("other", "1"),)) == text


def test_a_percent_sign_of_a_value_is_none_of_a_patterns_placeholders() -> None:
    assert with_values_in_pattern("%j-{lr}.out", (("lr", "5%"),)) == "%j-5%%.out"


def test_a_value_of_several_words_is_quoted_for_people() -> None:
    assert named_values((("lr", "0.1"), ("text", "a b"))) == "lr=0.1 text='a b'"
