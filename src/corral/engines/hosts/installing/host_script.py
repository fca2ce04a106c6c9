"""The script by which a host carries out an order, and the reading of its answer.

It is a script for `sh`, which finds a Python. That runs the modules of `corral.host.node.installed`, which follow the
script in the same stream, and after them comes the program of a new version.
"""

import inspect
import json
import re
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import ModuleType
from typing import Any

from corral.core.model import errors, home
from corral.core.model.printable import printable
from corral.host.node import connect, installed
from corral.host.node.installed import agent_places, agent_service, orders, own_key, tree
from corral.untrusted import Unread, guarded

_MODULES: tuple[ModuleType, ...] = (
    errors,
    home,
    connect,
    installed,
    agent_places,
    tree,
    agent_service,
    own_key,
    orders,
)
"""The modules that run on a host, each after those that it imports."""

_PADDING_BYTES = 128 * 1024
"""More than a shell reads ahead. What it has taken of the stream is lost to the program that it becomes."""

_MARK = "corral-order-follows"

_SHELL = """\
echo {begin}
PATH="$PATH:/usr/local/bin:/usr/bin:/bin:$HOME/.local/bin"
found=
for python in /usr/bin/python3 python3 python3.14 python3.13 python3.12 python3.11; do
    version=$("$python" -I -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null </dev/null) || continue
    found="$found $version"
    "$python" -I -c 'import sys; sys.exit(sys.version_info < (3, 11))' </dev/null || continue
    exec "$python" -I -u -c '{loader}'
done
. /etc/os-release 2>/dev/null
printf '{{"no_python": "%s", "system": "%s"}}\\n{end}\\n' "$found" "$ID"
exit 0
"""

_LOADER = """\
import json, sys, types
stream = sys.stdin.buffer
line = b" "
while line and line.strip() != b"{mark}":
    line = stream.readline(1 << 20)
order = json.loads(stream.readline() or b"null")
for name, size in order["modules"] if order else ():
    module = sys.modules[name] = types.ModuleType(name)
    exec(compile(stream.read(size), name, "exec"), module.__dict__)
if order:
    module.main(order, stream)
    print("{end}")
"""

_INSTALL = {
    "debian": "apt install python3.11 (or newer)",
    "ubuntu": "apt install python3.11 (or newer)",
    "rhel": "dnf install python3.11",
    "rocky": "dnf install python3.11",
    "almalinux": "dnf install python3.11",
    "centos": "dnf install python3.11",
    "fedora": "dnf install python3",
    "sles": "zypper install python311",
    "opensuse-leap": "zypper install python311",
}

_LONGEST_SENTENCE = 1000
_MOST_LINES = 1000


@dataclass(frozen=True, slots=True)
class HostScript:
    """A script for `sh`, and the marks between which its answer stands."""

    data: bytes
    begin: str
    end: str


@dataclass(frozen=True, slots=True)
class HostAnswer:
    """The answer of a host: the facts, or the reason why it could not be done: a sentence without its full stop."""

    done: Mapping[str, Any] = field(default_factory=dict)
    failed: str | None = None


def script_of(order: Mapping[str, Any], payload: bytes = b"") -> HostScript:
    """Return the script that has a host carry out an order of `corral.host.node.installed.orders`."""
    nonce = secrets.token_hex(8)
    begin, end = f"corral-begins-{nonce}", f"corral-ends-{nonce}"
    sources = [(module.__name__, inspect.getsource(module).encode()) for module in _MODULES]
    head = {**order, "modules": [(name, len(source)) for name, source in sources]}
    shell = _SHELL.format(begin=begin, end=end, loader=_LOADER.format(mark=_MARK, end=end))
    pieces = (
        shell.encode(),
        b"\n" * _PADDING_BYTES,
        f"{_MARK}\n{json.dumps(head)}\n".encode(),
        *(source for _, source in sources),
        payload,
    )
    return HostScript(b"".join(pieces), begin, end)


def answer_of(script: HostScript, said: str, complaints: str) -> HostAnswer:
    """Return the answer in what a host wrote on its two streams. Nothing in it is trusted."""
    answer = guarded("what a host said of an installation", partial(_answer_of, script, said, complaints))
    return HostAnswer(failed=f"its answer {answer}") if isinstance(answer, Unread) else answer


def _answer_of(script: HostScript, said: str, complaints: str) -> HostAnswer:
    _, begun, rest = said.partition(f"{script.begin}\n")
    if not begun:
        heard = _last_line(complaints) or _last_line(said)
        quoted = f": it said `{heard}`" if heard else ""
        return HostAnswer(failed=f"no shell runs for this account there{quoted}; installing needs `sh`")
    ours, ended, _ = rest.partition(script.end)
    for line in _lines(ours):
        if isinstance(line.get("failed"), str):
            return HostAnswer(failed=_sentence(line["failed"]))
        if isinstance(line.get("no_python"), str):
            return HostAnswer(failed=_no_python(line["no_python"], str(line.get("system"))))
        if isinstance(line.get("done"), dict) and ended:
            return HostAnswer(done=line["done"])
    heard = _last_line(complaints)
    return HostAnswer(failed=f"the connection ended before the work there was done{f': {heard}' if heard else ''}")


def _lines(text: str) -> Iterator[dict[str, Any]]:
    for line in text.splitlines()[-_MOST_LINES:]:
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            yield value


def _no_python(found: str, system: str) -> str:
    versions = sorted(set(re.findall(r"\d+\.\d+", found)), key=lambda one: [int(part) for part in one.split(".")])
    has = f"its newest Python is {versions[-1]}" if versions else "it has no Python"
    how = f": {_INSTALL[system]}" if system in _INSTALL else ""
    return f"{has}, and an agent needs 3.11 or newer; install one there{how}"


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return _sentence(lines[-1])[:200].rstrip(".") if lines else ""


def _sentence(text: str) -> str:
    return printable(text)[:_LONGEST_SENTENCE]
