"""Whatever goes wrong with what a user wrote stays with that one thing, and is logged once."""

import json
import logging
import os
from collections.abc import Callable
from threading import Thread

import pytest

from corral.untrusted import Unread, guarded


class Hostile(Exception):
    """An error whose own words are hostile."""

    def __str__(self) -> str:
        return "\x1b]0;owned\x07\udc80" + "x" * 100_000


def _raise(error: BaseException) -> None:
    raise error


@pytest.mark.parametrize(
    ("read", "kind"),
    [
        (lambda: int("9" * 5000), "ValueError"),
        (lambda: json.loads("[" * 100_000), "RecursionError"),
        ("\udc80".encode, "UnicodeEncodeError"),
        (lambda: float(10**400), "OverflowError"),
        (lambda: bytes(1 << 60), "MemoryError"),
        (lambda: os.stat("a\0b"), "ValueError"),
        (lambda: _raise(Hostile()), "Hostile"),
    ],
)
def test_anything_that_goes_wrong_is_a_value(read: Callable[[], object], kind: str) -> None:
    found = guarded(f"the log of job {kind}", read)
    assert isinstance(found, Unread)
    assert str(found) == f"could not be read ({kind})"


def test_what_can_be_read_is_what_was_read() -> None:
    assert guarded("the log of job 1", lambda: None) is None
    assert guarded("the log of job 1", lambda: 7) == 7


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3)])
def test_an_order_to_end_is_no_trouble_of_what_was_read(error: BaseException) -> None:
    with pytest.raises(type(error)):
        guarded("the log of job 1", lambda: _raise(error))


def test_it_is_logged_once_in_printable_words_that_say_where(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            guarded("the log of job 4711", lambda: _raise(Hostile()))
    (record,) = caplog.records
    said = record.getMessage()
    assert said.startswith("the log of job 4711 could not be read, and counts as unreadable: Hostile: ")
    assert said.isprintable()
    assert len(said) < 1000
    assert "test_untrusted.py:" in said


def test_many_that_cannot_be_read_at_once_take_no_memory_and_end_no_thread(caplog: pytest.LogCaptureFixture) -> None:
    ended: list[int] = []

    def read(first: int) -> None:
        for number in range(first, first + 1500):
            guarded(f"thing {number}", lambda: _raise(Hostile()))
        ended.append(first)

    threads = [Thread(target=read, args=(first,)) for first in (0, 10_000)]
    with caplog.at_level(logging.CRITICAL):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(ended) == [0, 10_000]
