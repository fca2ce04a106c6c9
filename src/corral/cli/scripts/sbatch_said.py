"""An option of sbatch(1) as it is written in a script."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Said:
    """An option as written in a script: `option` with its spelling, `where` with file and line."""

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
