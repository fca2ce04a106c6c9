"""The pages that --help shows, and the usage line above an error."""

from __future__ import annotations

import sys
import textwrap

from corral.cli.declaring import HELP, help_of
from corral.cli.screen import width

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from corral.cli.declaring import DeclaredCommand, DeclaredOption

_MOST_COLUMNS = 80
_FEWEST_COLUMNS = 52
_MARGIN = 2
_LONGEST_NAME = 30
_LEAST_FOR_USAGE = 20


def show_help(path: Sequence[str], command: type[DeclaredCommand], *, on_error: bool = False) -> None:
    """Write the page of a command. With `on_error`, to standard error, because the command line was incomplete."""
    stream = sys.stderr if on_error else sys.stdout
    stream.write("".join(f"{line}\n" for line in help_lines(path, command, width())))


def help_lines(path: Sequence[str], command: type[DeclaredCommand], terminal: int) -> Iterator[str]:
    """The page of a command, in lines that fit a terminal of `terminal` columns."""
    columns = max(_FEWEST_COLUMNS, min(terminal, _MOST_COLUMNS)) - _MARGIN
    yield from usage_lines(path, command, terminal)
    for paragraph in help_of(command).split("\n\n"):
        yield ""
        yield from textwrap.wrap(paragraph, columns, initial_indent="  ", subsequent_indent="  ")
    arguments = [(one.metavar, _about(one)) for one in command.declared if not one.names]
    options = [(_spelled(one), _about(one)) for one in (*command.declared, HELP) if one.names]
    for title, rows in (("Arguments", arguments), ("Options", options)):
        yield from _section(title, rows, columns)
    groups = command.listed()
    widest = max((len(name) for group in groups.values() for name in group), default=0)
    for title, group in groups.items():
        yield from _section(title, [(name.ljust(widest), told) for name, told in group.items()], columns)
    yield from ("", "  Example:", *(f"    {line}" for line in command.examples))


def usage_lines(path: Sequence[str], command: type[DeclaredCommand], terminal: int) -> list[str]:
    """The usage of a command, in lines."""
    columns = max(_FEWEST_COLUMNS, min(terminal, _MOST_COLUMNS)) - _MARGIN
    words = ["[OPTIONS]", *(one.metavar for one in command.declared if not one.names)]
    words += ["COMMAND [ARGS]..."] if command.commands else []
    head = f"Usage: {' '.join(path)} "
    if columns >= len(head) + _LEAST_FOR_USAGE:
        return textwrap.wrap(" ".join(words), columns, initial_indent=head, subsequent_indent=" " * len(head))
    indent = " " * (len("Usage: ") + 4)
    return [head, *textwrap.wrap(" ".join(words), columns, initial_indent=indent, subsequent_indent=indent)]


def _section(title: str, rows: Sequence[tuple[str, str]], columns: int) -> Iterator[str]:
    """Names with their meanings, one below the other."""
    if not rows:
        return
    yield from ("", f"{title}:")
    indent = min(max(len(name) for name, _ in rows), _LONGEST_NAME) + 2
    for name, told in rows:
        first, *others = textwrap.wrap(told, max(columns - indent - 2, 10)) or [""]
        if len(name) + 2 > indent:
            yield f"  {name}"
            yield f"  {' ' * indent}{first}"
        else:
            yield f"  {name.ljust(indent)}{first}".rstrip()
        yield from (f"  {' ' * indent}{line}" for line in others)


def _spelled(option: DeclaredOption) -> str:
    names = ", ".join(sorted(option.names, key=lambda name: name.startswith("--")))
    return f"{names} {_value(option)}" if option.takes_value else names


def _value(option: DeclaredOption) -> str:
    return f"<{option.metavar}>" if option.choices else option.metavar


def _about(option: DeclaredOption) -> str:
    """The help of an option with its default, its range, and whether it is required."""
    more = []
    if option.default not in (None, "") and option.takes_value:
        more.append(f"default: {option.default}")
    if option.names and (option.least is not None or option.most is not None):
        least = "" if option.least is None or option.most is None else f"{option.least}<="
        most = f"<={option.most}" if option.most is not None else f">={option.least}"
        more.append(f"{least}x{most}")
    if option.required:
        more.append("required")
    return f"{option.help}  [{'; '.join(more)}]" if more else option.help
