"""What a field of a frozen class says besides its type and its default: `Annotated[int, Field(least=1)]`."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """The declaration of a field. `corral.declared` derives from it whatever else is said of the field.

    The end of a field's name is its unit, as in `time_limit_s`.

    Attributes:
        least, most: the bounds of a number, which includes both.
        above: a number has to be greater.
        told: events about a row have this field. Other fields are in listings alone.
        key: the key of the field in the settings of a site, if that is not its name without the unit; one in a section
            is "SECTION.KEY".
        also: another key of the same setting, of which a site uses one.
    """

    least: float | None = None
    most: float | None = None
    above: float | None = None
    told: bool = True
    key: str = ""
    also: str = ""
