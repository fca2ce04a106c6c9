"""Runs NVIDIA's command-line tools, with a time limit and readable errors."""

import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from typing import IO

from corral.core.model.errors import BackendFailed

NVIDIA_SMI = "nvidia-smi"


def run_tool(
    argv: Sequence[str],
    *,
    timeout_s: float,
    stdin: str = "",
    env: Mapping[str, str] | None = None,
    umask: int = -1,
) -> str:
    """Run a tool and return its output. With `umask` -1 it inherits the umask of this process.

    Raises BackendFailed if it is missing or its exit code is not 0, and ToolHung if it takes too long.
    """
    # Files instead of pipes: a daemon that keeps its parent's output open must not keep the caller waiting.
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        try:
            done = subprocess.run(
                argv, input=stdin.encode(), stdout=out, stderr=err, timeout=timeout_s, env=env, umask=umask
            )
        except FileNotFoundError:
            raise BackendFailed(f"{argv[0]} is not installed here; it comes with the NVIDIA driver") from None
        except PermissionError:
            raise BackendFailed(f"{argv[0]} may not be executed by this user") from None
        except subprocess.TimeoutExpired:
            raise ToolHung(f"{' '.join(argv)} did not answer within {timeout_s:g} s") from None
        printed, complained = _read(out), _read(err)
    if done.returncode != 0:
        said = (complained.strip() or printed.strip() or "it said nothing").splitlines()[-1]
        raise BackendFailed(f"{' '.join(argv)} exited with {done.returncode}: {said}")
    return printed


def _read(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


class ToolHung(BackendFailed):
    """The tool was started but did not answer in time."""
