"""`corral top`: devices and jobs on the whole terminal, live."""

import importlib.util
import os
import shutil
import sys
import time

from corral.cli.commands import looking
from corral.cli.screen import painted, write_painted
from corral.client import Client
from corral.core.model.errors import CorralError, Refused


def top(given: looking.TopCommand) -> None:
    """Run `corral top`."""
    if given.once:
        write_painted(*_frame())
        return
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise Refused("top needs a terminal; `corral top --once` prints one frame as text", field="--once")
    if os.environ.get("TERM") == "dumb":
        raise Refused(
            "top needs a terminal whose cursor can be moved, and TERM=dumb says that this one's cannot; "
            "`corral top --once` prints one frame as text",
            field="--once",
        )
    _require_textual()
    with Client() as client:
        # An absent server, or a missing permission, must be reported before the terminal is taken.
        client.server()
    from corral.tui.app import TopApp

    TopApp().run()


def _frame() -> list[str]:
    from corral.tui.board import Board
    from corral.tui.feed import read_past, read_snapshot, read_waits
    from corral.tui.frame import frame_lines, shown_devices

    columns, rows = shutil.get_terminal_size((80, 24))
    columns = max(40, columns)
    board, now = Board(), time.time()
    with Client() as client:
        board.apply([read_snapshot(client), read_waits(client)])
        board.apply(read_past(client, uuid, now) for uuid in shown_devices(board, rows))
    lines = frame_lines(board, columns, rows, now)
    return ["".join(text if style is None else painted(text, style) for text, style in line) for line in lines]


def _require_textual() -> None:
    """Raise CorralError if the extra `top` is not installed, with the command that adds it."""
    if importlib.util.find_spec("textual") is None:
        from corral.cli.server_part import install_command

        raise CorralError(
            f"`corral top` needs the package textual, which is not installed; install it: {install_command('top')}; "
            "`corral top --once` and `corral status --watch` work without"
        )
