"""Programs of Corral that run inside a job: they are sent there as the first bytes of their input.

So they need nothing on the job's node, or in its container, but a Python.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Sequence
from pathlib import Path

PYTHON = "python3"

_BOOT = """\
import os
b = b""
while not b.endswith(b"\\n"):
    p = os.read(0, 1)
    if not p: raise SystemExit(1)
    b += p
import base64, zlib
exec(zlib.decompress(base64.b64decode(b)))"""

_LOADER = """\
import sys, types
for name in ("corral", "corral.forwarding"):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = []
for name, source in {sources}:
    module = sys.modules["corral.forwarding." + name] = types.ModuleType("corral.forwarding." + name)
    exec(compile(source, name + ".py", "exec"), vars(module))
module.{call}
"""


def words_of(name: str, arguments: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the command that waits for a program. `name` is for those who see the command."""
    return (PYTHON, "-I", "-S", "-c", f"# {name}\n{_BOOT}", *arguments)


def program(modules: Sequence[str], *arguments: object) -> bytes:
    """Return the first input of the command: modules of this package, each after those that it needs.

    `main` of the last is called with the arguments, which are plain data.
    """
    here = Path(__file__).parent
    sources = [(name, (here / f"{name}.py").read_text()) for name in modules]
    call = f"main(*__import__('json').loads({json.dumps(list(arguments))!r}))"
    text = _LOADER.replace("{sources}", repr(sources)).replace("{call}", call)
    return base64.b64encode(zlib.compress(text.encode())) + b"\n"


RELAY = ("tcp_table", "lanes", "job_ports", "relay")
SSHD = ("sshd_session",)
