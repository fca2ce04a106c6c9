"""All kinds of traffic scenarios of genai-bench, and the tasks for each. Pure."""

import re
from collections.abc import Mapping

_PAIR = r"\(\d+,\d+\)"
_FORMS: Mapping[str, re.Pattern[str]] = {
    "D": re.compile(rf"D{_PAIR}"),
    "N": re.compile(rf"N{_PAIR}/{_PAIR}"),
    "U": re.compile(rf"U{_PAIR}(/{_PAIR})?"),
    "E": re.compile(r"E\(\d+\)"),
    "R": re.compile(rf"R{_PAIR}"),
    "I": re.compile(r"I\(\d+,\d+(,\d+)?\)"),
    "A": re.compile(r"A\(\d+\)"),
    "dataset": re.compile(r"dataset"),
}
_KINDS_OF_TASKS: Mapping[str, tuple[str, ...]] = {
    "text-to-text": ("D", "N", "U", "dataset"),
    "text-to-embeddings": ("E", "dataset"),
    "text-to-rerank": ("R", "dataset"),
    "text-to-image": ("I", "dataset"),
    "text-to-speech": ("A", "dataset"),
    "image-text-to-text": ("I", "dataset"),
    "image-to-embeddings": ("I", "dataset"),
}
_MOST_DIGITS = 7


def written_plainly(scenario: str) -> str:
    """Return a scenario without blanks, as genai-bench requires."""
    return re.sub(r"\s+", "", scenario)


def why_no_scenario(task: str, scenario: str) -> str | None:
    """Return why genai-bench has no such traffic for a task, None if it has."""
    kinds = _KINDS_OF_TASKS.get(task)
    if kinds is None:
        return f"there is no task {task!r:.60}; known: {', '.join(_KINDS_OF_TASKS)}"
    plain = written_plainly(scenario)
    kind = next((kind for kind, form in _FORMS.items() if form.fullmatch(plain)), None)
    if kind not in kinds:
        return (
            f"{scenario!r:.60} is no scenario for {task}; write one of the kinds {', '.join(kinds)}, in whole numbers"
        )
    if max((len(digits) for digits in re.findall(r"\d+", plain)), default=0) > _MOST_DIGITS:
        return f"{scenario!r:.60} has a number of more than {_MOST_DIGITS} digits"
    return None
