"""`corral completion`: prints the script that lets a shell complete commands, and answers that script.

The script passes the line up to the cursor, and gets one value per line, with a description after a tab. It evaluates
none of it as code: values may be names that users chose.
"""

import os
import re
from enum import StrEnum
from typing import Annotated, Any

import typer

from corral.cli.screen import command_group, example, write_fields, write_lines
from corral.model.printable import printable

MOST_VALUES = 200
_MOST_LETTERS = 60
_SAFE = re.compile(r"[\w.,:@/+=%-]+", re.ASCII)
"""Values that every shell takes as they are, without quotes. Others are not offered."""

app = command_group()


class Shell(StrEnum):
    """A shell that completes."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


class Places(StrEnum):
    """What the shell itself completes."""

    FILES = "!files"
    DIRECTORIES = "!dirs"
    COMMANDS = "!commands"


_SCRIPTS = {
    Shell.BASH: r"""
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
    Shell.ZSH: r"""
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
    Shell.FISH: r"""
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


@app.command(
    epilog=example(
        "echo 'eval \"$(corral completion bash)\"' >> ~/.bashrc",
        "echo 'eval \"$(corral completion zsh)\"' >> ~/.zshrc     # below compinit",
        "corral completion fish > ~/.config/fish/completions/corral.fish",
    )
)
def completion(shell: Annotated[Shell, typer.Argument(metavar="bash|zsh|fish", help="Your shell.")]) -> None:
    """Print a script with which your shell completes commands.

    It completes commands, flags, and values such as job ids, which it asks the server for.
    """
    write_lines(*_SCRIPTS[shell].strip().splitlines())


def answer(app: Any) -> None:
    """Answer the script: what may follow on its line. Silent where nothing can be said, whatever the cause."""
    try:
        rows = _rows(app, os.environ.get("_CORRAL_LINE", ""), os.environ.get("_CORRAL_BREAKS", ""))
    except Exception:
        if os.environ.get("CORRAL_DEBUG"):
            raise
        return
    write_fields(rows)


def _rows(app: Any, line: str, breaks: str) -> list[tuple[str, ...]]:
    """The values that may be at the end of `line`, with descriptions. Bash splits words at `breaks`."""
    from typer._click import shell_completion as typed

    words = typed.split_arg_string(line)
    word = "" if not words or line[-1:].isspace() else words.pop()
    group = typer.main.get_command(app)
    args = words[1:]
    context = typed._resolve_context(group, {}, "corral", args)
    wanted, incomplete = typed._resolve_incomplete(context, args, word)
    found = _values(context, wanted, args, incomplete)
    if isinstance(found, Places):
        return [(found,)]
    before = word.removesuffix(incomplete)
    kept_by_shell = max((word.rfind(mark) for mark in ":=" if mark in breaks), default=-1) + 1
    values = [(value, about) for value, about in found if value.startswith(incomplete) and _SAFE.fullmatch(value)]
    return [_row((before + value)[kept_by_shell:], about) for value, about in values[:MOST_VALUES]]


def _values(context: Any, wanted: Any, args: list[str], incomplete: str) -> Any:
    """What may stand for `wanted`, which is a parameter, or a command for its flags or the commands below it."""
    if not incomplete.startswith("-") and (wanted is context.find_root().command or args[:1] == ["help"]):
        return _summaries() if args in ([], ["help"]) else []
    if wanted is context.command:
        found = wanted.shell_complete(context, incomplete)
        return [(item.value, (item.help or "").partition("\n")[0]) for item in found]
    from corral.cli.completing import values_of

    return values_of(context, wanted, args, incomplete)


def _summaries() -> list[tuple[str, str]]:
    from corral.cli.app import COMMANDS

    return [(name, listed.summary) for name, listed in COMMANDS.items()]


def _row(value: str, about: str) -> tuple[str, ...]:
    """One value with its description, in which no shell finds anything to obey."""
    about = re.sub(r"[\\`$\s]+", " ", printable(about)).strip()[:_MOST_LETTERS]
    return (value, about) if about else (value,)
