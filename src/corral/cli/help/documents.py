"""The user documents that are installed with the package: `corral help docs` lists them, and shows one."""

import io
import os
import posixpath
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import corral
from corral.cli.screen import width, write_lines
from corral.core.model.errors import NotFound, nearest

README = "readme"
_LINK = re.compile(r"(?P<alone>\()?\[(?P<words>[^\]]+)\]\((?P<target>[^)\s]+)\)(?(alone)\))")
"""A Markdown link. `alone` is set if the link is all that stands in parentheses."""

_CODE_BLOCK = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)
_WIDEST = 110


def documents() -> dict[str, Path]:
    """Each document by its name. A wheel has them beside its modules (pyproject.toml), a checkout in docs/."""
    package = Path(corral.__file__).parent
    checkout = package.parent.parent
    if (package / "docs").is_dir():
        found = sorted((package / "docs").glob("*.md"))
    else:
        found = [checkout / "README.md", *sorted((checkout / "docs").glob("*.md"))]
    return {path.stem.lower(): path for path in found if path.is_file()}


def list_documents() -> None:
    """Write the name and the title of each document."""
    found = documents()
    widest = max(map(len, found), default=0)
    write_lines(*(f"{name:<{widest}}  {_title(path)}" for name, path in found.items()))
    write_lines("", "`corral help docs NAME` shows one.")


def show_document(name: str) -> None:
    """Show a document: formatted in a pager on a terminal, else as it is. Raises NotFound."""
    found = documents()
    wanted = posixpath.basename(name).lower().removesuffix(".md")
    if wanted not in found:
        hint = nearest(wanted, found) or "`corral help docs` lists them all"
        raise NotFound(f"there is no document {name!r}; {hint}")
    text = linked_for_terminals(found[wanted].read_text(encoding="utf-8"), wanted, found)
    pager = _pager()
    if pager and sys.stdout.isatty():
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the pager
        subprocess.run(pager, input=_laid_out(text), text=True, env={"LESS": "FRX", **os.environ}, check=False)
    else:
        write_lines(*text.splitlines())


def linked_for_terminals(text: str, name: str, known: dict[str, Path]) -> str:
    """A document's Markdown with links that a terminal's user can follow: a command, an address, or a file's path."""
    folder = "" if name == README else "docs"

    def told(link: re.Match[str]) -> str:
        place = place_of(link["target"])
        if link["alone"]:
            return f"({link['words']}: {place})" if place else f"({link['words']})"
        return f"{link['words']} ({place})" if place else link["words"]

    def place_of(address: str) -> str:
        target = address.partition("#")[0]
        if not target:  # a link within the same document
            return ""
        if "://" in target:
            return address
        path = posixpath.normpath(posixpath.join(folder, target))
        other = posixpath.basename(path).removesuffix(".md").lower()
        is_document = other in known and path in ("README.md", f"docs/{other}.md")
        return f"`corral help docs {other}`" if is_document else f"{path} in the source"

    parts = _CODE_BLOCK.split(text)
    return "".join(part if part.startswith("```") else _LINK.sub(told, part) for part in parts)


def _title(path: Path) -> str:
    with path.open(encoding="utf-8") as file:
        return file.readline().lstrip("# ").strip()


def _laid_out(text: str) -> str:
    from rich.console import Console
    from rich.markdown import Markdown
    from rich.theme import Theme

    written = io.StringIO()
    plain = bool(os.environ.get("NO_COLOR"))
    theme = Theme({"markdown.code": "cyan"})  # as for all code here: no background, which suits few terminals
    console = Console(file=written, force_terminal=True, no_color=plain, width=min(width(), _WIDEST), theme=theme)
    console.print(Markdown(text, code_theme="ansi_dark"))
    return written.getvalue()


def _pager() -> list[str]:
    """The words of $PAGER, else of an installed pager; [] if there is none. less gets an option to show colours."""
    wanted = shlex.split(os.environ.get("PAGER", ""))
    for words in (wanted, ["less"], ["more"]):
        if words and shutil.which(words[0]):
            return [*words, "-R"] if posixpath.basename(words[0]) == "less" else words
    return []
