"""Warn at submission about cluster commands (mpirun, module) that a script calls and this machine lacks."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_INSTEAD = {
    "mpirun": "put it on your PATH before you submit: the job gets your environment",
    "mpiexec": "put it on your PATH before you submit: the job gets your environment",
    "module": "load the modules before you submit: the job gets your environment",
    "ml": "load the modules before you submit: the job gets your environment",
}
FOREIGN_COMMANDS = rf"\b(?:{'|'.join(_INSTEAD)})\b"
"""A pattern that matches in every script that may need a warning."""

# The patterns are compiled at first use and cached by `re`, because most scripts need none of them.
_BROUGHT_BY_MODULES = frozenset({"mpirun", "mpiexec"})
_SOURCES = r"\s*(?:source|\.)\s"
_OPENERS = frozenset(
    {"if", "then", "else", "elif", "while", "until", "do", "{", "(", "!", "time", "exec", "nohup", "env"}
)
_ASSIGNMENT = r"(?s:[A-Za-z_]\w*=.*)"
_HEREDOC = r"<<-?\s*['\"]?(\w+)['\"]?"
_SHELL = r"#!.*\b(?:ba|da|k|z)?sh\b"
_BETWEEN = frozenset(";|&()")
_MOST_CHARACTERS = 4096
"""The rest of a longer line is not examined: it is data, and a lexer would take long."""


def missing_commands(lines: Sequence[str], where: str, environ: Mapping[str, str]) -> tuple[str, ...]:
    """A warning for each cluster command that the script calls and that is neither in PATH nor a function.

    `environ` is the job's environment. Each command gets one warning, with its first line.
    """
    if not lines or not re.match(_SHELL, lines[0]):
        return ()
    calls: dict[str, int] = {}
    for number, line in logical_lines(lines):
        if line.lstrip().startswith("#"):
            continue
        for name in _called(line):
            calls.setdefault(name, number)
    return tuple(
        f"{where}, line {number}: there is no {name} command here, so this line will fail (127, command not found); "
        f"{_INSTEAD[name]}"
        for name, number in calls.items()
        if name in _INSTEAD
        and not _is_there(name, lines, environ)
        and not _may_be_brought(name, lines[: number - 1], environ)
    )


def _is_there(name: str, lines: Sequence[str], environ: Mapping[str, str]) -> bool:
    import shutil

    if shutil.which(name, path=environ.get("PATH")) is not None:
        return True
    if any(variable.startswith(f"BASH_FUNC_{name}") for variable in environ):
        return True
    # A login shell may define the command, and the script may, too.
    login = re.match(r"#!.*sh\s+(?:-\w*l|--login)", lines[0]) is not None
    defines = re.compile(rf"\s*(?:(?:function\s+)?{name}\s*\(\)|alias\s+{name}=)")
    return login or any(defines.match(line) for line in lines)


def _may_be_brought(name: str, before: Sequence[str], environ: Mapping[str, str]) -> bool:
    """Whether earlier lines may provide the command: a sourced file may define any command, modules an mpirun."""
    if any(re.match(_SOURCES, line) for line in before):
        return True
    loads = any(loader in _called(line) for line in before for loader in ("module", "ml"))
    return name in _BROUGHT_BY_MODULES and loads and _is_there("module", before, environ)


def logical_lines(lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Lines with their numbers. Continued lines are joined, and the text of here-documents is left out."""
    left = iter(enumerate(lines, start=1))
    for number, first in left:
        line = first
        while line.endswith("\\") and not line.lstrip().startswith("#"):
            line = line[:-1] + " " + next(left, (0, ""))[1]
        yield number, line
        if line.lstrip().startswith("#"):
            continue
        for end in re.findall(_HEREDOC, line):
            for _, text in left:
                if text.strip() == end:
                    break


def _called(line: str) -> Iterator[str]:
    """The words of a line that stand in the position of a command."""
    import shlex

    lexer = shlex.shlex(
        line[:_MOST_CHARACTERS].replace("$(", ";").replace("`", ";"), posix=True, punctuation_chars=True
    )
    lexer.whitespace_split = True
    first = True
    try:
        for word in lexer:
            if set(word) <= _BETWEEN:
                first = True
            elif first and word not in _OPENERS and not re.fullmatch(_ASSIGNMENT, word):
                yield word
                first = False
    except ValueError:  # a quote that continues on the next line
        return
