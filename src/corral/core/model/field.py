"""Annotations of fields that say more than type and default: `Annotated[int, Field(least=1)]`."""

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """The declaration of a field. `corral.declared` derives all further properties of the field from it.

    The end of a field's name is its unit, as in `time_limit_s`.

    Attributes:
        least, most: bounds of a number, or of each of several numbers; the bounds are allowed values.
        above, below: bounds that are not allowed values themselves.
        shortest, longest: bounds for the characters of a text, or for the entries of a list.
        among: the allowed texts.
        hint: an addition to messages about the bounds.
        called: the name of the field in messages, if it has another name there.
        told: whether events about a row have this field. Other fields are in listings alone.
        key: the key of the field in a site's settings, if that is not its name without the unit; in a section
            "SECTION.KEY".
        also: another key for the same setting; a site uses one of the two.
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
"""The first command that takes an option. The commands after it in this order take it too."""


class Kind(StrEnum):
    """The kind of value that users write for an option. OWN has its own type in Python, and is text for commands."""

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
    """An annotation of a field that is an option of a job: a flag of commands and scripts, and a keyword of the client.

    The docstring below the field is its help. A paragraph that begins with "In Python: " describes the keyword.

    Attributes:
        metavar: the placeholder for the value in the help of commands.
        example: the example in messages of the client.
        name: the name of the option, if it is not that of the field without its unit.
        flag: the name of the flag, if it is not that of the option.
        kind: the kind of value, if the type of the field does not say it.
        python: the type of the keyword, for kind OWN.
        many: the flag may be repeated.
        on: the first command that takes it.
        own: code of the option's own makes the value of the field; else its kind says how.
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
