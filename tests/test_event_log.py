"""The log of a server."""

import io
import logging

from corral.event_log import LINES_OF_A_PLACE, PER_S, FewOfAKind, LogFormat


def test_an_event_is_one_line_of_the_log_whatever_its_words() -> None:
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(LogFormat("%(levelname)s %(message)s"))
    logger = logging.getLogger("a server")
    logger.addHandler(handler)
    logger.propagate = False
    logger.warning("job %s: %s", "7\nINFO forged", "\x1b[2J")
    try:
        raise ValueError("one\nINFO forged")
    except ValueError:
        logger.exception("broke")
    lines = written.getvalue().splitlines()
    assert lines[0] == r"WARNING job 7\nINFO forged: \x1b[2J"
    assert [line for line in lines[1:] if not line.startswith("    ")] == ["ERROR broke"]


def test_who_has_one_line_logged_in_a_loop_fills_no_disk_and_the_next_minute_says_how_many_there_were() -> None:
    written, now_s = io.StringIO(), [0.0]
    handler = logging.StreamHandler(written)
    handler.setFormatter(LogFormat("%(message)s"))
    handler.addFilter(FewOfAKind(lambda: now_s[0]))
    logger = logging.getLogger("a flooded server")
    logger.addHandler(handler)
    logger.propagate = False

    def nonsense(count: int) -> str:
        for number in range(count):
            logger.warning("nonsense %d", number)
        return written.getvalue().splitlines()[-1]

    assert nonsense(2 * LINES_OF_A_PLACE) == f"nonsense {LINES_OF_A_PLACE - 1}"
    logger.warning("of another place")
    assert written.getvalue().endswith("of another place\n")
    now_s[0] += PER_S
    assert nonsense(1) == f"nonsense 0 ({LINES_OF_A_PLACE} more like this were left out before)"
    now_s[0] += PER_S
    assert nonsense(1) == "nonsense 0"
