"""Becomes a command that the kernel kills when the thread that started it ends, for whatever reason.

    python -I -m corral.features.tuner.running.dies_with_parent PARENT COMMAND...

So the load generator of a killed tuner does not go on sending requests to a server that the next tuner measures.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(words: list[str]) -> None:
    """Become the command. `words` begin with the pid of the parent that must still live. Exits with 127 for an
    unknown program.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(words[0]):
        sys.exit(f"corral: process {words[0]}, which started this, has ended")
    try:
        os.execvp(words[1], words[1:])
    except OSError as error:
        print(f"corral: {words[1]} cannot be run: {error.strerror}", file=sys.stderr)
        sys.exit(127)


if __name__ == "__main__":
    main(sys.argv[1:])
