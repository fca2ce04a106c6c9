"""What a field of a frozen class says besides its type and its default: `Annotated[int, Field(least=1)]`."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """The declaration of a field. `corral.declared` derives from it whatever else is said of the field.

    Attributes:
        told: events about a row have this field. Other fields are in listings alone.
    """

    told: bool = True
