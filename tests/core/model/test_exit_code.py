"""An exit code that says that a signal ended something is told with the signal's name and what it means."""

import pytest

from corral.core.model.runs.exit_code import exit_code_in_words


@pytest.mark.parametrize(
    ("exit_code", "signal", "words"),
    [
        (139, 11, "exit code 139 (SIGSEGV: it read or wrote memory that is not its own)"),
        (139, None, "exit code 139 (as after SIGSEGV: it read or wrote memory that is not its own)"),
        (138, 10, "exit code 138 (SIGUSR1)"),
        (172, 44, "exit code 172 (signal 44)"),
        (1, None, "exit code 1"),
        (0, None, "exit code 0"),
    ],
)
def test_an_exit_code_is_told_with_its_signal(exit_code: int, signal: int | None, words: str) -> None:
    assert exit_code_in_words(exit_code, signal) == words


@pytest.mark.parametrize("exit_code", [127, 128, 129, 138, 192, 193, 200, 245, 255])
def test_a_code_that_programs_choose_themselves_is_taken_for_no_signal(exit_code: int) -> None:
    assert exit_code_in_words(exit_code) == f"exit code {exit_code}"


def test_brief_words_name_the_signal_only() -> None:
    assert exit_code_in_words(134, 6, brief=True) == "exit code 134 (SIGABRT)"
