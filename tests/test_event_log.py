"""The log of a server."""

import io
import logging

from corral.event_log import LogFormat


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
