"""The result of one check of `corral doctor`."""

from dataclasses import dataclass

OK, WARNING, FAILURE = "ok", "warning", "failure"


@dataclass(frozen=True)
class CheckResult:
    """One check's result: what it is about, how bad, what was found, and what to do about it."""

    about: str
    state: str
    found: str
    advice: str = ""
