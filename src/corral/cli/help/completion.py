"""`corral completion`: print the script with which a shell completes commands, and answer that script.

The script passes the line up to the cursor. It gets one value per line, with a description after a tab. It evaluates no
value as code, because values may be names that users chose.
"""

from __future__ import annotations

import os
import re

from corral.cli.app import Corral, all_commands
from corral.cli.declaring import HELP
from corral.cli.reading import LacksValue, UnknownOption, UsageError, read
from corral.cli.screen import write_fields, write_lines
from corral.core.model.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from corral.cli.commands import learning
    from corral.cli.declaring import DeclaredOption
    from corral.cli.reading import Line

MOST_VALUES = 200
_MOST_LETTERS = 60
_SAFE = re.compile(r"[\w.,:@/+=%-]+", re.ASCII)
"""Values that every shell accepts without quotes. Other values are not offered."""

_SCRIPTS = {
    "bash": r"""
_corral() {
    local value cur="${COMP_WORDS[COMP_CWORD]}"
    COMPREPLY=()
    while IFS=$'\t' read -r value _; do
        case "$value" in
            '!files') compopt -o default; return ;;
            '!dirs') compopt -o dirnames; return ;;
            '!commands') mapfile -t COMPREPLY < <(compgen -c -- "$cur" | sort -u); return ;;
        esac
        [[ $value == *[:=] ]] && compopt -o nospace
        COMPREPLY+=("$value")
    done < <(_CORRAL_COMPLETE=lines _CORRAL_LINE="${COMP_LINE:0:COMP_POINT}" _CORRAL_BREAKS="$COMP_WORDBREAKS" \
        "$1" 2>/dev/null)
}
complete -o nosort -F _corral corral 2>/dev/null || complete -F _corral corral
""",
    "zsh": r"""
#compdef corral
_corral() {
    local value about
    local -a values
    while IFS=$'\t' read -r value about; do
        case "$value" in
            '!files') _files; return ;;
            '!dirs') _files -/; return ;;
            '!commands') _command_names -e; return ;;
        esac
        values+=("${value//:/\\:}${about:+:$about}")
    done < <(_CORRAL_COMPLETE=lines _CORRAL_LINE="${(j: :)words[1,CURRENT-1]} $PREFIX" ${(Q)words[1]} 2>/dev/null)
    (( $#values )) && _describe -V corral values
}
if [[ "${funcstack[1]}" == _corral ]]; then
    _corral "$@"
else
    compdef _corral corral
fi
""",
    "fish": r"""
function __corral_complete
    set -lx _CORRAL_COMPLETE lines
    set -lx _CORRAL_LINE (commandline --current-process --cut-at-cursor | string collect)
    set -l command (commandline --current-process --tokenize)[1]
    for line in ($command 2>/dev/null)
        switch $line
            case '!files'
                __fish_complete_path (commandline --current-token --cut-at-cursor)
            case '!dirs'
                __fish_complete_directories (commandline --current-token --cut-at-cursor) ''
            case '!commands'
                __fish_complete_command
            case '*'
                printf '%s\n' $line
        end
    end
end
complete --command corral --no-files --keep-order --arguments '(__corral_complete)'
""",
}


def completion(given: learning.CompletionCommand) -> None:
    """Run `corral completion`."""
    write_lines(*_SCRIPTS[given.shell].strip().splitlines())


def answer() -> None:
    """Print the possible continuations of the script's line. Print nothing if they are unknown, for any reason."""
    try:
        rows = _rows(os.environ.get("_CORRAL_LINE", ""), os.environ.get("_CORRAL_BREAKS", ""))
    except Exception:
        if os.environ.get("CORRAL_DEBUG"):
            raise
        return
    write_fields(rows)


def _rows(line: str, breaks: str) -> list[tuple[str, ...]]:
    """The values that may stand at the end of `line`, with descriptions. Bash splits words at `breaks`."""
    words = _words(line)
    word = "" if not words or line[-1:].isspace() else words.pop()
    name, equals, value = word.partition("=")
    if equals and name.startswith("-") and "--" not in words:
        words, incomplete = [*words, name], value
    else:
        incomplete = word
    found = _found(words[1:], incomplete)
    if isinstance(found, str):
        return [(found,)]
    before = word.removesuffix(incomplete)
    kept_by_shell = max((word.rfind(mark) for mark in ":=" if mark in breaks), default=-1) + 1
    values = [(value, about) for value, about in found if value.startswith(incomplete) and _SAFE.fullmatch(value)]
    return [_row((before + value)[kept_by_shell:], about) for value, about in values[:MOST_VALUES]]


def _words(line: str) -> list[str]:
    """The words of a line, split like in a shell, also if a quote is still open."""
    import shlex

    lexer = shlex.shlex(line, posix=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    words: list[str] = []
    try:
        words.extend(lexer)
    except ValueError:
        words.append(lexer.token)
    return words


def _found(words: Sequence[str], incomplete: str) -> Iterable[tuple[str, str]] | str:
    """The values that may follow `words`, with descriptions; or a marker for values that the shell itself completes."""
    flagged = incomplete.startswith("-") and "--" not in words
    if not flagged and (not words or words[0] == "help"):
        return list(all_commands().items()) if len(words) < 2 else []
    try:
        line = read(Corral, "corral", words)
    except LacksValue as error:
        return _values(error.path[1], error.option, incomplete)
    except UnknownOption as error:
        known = [word for word in words if word.partition("=")[0] != error.spelled]
        return _found(known, incomplete) if len(known) < len(words) else []
    except UsageError:
        return []
    if flagged:
        return _flags(line)
    for option in line.command.declared:
        if option.alone is not None and words[-1] in option.names:
            return _values(line.path[1], option, incomplete)
    return [] if line.command is Corral else _next(line, incomplete)


def _next(line: Line, incomplete: str) -> Iterable[tuple[str, str]] | str:
    """The values of the next word: a command of a group, or an argument."""
    if line.command.commands:
        return [each for group in line.command.listed().values() for each in group.items()]
    arguments, place = [one for one in line.command.declared if not one.names], len(line.rest)
    if place < len(arguments):
        begins = line.path[1] != "submit" or line.after_dashes
        return _values(line.path[1], arguments[place], incomplete, begins=begins)
    return _values(line.path[1], arguments[-1], incomplete) if arguments and arguments[-1].many else []


def _flags(line: Line) -> Iterator[tuple[str, str]]:
    """The flags that may still be given."""
    for option in (*line.command.declared, HELP):
        if option.many or option not in line.given:
            yield from ((spelled, option.help) for spelled in option.names)


def _values(
    command: str, option: DeclaredOption, incomplete: str, *, begins: bool = False
) -> Iterable[tuple[str, str]] | str:
    from corral.cli.help.completing import values_of

    return values_of(command, option, incomplete, begins=begins)


def _row(value: str, about: str) -> tuple[str, ...]:
    """A value with its description, in which no shell finds special characters."""
    about = re.sub(r"[\\`$\s]+", " ", printable(about)).strip()[:_MOST_LETTERS]
    return (value, about) if about else (value,)
