import io

import pytest

from corral.formatting.bars import bar


@pytest.mark.parametrize(
    ("part", "drawn"),
    [(0.0, "░░░░"), (0.5, "██░░"), (1.0, "████"), (0.53, "██▏░"), (7.0, "████"), (-1.0, "░░░░"), (None, "????")],
)
def test_a_bar_is_full_in_eighths_of_a_column_and_unknown_is_not_empty(part: float | None, drawn: str) -> None:
    assert bar(part, 4, io.TextIOWrapper(io.BytesIO(), "utf-8")) == drawn


def test_a_terminal_without_blocks_gets_plain_characters() -> None:
    assert bar(0.5, 4, io.TextIOWrapper(io.BytesIO(), "ascii")) == "##.."
