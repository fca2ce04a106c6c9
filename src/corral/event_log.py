"""The log of a server or an agent: a line an event."""

import logging
import sys
from typing import Any

from corral.model.printable import printable


class LogFormat(logging.Formatter):
    """What users chose (a name, a path) can neither begin another line nor command a terminal."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - a name of the standard library's
        record.message = printable(record.message)
        return super().formatMessage(record)

    def formatException(self, ei: Any) -> str:  # noqa: N802
        """The traceback, indented: no line of it passes for an event."""
        return "\n".join(f"    {printable(line)}" for line in super().formatException(ei).splitlines())


def log_to_stderr() -> None:
    """Have this process log there, from INFO on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LogFormat("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
