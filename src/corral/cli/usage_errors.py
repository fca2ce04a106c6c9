"""What is wrong with a command line, in words: typer's errors, with flags of other tools named as here."""

from typing import Any

from typer.exceptions import TyperException

from corral.cli.other_tools import no_such_flag
from corral.cli.screen import told, width

_PREFIX = "Error: "


def said_of(error: TyperException) -> str:
    """What an error says, with the flag that it is about."""
    found: Any = error
    if hasattr(error, "possibilities"):
        flags = {spelled for param in found.ctx.command.params for spelled in param.opts if spelled.startswith("-")}
        return no_such_flag(found.option_name, flags, found.ctx.info_name)
    if hasattr(error, "param_type") or getattr(error, "param", None) is None:
        return error.format_message()
    flag = found.param.get_error_hint(found.ctx).split(" / ")[0].strip("'")
    value, is_not, _ = error.message.rpartition(" is not ")
    expected = _number_in_words(found.param.type)
    return f"{flag}: {value}{is_not}{expected}" if is_not and expected else f"{flag}: {error.message.rstrip('.')}"


def fit_to_terminal(error: TyperException) -> None:
    """Have typer show the error in these words and in lines of the terminal's width. A help text stays as it is."""
    if "\n" not in error.message:
        lines = told(f"{_PREFIX}{said_of(error)}", width())
        vars(error)["format_message"] = lambda: "\n".join(lines).removeprefix(_PREFIX)


def _number_in_words(kind: Any) -> str:
    """The numbers that an option takes; "" where it takes no number, or says itself what it takes."""
    noun = {"int": "a whole number", "float": "a number"}.get(str(getattr(kind, "name", "")).split(" ")[0])
    if noun is None:
        return ""
    least, most = getattr(kind, "min", None), getattr(kind, "max", None)
    if most is not None:
        return f"{noun} from {least} to {most}" if least is not None else f"{noun} of at most {most}"
    return noun if least is None else f"{noun} of at least {least}"
