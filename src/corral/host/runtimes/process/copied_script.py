"""Runs the copy of a script so that the script sees the name of the original file.

A shell and Python get the text and the name separately: `$0` and `sys.path[0]` are those of the file. Any other
interpreter takes the name from the path that it opens. So does bash if a script uses BASH_SOURCE, which cannot be set.
These run the file itself while it has the submitted text, else the copy, under the copy's path.
"""

import posixpath
import re
import shlex
from collections.abc import Sequence

from corral.core.model.jobs.script_copy import STANDARD_INPUT, interpreter_of, place_of_script

_SHELLS = re.compile(r"bash|sh|dash|ash|ksh|mksh")
_SHELL_OPTIONS = re.compile(r"(-[abefhlpuBCEHPT]+|-[abefhlpuBCEHPT]*o [a-wyz]\w+|--(login|posix|norc|noprofile))*")
"""Options of a shell that mean the same with -c. Without -x and -v, which would print the command that reads
the copy.
"""

_PYTHONS = re.compile(r"(python|pypy)[\d.]*")
_PYTHON_OPTIONS = re.compile(r"(-[bBdEIOPqRsSuv]+|-[WX] ?[\w.=:]+)*")

_READ = '/bin/cat {} || echo "exit 126"'
"""If the copy cannot be read, the job fails with a message."""

_OTHER = """\
if /usr/bin/env cmp -s -- "$0" {copy}; then script=$0; else
script={copy}
echo "corral: $0 is not as it was submitted any more; its copy of then runs, and is called $script" >&2
fi
exec {interpreter} "$script" "$@\""""

_PYTHON = """\
def _start(copy):
    import sys
    path = sys.argv[1]
    del sys.argv[0]
    first = not getattr(sys.flags, "safe_path", getattr(sys.flags, "isolated", False))
    if first:
        del sys.path[0]
    import linecache, os
    with open(copy, "rb") as file:
        text = file.read()
    code = compile(text, path, "exec", 0, True)
    lines = text.decode("utf-8", "replace").splitlines(True)
    linecache.cache[path] = len(text), None, lines, path
    if first:
        sys.path.insert(0, os.path.dirname(os.path.realpath(path)))
    main = sys.modules["__main__"].__dict__
    del main["_start"]
    main["__file__"] = path
    return code
exec(_start({copy!r}))"""


def program(command: Sequence[str], text: str, copy: str) -> tuple[str, ...]:
    """Return the command that runs the copied script with this text, in place of the command that names its file."""
    interpreter = interpreter_of(text)
    path, *arguments = command[place_of_script(command, text) :]
    if path == STANDARD_INPUT:
        return (*interpreter, copy, *arguments)
    name, options = _name_and_options(interpreter)
    if _SHELLS.fullmatch(name) and _SHELL_OPTIONS.fullmatch(options) and "BASH_SOURCE" not in text:
        return (*interpreter, "-c", f'eval "$({_READ.format(shlex.quote(copy))})"', path, *arguments)
    if _PYTHONS.fullmatch(name) and _PYTHON_OPTIONS.fullmatch(options):
        return (*interpreter, "-c", _PYTHON.format(copy=copy), path, *arguments)
    other = _OTHER.format(copy=shlex.quote(copy), interpreter=shlex.join(interpreter))
    return ("/bin/sh", "-c", other, path, *arguments)


def _name_and_options(interpreter: Sequence[str]) -> tuple[str, str]:
    """Return the interpreter's name, even if `env` looks it up, and its options without spaces between them."""
    words = " ".join(interpreter).split()
    if words and posixpath.basename(words[0]) == "env":
        words = words[2:] if words[1:2] == ["-S"] else words[1:]
    name, options = (posixpath.basename(words[0]), words[1:]) if words else ("", [])
    # The argument of an option keeps the space before it.
    return name, re.sub(r" (?=-)", "", " ".join(options))
