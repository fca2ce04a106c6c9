"""What others chose is shown, and never obeyed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.core.model.printable import printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("train.py --lr 0.1", "train.py --lr 0.1"),
        ("Größe 模型 🚀", "Größe 模型 🚀"),
        ("\x1b[2Jgone", "\\x1b[2Jgone"),
        ("one\nline\tonly", "one\\nline\\tonly"),
        ("\x9b31m", "\\x9b31m"),
        ("abc\u202edcba", "abc\\u202edcba"),
        ("\udc80", "\\udc80"),
    ],
)
def test_what_a_terminal_would_obey_is_shown_as_its_escape(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(st.text())
def test_nothing_else_comes_out_than_printable_text(text: str) -> None:
    assert printable(text).isprintable()
