"""Read the words of a command line as its command declares them. This module knows no command and prints nothing."""

from __future__ import annotations

import os

from corral.cli.declaring import HELP, VERSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any, Self, TypeVar

    from corral.cli.declaring import DeclaredCommand, DeclaredOption, DeclaredOptions

    T = TypeVar("T", bound=DeclaredOptions)


class UsageError(Exception):
    """Words that do not fit their declaration. It has their command, and the words that lead to it."""

    command: type[DeclaredCommand] | None = None
    path: tuple[str, ...] = ()

    def of(self, path: tuple[str, ...], command: type[DeclaredCommand]) -> Self:
        """Add the command to the error, and return the error."""
        self.path, self.command = path, command
        return self


class UnknownOption(UsageError):
    """No option has this spelling."""

    def __init__(self, spelled: str) -> None:
        super().__init__(f"there is no flag {spelled}")
        self.spelled = spelled


class UnknownCommand(UsageError):
    """A group has no command of this name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no command {name!r}")
        self.name = name


class LacksValue(UsageError):
    """The line ends with an option that needs a value."""

    def __init__(self, option: DeclaredOption, spelled: str) -> None:
        super().__init__(f"Option {spelled!r} requires an argument.")
        self.option = option


class Line:
    """A line before its values are converted: the command, and the texts given to it."""

    def __init__(self, path: tuple[str, ...], command: type[DeclaredCommand], words: Sequence[str]) -> None:
        self.path, self.command = path, command
        stops = command.follows or bool(command.commands)
        self.given, self.rest, self.after_dashes = _split((*command.declared, HELP), words, stops=stops)

    def value(self) -> DeclaredCommand:
        """The converted values of the line. Raises UsageError."""
        try:
            values = _values(self.command.declared, self.given, self.rest)
        except UsageError as error:
            raise error.of(self.path, self.command) from None
        if self.command.follows:
            values["after_dashes"] = self.after_dashes
        return self.command(**values)


def read(root: type[DeclaredCommand], name: str, words: Sequence[str]) -> Line:
    """The line that begins with the command `root` and may go on to a command below it. Raises UsageError."""
    path: tuple[str, ...] = (name,)
    command = root
    try:
        while True:
            line = Line(path, command, words)
            if not (command.commands and line.rest) or HELP in line.given or VERSION in line.given:
                return line
            below, *words = line.rest
            found = command.find(below)
            if found is None:
                raise UnknownCommand(below)
            path, command = (*path, below), found
    except UsageError as error:
        raise error.of(path, command) from None


def read_options(options: type[T], words: Sequence[str]) -> T:
    """The options in `words`, which may contain nothing else. Raises UsageError."""
    given, rest, _ = _split(options.declared, words, stops=False)
    return options(**_values(options.declared, given, rest))


def _split(
    options: Iterable[DeclaredOption], words: Sequence[str], *, stops: bool
) -> tuple[dict[DeclaredOption, list[str]], list[str], bool]:
    """The options with the texts given to each, the other words, and whether these stand after --.

    With `stops`, all words after the first other word belong to the other words.
    """
    named = {spelled: option for option in options for spelled in option.names}
    given: dict[DeclaredOption, list[str]] = {}
    rest: list[str] = []
    left = [*words]
    left.reverse()
    while left:
        word = left.pop()
        if word == "--":
            return given, rest + left[::-1], not rest
        if word == "-" or not word.startswith("-"):
            rest.append(word)
            if stops:
                return given, rest + left[::-1], False
        elif word.startswith("--"):
            _take_long(word, named, left, given)
        else:
            _take_short(word, named, left, given)
    return given, rest, False


def _take_long(
    word: str, named: dict[str, DeclaredOption], left: list[str], given: dict[DeclaredOption, list[str]]
) -> None:
    spelled, equals, value = word.partition("=")
    option = named.get(spelled)
    if option is None:
        raise UnknownOption(spelled)
    if equals:
        if not option.takes_value:
            raise UsageError(f"Option {spelled!r} does not take a value.")
        left.append(value)
    elif option.alone is not None and (not left or left[-1].startswith("-")):
        left.append(option.alone)
    _take(option, spelled, left, given)


def _take_short(
    word: str, named: dict[str, DeclaredOption], left: list[str], given: dict[DeclaredOption, list[str]]
) -> None:
    """Read letters that are each an option. A value may follow the last of them."""
    for after, letter in enumerate(word[1:], start=2):
        option = named.get(f"-{letter}")
        if option is None:
            raise UnknownOption(f"-{letter}")
        if option.takes_value and after < len(word):
            left.append(word[after:])
        _take(option, f"-{letter}", left, given)
        if option.takes_value:
            return


def _take(option: DeclaredOption, spelled: str, left: list[str], given: dict[DeclaredOption, list[str]]) -> None:
    if not option.takes_value:
        given[option] = []
    elif not left:
        raise LacksValue(option, spelled)
    else:
        given[option] = [*given.get(option, ()), left.pop()]


def _values(
    options: Sequence[DeclaredOption], given: dict[DeclaredOption, list[str]], rest: Sequence[str]
) -> dict[str, Any]:
    """The given values by name. Errors in given values come before errors about missing ones. Raises UsageError."""
    words = list(rest)
    arguments = {one: _words_of(one, words) for one in options if not one.names}
    asked = [one for one in options if one.names and (one.env or one.required) and one not in given]
    values: dict[str, Any] = {}
    for option, texts in [*given.items(), *arguments.items(), *((one, _of_environment(one)) for one in asked)]:
        if option.kind == "flag":
            values[option.name] = True
        elif texts:
            read = [converted(option, one) for one in texts]
            values[option.name] = read if option.many else read[-1]
        elif option.required:
            raise UsageError(_missing(option))
    if words:
        raise UsageError(f"Got unexpected extra argument{'s' if len(words) > 1 else ''} ({' '.join(words)})")
    return values


def _words_of(argument: DeclaredOption, words: list[str]) -> list[str]:
    """Remove the words of an argument from the beginning of the remaining words, and return them."""
    count = len(words) if argument.many else 1
    taken = words[:count]
    del words[:count]
    return taken


def _of_environment(option: DeclaredOption) -> list[str]:
    value = os.environ.get(option.env) if option.env else None
    return [value] if value else []


def _missing(option: DeclaredOption) -> str:
    if not option.names:
        more = f" Choose from: {', '.join(option.choices)}." if option.choices else ""
        return f"Missing argument {option.metavar!r}.{more}"
    return f"Missing option {spelled(option)!r}."


def spelled(option: DeclaredOption) -> str:
    """The first name of an option, or the name of an argument in help."""
    return option.names[0] if option.names else option.metavar


def converted(option: DeclaredOption, text: str) -> Any:
    """The value of a text for this option. Raises UsageError."""
    try:
        match option.kind:
            case "whole" | "number":
                return _number(option, text)
            case "choice":
                return _one_of(option.choices, text)
            case "path":
                return _path(text)
        return text if option.parse is None else option.parse(text)
    except ValueError as error:
        raise UsageError(f"{spelled(option)}: {error}") from None


def _number(option: DeclaredOption, text: str) -> float:
    try:
        value = int(text) if option.kind == "whole" else float(text)
    except ValueError:
        raise ValueError(f"{text!r} is not {_numbers(option)}") from None
    if (option.least is not None and value < option.least) or (option.most is not None and value > option.most):
        raise ValueError(f"{value} is not {_numbers(option)}")
    return value


def _numbers(option: DeclaredOption) -> str:
    """The range of numbers that an option takes, in words."""
    noun = "a whole number" if option.kind == "whole" else "a number"
    if option.most is not None:
        return f"{noun} from {option.least} to {option.most}"
    return noun if option.least is None else f"{noun} of at least {option.least}"


def _one_of(choices: Sequence[str], text: str) -> str:
    if text not in choices:
        raise ValueError(f"{text!r} is not one of {', '.join(map(repr, choices))}")
    return text


def _path(text: str) -> Any:
    from pathlib import Path

    if os.path.exists(text) and not os.access(text, os.R_OK):
        raise ValueError(f"Path {text!r} is not readable")
    return Path(text)
