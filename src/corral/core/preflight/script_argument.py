"""Find the file that an interpreter is told to run. There is no result if a command line is not fully understood."""

import os
import posixpath
import re
from collections.abc import Sequence
from typing import NamedTuple

_PYTHON = re.compile(r"(python|pypy)[\d.]*")
_PYTHON_FLAGS = frozenset("bBdEiIOPqRsSuvx")
_SHELL = re.compile(r"bash|sh|dash|ash|ksh|zsh")
_SHELL_FLAGS = frozenset("abefhkmnptuvxBCEHPTil")
_SHELL_WORDS = frozenset({"--login", "--posix", "--norc", "--noprofile", "--verbose"})
_PERL_FLAGS = frozenset("wWtT")
_PLAIN = re.compile(r"perl[\d.]*|ruby[\d.]*|Rscript|julia")
"""Interpreters without known options, except for those of perl above."""

_NODE_FILE = re.compile(r".*\.[cm]?js")
"""Node adds endings to names that do not match."""


class ScriptArgument(NamedTuple):
    """A file that an interpreter will run.

    Attributes:
        on_path: whether the file is also searched for on PATH, as shells do.
    """

    name: str
    on_path: bool = False


def script_argument(command: Sequence[str]) -> ScriptArgument | None:
    """The file that the command's interpreter runs, by its name there; None if there is none, or if unsure."""
    program, words = posixpath.basename(command[0]) if command else "", command[1:]
    if _PYTHON.fullmatch(program):
        name = _after_options(words, _PYTHON_FLAGS, taking="WX")
    elif _SHELL.fullmatch(program):
        name = _after_options(words, _SHELL_FLAGS, taking="oO", known=_SHELL_WORDS)
    elif _PLAIN.fullmatch(program):
        name = _after_options(words, _PERL_FLAGS if program.startswith("perl") else frozenset())
    elif program == "node":
        name = words[0] if words and _NODE_FILE.fullmatch(words[0]) else None
    else:
        return None
    # The content of these directories differs from process to process.
    if not name or name.startswith(("-", "/dev/", "/proc/")):
        return None
    return ScriptArgument(name, on_path=_SHELL.fullmatch(program) is not None and "/" not in name)


def no_such_file(program: str, script: str, workdir: str, where: str = "") -> str:
    """The message for a command whose interpreter would not find its file; `where` names the nodes."""
    return f"{program!r:.200} is to run {script!r:.200}, and there is no such file{where}, seen from {workdir!r:.200}"


def exists(file: str, path: str | None, workdir: str) -> bool | None:
    """Whether the file exists, relative to `workdir` or in the directories of `path`; None if that is not known."""
    for directory in ("", *(path or "").split(os.pathsep)):
        try:
            os.stat(os.path.join(workdir, directory, file))
            return True
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (OSError, ValueError):
            return None
    return False


def _after_options(
    words: Sequence[str], flags: frozenset[str], *, taking: str = "", known: frozenset[str] = frozenset()
) -> str | None:
    """The first word after the options; None if an option is not known. Options in `taking` have a value."""
    left = iter(words)
    for word in left:
        if word == "--":
            return next(left, None)
        if not word.startswith("-") or word == "-":
            return word
        if word in known:
            continue
        place = next((at for at, letter in enumerate(word[1:], start=1) if letter not in flags), None)
        if place is None:
            continue
        if word[place] not in taking:
            return None
        # The option's value is the rest of the word, or the next word.
        if not word[place + 1 :]:
            next(left, None)
    return None
