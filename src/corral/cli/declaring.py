"""The declaration of commands: a class for each, with its help, its options and its arguments.

An instance of the class is a parsed command line. Classes are loaded for help, errors and completion, too. So their
modules import neither the commands' code nor `typing`.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, Self


class DeclaredOption:
    """An option, or an argument if it has no names. Its `name` is that of the field to which it is assigned."""

    name = ""
    metavar = ""
    default: Any = None
    required = False
    many = False
    least: float | None = None
    most: float | None = None
    choices: Sequence[str] = ()
    alone: str | None = None
    env: str | None = None
    parse: Callable[[str], Any] | None = None

    def __init__(self, kind: str, names: tuple[str, ...], help: str, **more: Any) -> None:
        self.kind, self.names, self.help = kind, names, help
        vars(self).update(more)

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @property
    def takes_value(self) -> bool:
        return self.kind != "flag"


# Each of these functions declares a field. The field's annotation is its type. Names may be short and long.


def flag(*names: str, help: str) -> Any:
    """An option without a value: bool."""
    return DeclaredOption("flag", names, help, default=False)


def text(*names: str, help: str, metavar: str = "TEXT", **more: Any) -> Any:
    """Any text: str; None if it is not given and has no default. With `many`, a list of all given texts."""
    return DeclaredOption("text", names, help, metavar=metavar, **more)


def whole(*names: str, help: str, metavar: str = "N", **more: Any) -> Any:
    """A whole number: int. It may have a `least` and a `most`."""
    return DeclaredOption("whole", names, help, metavar=metavar, **more)


def number(*names: str, help: str, metavar: str = "X", **more: Any) -> Any:
    """A number: float."""
    return DeclaredOption("number", names, help, metavar=metavar, **more)


def path(*names: str, help: str, metavar: str = "FILE", **more: Any) -> Any:
    """A file or a directory, which need not exist: Path. Without a value on the line, it gets the value `alone`."""
    return DeclaredOption("path", names, help, metavar=metavar, **more)


def choice(*names: str, help: str, choices: Sequence[str], **more: Any) -> Any:
    """One of these words: str."""
    return DeclaredOption("choice", names, help, metavar="|".join(choices), choices=choices, **more)


HELP = flag("-h", "--help", help="Show this message and exit.")
HELP.name = "help"
VERSION = flag("-V", "--version", help="Print the version.")


class DeclaredOptions:
    """Options declared as fields. An instance has the given values, and defaults for the other options."""

    declared: tuple[DeclaredOption, ...] = ()

    def __init_subclass__(cls) -> None:
        cls.declared = (*cls.declared, *(one for one in vars(cls).values() if isinstance(one, DeclaredOption)))

    def __init__(self, **given: Any) -> None:
        vars(self).update({one.name: one.default for one in self.declared})
        vars(self).update(given)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"

    def but(self, **changed: Any) -> Self:
        """A copy with other values for these options."""
        return type(self)(**{**vars(self), **changed})


class DeclaredCommand(DeclaredOptions):
    """A command, or a group of commands. Its docstring is its help. A separate function takes the instance and does the
    work.

    Its own options come before the options of the shared class `takes`. An instance has the shared options in `flags`.
    """

    runs = ""
    """The function, as `load` reads it; "" for a group that does nothing by itself."""
    examples: Sequence[str] = ()
    commands: Mapping[str, type[DeclaredCommand] | str] = {}
    """The commands below this one. A text gives the place of a command, as `load` reads it, to load it when used."""
    takes: type[DeclaredOptions] | None = None
    follows = False
    """Whether the first word that is not an option begins a command of another program."""
    after_dashes = False
    """In an instance: whether that word stood after --."""

    def __init_subclass__(
        cls,
        *,
        runs: str = "",
        examples: Sequence[str] = (),
        commands: Mapping[str, type[DeclaredCommand] | str] | None = None,
        takes: type[DeclaredOptions] | None = None,
        follows: bool = False,
    ) -> None:
        super().__init_subclass__()
        cls.runs, cls.examples, cls.commands, cls.takes, cls.follows = runs, examples, commands or {}, takes, follows
        cls.declared += takes.declared if takes else ()

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        if self.takes is not None:
            names = [one.name for one in self.takes.declared]
            self.flags: Any = self.takes(**{name: vars(self).pop(name) for name in names})

    @classmethod
    def listed(cls) -> Mapping[str, Mapping[str, str]]:
        """The commands below this one with their summaries, by the titles under which help lists them."""
        below = {name: summary_of(one) for name in cls.commands if (one := cls.find(name)) is not None}
        return {"Commands": below} if below else {}

    @classmethod
    def find(cls, name: str) -> type[DeclaredCommand] | None:
        """The command of this name below this one; None if there is none."""
        found = cls.commands.get(name)
        return load(found) if isinstance(found, str) else found


def load(where: str) -> Any:
    """The object at MODULE.NAME: below this package, or anywhere else if the module begins with "corral."."""
    module, _, name = where.rpartition(".")
    full = module if module.startswith("corral.") else f"corral.cli.{module}"
    return getattr(__import__(full, fromlist=[name]), name)


def help_of(command: type[DeclaredCommand]) -> str:
    """The docstring of a command without its indent: paragraphs with an empty line between them."""
    return "\n".join(line.strip() for line in (command.__doc__ or "").strip().splitlines())


def summary_of(command: type[DeclaredCommand]) -> str:
    """The first sentence of a command's help."""
    first = help_of(command).partition("\n\n")[0].replace("\n", " ")
    sentence, stop, _ = first.partition(". ")
    return sentence + stop.rstrip()
