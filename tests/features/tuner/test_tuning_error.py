"""What is told of why a task or an experiment failed."""

from hypothesis import given
from hypothesis import strategies as st

from corral.features.tuner.model.tuning_error import for_everybody, shortened


def test_everybody_is_told_the_first_line() -> None:
    assert for_everybody("it died:\na secret\nanother") == "it died:"
    assert for_everybody(None) is None


@given(st.text("ab\n"), st.integers(4, 40))
def test_a_shortened_error_begins_as_it_did_and_ends_as_it_did(error: str, most: int) -> None:
    short = shortened(error, most)
    assert len(short) == min(len(error), most)
    first = for_everybody(short) or ""
    assert (for_everybody(error) or "").startswith(first)
    if "\n" in error:
        assert error.endswith(short.partition("\n")[2])
