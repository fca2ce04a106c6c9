"""A terminal of a command's own; the node agent has the other end."""

import os
import termios

# Not in the standard library: input is UTF-8, so that one backspace erases one character.
_IUTF8 = 0o40000


def open_terminal(rows: int, columns: int, uid: int) -> tuple[int, int]:
    """The agent's end, which does not block, and the command's, which its user `uid` (-1: the server's) may open.

    Raises OSError if the machine has no (more) terminals.
    """
    ours, programs = os.openpty()
    try:
        os.set_blocking(ours, False)
        # No other user may write to it, as wall(1) and write(1) do to most terminals.
        os.fchmod(programs, 0o600)
        if uid != -1:
            os.fchown(programs, uid, -1)
        modes = termios.tcgetattr(programs)
        modes[0] |= _IUTF8
        termios.tcsetattr(programs, termios.TCSANOW, modes)
        resize(ours, rows, columns)
    except BaseException:
        os.close(ours)
        os.close(programs)
        raise
    return ours, programs


def resize(terminal: int, rows: int, columns: int) -> None:
    """Set its size; the programs in its foreground get SIGWINCH."""
    termios.tcsetwinsize(terminal, (rows, columns))
