"""A rule: a pattern for the beginning of an error's text, and the diagnosis if it matches."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from corral.core.diagnosis.failure import Diagnosis, Failure
from corral.core.diagnosis.log_end import LogLine


@dataclass(frozen=True, slots=True)
class Case:
    """The input of a rule: the failure, and the lines of the log's end."""

    failure: Failure
    lines: Sequence[LogLine]


Says = Callable[[re.Match[str], Case], Diagnosis | None]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule for one kind of error.

    Attributes:
        pattern: matched from the beginning of a line's text; anchored and bounded, because the text is untrusted.
        says: returns the diagnosis, or None if the match does not suffice.
        bare: the line needs no mark of an error, because its wording is unique.
        consequence: the error mostly follows from another, which is searched before it in the log.
        exit_codes: the job must have ended with one of these; () is any.
        exception: the name that the error must have; "" is any.
    """

    pattern: re.Pattern[str]
    says: Says
    bare: bool = False
    consequence: bool = False
    exit_codes: tuple[int, ...] = ()
    exception: str = ""

    def applies(self, line: LogLine, case: Case) -> Diagnosis | None:
        """Return the diagnosis of the line, or None if the rule does not match."""
        if not (line.error or self.bare) or (self.exit_codes and case.failure.exit_code not in self.exit_codes):
            return None
        if self.exception and self.exception not in line.exceptions:
            return None
        match = self.pattern.match(line.text)
        found = None if match is None else self.says(match, case)
        return found if found is None or not self.consequence else replace(found, consequence=True)


def rule(
    pattern: str,
    says: Says,
    *,
    bare: bool = False,
    consequence: bool = False,
    exit_codes: tuple[int, ...] = (),
    exception: str = "",
) -> Rule:
    """Return a rule for a pattern in the syntax of `re`."""
    return Rule(re.compile(pattern), says, bare, consequence, exit_codes, exception)


def always(what: str, fix: str | Callable[[Failure], str]) -> Says:
    """Return the same diagnosis for each match. A fix that names options depends on its reader."""
    return lambda _match, case: Diagnosis(what, fix if isinstance(fix, str) else fix(case.failure))


def returned_by_driver(name: str, text: str) -> str:
    """Return the pattern of lines that report a result of the driver's API, as programs that call it print them.

    Examples: "CUDA_ERROR_UNKNOWN", "Error: f:62 returned CUDA_ERROR_UNKNOWN", "cuInit = 999 (CUDA_ERROR_UNKNOWN): ...",
    and pycuda's "cuInit failed: unknown error".
    """
    returned = r"[\w:.()]{1,80} (?:failed|returned|=)(?: with)?(?: error)?:? (?:\d{1,4} )?"
    call = rf"(?:{returned}|[Ff]ailed to [\w ]{{1,60}}: )?[(\[]?"
    return rf"(?:\w{{1,20}}: )?(?:{call}CUDA_ERROR_{name}\b|cu[A-Z]\w{{1,60}} failed: {text})"
