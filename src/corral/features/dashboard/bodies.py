"""The JSON body that begins a session of a browser."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Login:
    """The beginning of a browser's session: the code of a link from `corral dashboard`, or a token."""

    code: str | None = None
    token: str | None = None
