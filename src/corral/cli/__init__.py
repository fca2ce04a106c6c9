"""The `corral` command line. Commands talk to a server only through `corral.client`, except those in `local`.

Each command imports its code when it runs. Start reading at `app` (the list of commands), then `run` and `submit`.
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
    """Run the command line and return the exit code. Every error becomes a message on standard error."""
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
        complain("no answer was typed; nothing was done")
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
        # The exit code is settled. Another Ctrl-C during the interpreter's shutdown would change it.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if code:
            raise SystemExit(code)


def _run(words: list[str]) -> int:
    """Run the command in `words`, or answer a shell's completion request. Return the exit code."""
    if os.environ.get("_CORRAL_COMPLETE") == "lines":
        from corral.cli.help.completion import answer

        answer()
        return 0
    from corral.cli.app import run

    return run(words)


def _open_what_is_closed() -> None:
    """Open each of the three standard streams that the caller has closed (`>&-`), on /dev/null.

    Otherwise a connection to the server would get the number of a closed stream, and receive printed output.
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
    """Use no buffer for standard error, because a signal handler may write while another message is being written.

    A buffer is locked while it is written out. Python then refuses another write in the same thread (RuntimeError:
    reentrant call).
    """
    raw = io.FileIO(sys.stderr.fileno(), "w", closefd=False)
    sys.stderr = io.TextIOWrapper(raw, sys.stderr.encoding, sys.stderr.errors, write_through=True)


def _write_any_text() -> None:
    """Write escapes for characters that the output's encoding lacks. Users may use any characters in job names."""
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")


def _missing(error: ModuleNotFoundError) -> int:
    """Say which packages a command needs if only the client is installed. Any other missing module is a bug."""
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
    """Write out the remaining output. Return the exit code if that fails, else 0.

    A reader that has gone, such as `head`, is no error.
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
    """Whether the output has no room left. Errors about files that a command names are the command's to report."""
    return error.filename is None and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def _write_no_more(error: OSError) -> int:
    from corral.cli.screen import complain

    complain(f"the output cannot be written: {error.strerror}")
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 1


def _window_is_closed() -> bool:
    """Whether the terminal of the output has gone, so that each write fails with EIO."""
    terminals = select.poll()
    for stream in (sys.stdout, sys.stderr):
        terminals.register(stream.fileno(), 0)
    return any(happened & select.POLLHUP for _, happened in terminals.poll(0))
