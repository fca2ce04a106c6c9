"""An option of sbatch(1) as a script says it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Said:
    """An option as written in a script: `option` as it is spelled, `where` with file and line."""

    value: str | None
    option: str
    where: str
    line: int

    @property
    def text(self) -> str:
        """The option with its value, as it was written."""
        if self.value is None:
            return self.option
        return f"{self.option}{'=' if self.option.startswith('--') else ' '}{self.value}"
