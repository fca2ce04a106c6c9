"""The `corral` command line. Commands talk to a server through `corral.client` only, except those in `local`.

What a command needs is imported when it runs. Start reading at `app` (the list of commands), then `run` and `submit`.
"""

import os
import signal
import sys

from corral.model.errors import CorralError


def main() -> int:
    """Run the command line and return the exit code. Every error is one line on standard error."""
    _open_what_is_closed()
    from corral.cli.app import app
    from corral.cli.screen import exit_code_of, say

    try:
        if os.environ.get("_CORRAL_COMPLETE") == "lines":
            from corral.cli.completion import answer

            answer(app)
            return 0
        app(prog_name="corral")
    except CorralError as error:
        say(str(error))
        return exit_code_of(error)
    except ModuleNotFoundError as error:
        return _missing(error)
    except PermissionError as error:
        say(f"you may not read or write {error.filename or 'a file'}: {error.strerror}")
        return 1
    except Exception as error:
        return _bug(error)
    finally:
        _flush()
        # How this ends is settled: one more Ctrl-C while the interpreter shuts down would make it another end.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    return 0


def _open_what_is_closed() -> None:
    """Have the three standard streams, also where whoever starts this has closed some (`>&-`).

    Otherwise a connection to the server would get the number of one, and what is printed would go there.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            os.set_inheritable(number, True)
            setattr(sys, name, os.fdopen(number, mode, closefd=False))


def _missing(error: ModuleNotFoundError) -> int:
    """Say what a command lacks where only the client is installed; any other missing module is a bug."""
    from corral.cli.screen import say
    from corral.cli.server_part import SERVER_PACKAGES, missing_in_words, missing_packages

    if (error.name or "").partition(".")[0] not in SERVER_PACKAGES:
        return _bug(error)
    say(missing_in_words("this command", missing_packages()))
    return 1


def _bug(error: Exception) -> int:
    from corral.cli.screen import say

    if os.environ.get("CORRAL_DEBUG"):
        raise error
    say(f"this is a bug in Corral: {type(error).__name__}: {error}; set CORRAL_DEBUG=1 to see where")
    return 1


def _flush() -> None:
    """Write out what is left. A reader that has gone, as `head` does, is no reason to complain."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
