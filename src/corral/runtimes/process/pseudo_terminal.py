"""A terminal of a program's own, whose other end its supervisor has."""

import fcntl
import os
import termios

# Not in the standard library: what is typed is UTF-8, so that one backspace erases one character.
_IUTF8 = 0o40000


def open_terminal(rows: int, columns: int, uid: int) -> tuple[int, int]:
    """The supervisor's end, which does not block, and the program's, which its user `uid` (-1: the server's) may open.

    Raises OSError where the machine has no (more) terminals.
    """
    ours, programs = os.openpty()
    try:
        os.set_blocking(ours, False)
        # Nobody else may write to it, as wall(1) and write(1) may to most.
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


def take(terminal: int) -> None:
    """Make it the terminal of this process, which leads a session that has none."""
    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)


def resize(terminal: int, rows: int, columns: int) -> None:
    """Set its size; the programs in its foreground get SIGWINCH."""
    termios.tcsetwinsize(terminal, (rows, columns))
