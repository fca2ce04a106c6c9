"""The `corral` command. What a command needs is imported when it runs.

Commands ask a server through `corral.client` and import no other room, except those in `local`. Start with `app`.
"""

import os
import signal
import sys

from corral.model.errors import CorralError


def main() -> int:
    """Run the command line; the exit code. Whatever goes wrong is one line on standard error."""
    from corral.cli.app import app
    from corral.cli.screen import exit_code_of, say

    try:
        app(prog_name="corral")
    except CorralError as error:
        say(str(error))
        return exit_code_of(error)
    except PermissionError as error:
        say(f"{error.filename or 'a file'} is not for this user to read or write: {error.strerror}")
        return 1
    except Exception as error:
        if os.environ.get("CORRAL_DEBUG"):
            raise
        say(f"a fault of Corral itself: {type(error).__name__}: {error}; with CORRAL_DEBUG=1 it shows where")
        return 1
    finally:
        _flush()
        # How this ends is settled: one more Ctrl-C while the interpreter shuts down would make it another end.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    return 0


def _flush() -> None:
    """Write out what is left. A reader that has gone, as `head` does, is no reason to complain."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
