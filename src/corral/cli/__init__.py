"""The `corral` command line. Commands talk to a server through `corral.client` only, except those in `local`.

What a command needs is imported when it runs. Start reading at `app` (the list of commands), then `run` and `submit`.
"""

import errno
import io
import os
import select
import signal
import sys

from corral.core.model.errors import CorralError

_WINDOW_CLOSED = 128 + signal.SIGHUP
_INTERRUPTED = 128 + signal.SIGINT


def main() -> int:
    """Run the command line and return the exit code. Every error is told in words on standard error."""
    _open_what_is_closed()
    _write_errors_at_once()
    _write_any_text()
    from corral.cli.screen import complain, complain_of, exit_code_of

    try:
        return _run(sys.argv[1:])
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:
        return 1
    except EOFError:
        complain("nothing was typed, and nothing is done")
        return 1
    except CorralError as error:
        complain_of(error)
        return exit_code_of(error)
    except ModuleNotFoundError as error:
        return _missing(error)
    except PermissionError as error:
        complain(f"you may not read or write {error.filename or 'a file'}: {error.strerror}")
        return 1
    except Exception as error:
        if isinstance(error, OSError) and error.errno == errno.EIO and _window_is_closed():
            return _WINDOW_CLOSED
        if isinstance(error, OSError) and _is_full(error):
            return _write_no_more(error)
        return _bug(error)
    finally:
        code = _flush()
        # How this ends is settled: one more Ctrl-C while the interpreter shuts down would make it another end.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if code:
            raise SystemExit(code)


def _run(words: list[str]) -> int:
    """Run the command that `words` are, or answer a shell that completes one; the exit code."""
    if os.environ.get("_CORRAL_COMPLETE") == "lines":
        from corral.cli.help.completion import answer

        answer()
        return 0
    from corral.cli.app import run

    return run(words)


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


def _write_errors_at_once() -> None:
    """Keep no buffer for standard error: a signal's handler may say something in the midst of what is being said.

    A buffer is locked while it is written out, and Python refuses its own thread then (RuntimeError: reentrant call).
    """
    raw = io.FileIO(sys.stderr.fileno(), "w", closefd=False)
    sys.stderr = io.TextIOWrapper(raw, sys.stderr.encoding, sys.stderr.errors, write_through=True)


def _write_any_text() -> None:
    """Write escapes of characters that the output's encoding lacks: a user may have named a job with them."""
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")


def _missing(error: ModuleNotFoundError) -> int:
    """Say what a command lacks where only the client is installed; any other missing module is a bug."""
    from corral.cli.screen import complain
    from corral.cli.server_part import SERVER_PACKAGES, missing_in_words, missing_packages

    if (error.name or "").partition(".")[0] not in SERVER_PACKAGES:
        return _bug(error)
    complain(missing_in_words("this command", missing_packages()))
    return 1


def _bug(error: Exception) -> int:
    from corral.cli.screen import complain

    if os.environ.get("CORRAL_DEBUG"):
        raise error
    complain(f"this is a bug in Corral: {type(error).__name__}: {error}; set CORRAL_DEBUG=1 to see where")
    return 1


def _flush() -> int:
    """Write out what is left; the exit code where that cannot be done, or 0.

    A reader that has gone, as `head` does, is no reason to complain.
    """
    code = 0
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError as error:
            if error.errno == errno.EIO and _window_is_closed():
                code = _WINDOW_CLOSED
            elif _is_full(error):
                code = code or (_write_no_more(error) if stream is sys.stdout else 1)
            elif error.errno not in (errno.EPIPE, errno.EIO):
                raise
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    return code


def _is_full(error: OSError) -> bool:
    """Whether what is written to has no room. Files that a command names are told of by the command."""
    return error.filename is None and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def _write_no_more(error: OSError) -> int:
    from corral.cli.screen import complain

    complain(f"the output cannot be written: {error.strerror}")
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 1


def _window_is_closed() -> bool:
    """Whether the terminal that this writes to has gone, so that each write fails with EIO."""
    terminals = select.poll()
    for stream in (sys.stdout, sys.stderr):
        terminals.register(stream.fileno(), 0)
    return any(happened & select.POLLHUP for _, happened in terminals.poll(0))
