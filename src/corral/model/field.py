"""What a field of a frozen class says besides its type and its default: `Annotated[int, Field(least=1)]`."""

from dataclasses import dataclass


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
