"""What a field of a frozen class says besides its type and its default: `Annotated[int, Field(least=1)]`."""

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """The declaration of a field. `corral.declared` derives from it whatever else is said of the field.

    The end of a field's name is its unit, as in `time_limit_s`.

    Attributes:
        least, most: the bounds of a number, or of each of several numbers; it may be equal to them.
        above, below: the same for a number that may not be equal to them.
        shortest, longest: how many characters a text has, or how many entries a list.
        among: the texts that there may be.
        hint: what a message about the bounds adds.
        called: the name of the field in messages, if it has another name there.
        told: events about a row have this field. Other fields are in listings alone.
        key: the key of the field in the settings of a site, if that is not its name without the unit; one in a section
            is "SECTION.KEY".
        also: another key of the same setting, of which a site uses one.
    """

    least: float | None = None
    most: float | None = None
    above: float | None = None
    below: float | None = None
    shortest: int | None = None
    longest: int | None = None
    among: tuple[str, ...] = ()
    hint: str = ""
    called: str = ""
    told: bool = True
    key: str = ""
    also: str = ""


RESERVE, RUN, SUBMIT = "reserve", "run", "submit"
"""Which command is the first to take an option. Those after it take the option, too."""


class Kind(StrEnum):
    """What users write for an option. OWN has a type of its own in Python, and is text for commands."""

    FLAG = "flag"
    WHOLE = "whole"
    NUMBER = "number"
    TEXT = "text"
    TEXTS = "texts"
    TEXT_OR_NUMBER = "text or number"
    MEMORY = "memory"
    PATH = "path"
    OWN = "own"


@dataclass(frozen=True, slots=True)
class JobOption:
    """Annotates a field that is an option of a job: a flag of commands and of scripts, and a keyword of the client.

    The docstring below the field is its help. A paragraph that begins with "In Python: " tells of the keyword.

    Attributes:
        metavar: what stands for the value in the help of commands.
        example: what messages of the client tell to write.
        name: the name of the option, if it is not that of the field without its unit.
        flag: the name of the flag, if it is not that of the option.
        kind: what users write, if the type of the field does not tell.
        python: the type of the keyword, of kind OWN.
        many: the flag may be repeated.
        on: the command that is the first to take it.
        own: code of the option's own makes the value of the field; else its kind tells how.
    """

    metavar: str = ""
    example: str = ""
    name: str = ""
    flag: str = ""
    kind: Kind | None = None
    python: str = ""
    many: bool = False
    on: str = RUN
    own: bool = False
