"""`corral fetch`, and what is shown of files that are sent and fetched."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from corral.cli.commands import running
from corral.cli.direct.named_job import job_meant
from corral.cli.screen import print_json, say
from corral.cli.tables.progress import ProgressLine
from corral.client import Client
from corral.client.connecting.transport import Transport
from corral.client.files.fetching import Fetched
from corral.core.model.printable import printable
from corral.core.model.units import count_of, format_bytes

INCOMPLETE = 1
"""The exit code if some files were not fetched."""

_MOST_NAMED = 20


@contextmanager
def showing_uploads(client: Client) -> Iterator[None]:
    """Show on a terminal how much of a directory was sent."""
    line = ProgressLine()

    def show(sent_bytes: int, all_bytes: int) -> None:
        shown = f"sending files: {format_bytes(sent_bytes)} of at most {format_bytes(all_bytes)}"
        line.show(sent_bytes, max(sent_bytes, all_bytes), shown)

    if sys.stderr.isatty():
        client.on_upload = show
    try:
        yield
    finally:
        line.clear()


def fetch(given: running.FetchCommand) -> int:
    """Run `corral fetch`."""
    with Client() as client:
        job_id = job_meant(Transport(client.address), given.job_id)
        fetched = client.jobs.fetch(job_id, given.directory, rank=given.rank, force=given.force)
    if given.json:
        print_json(
            {
                "directory": fetched.directory,
                "files": fetched.files,
                "written": fetched.written,
                "kept": fetched.kept,
                "left_out": fetched.left_out,
            }
        )
    return tell(fetched)


def fetch_what_is_left(client: Client, job_id: str, workdir: str, download: str) -> None:
    """Fetch what an ended job has left, to the place that it has in the job's directory."""
    tell(client.jobs.fetch(job_id, os.path.join(workdir, download)))


def tell(fetched: Fetched) -> int:
    """Say what was fetched and what was not. Return the exit code."""
    here = fetched.files - fetched.written
    same = f", {here} of them here already" if here and not fetched.kept else ""
    size = format_bytes(fetched.size_bytes)
    say(f"{count_of(fetched.files, 'file')} ({size}){same}, in {printable(os.path.relpath(fetched.directory))}")
    for path in fetched.kept[:_MOST_NAMED]:
        say(f"not replaced: {printable(path)}")
    if len(fetched.kept) > _MOST_NAMED:
        say(f"not replaced: {len(fetched.kept) - _MOST_NAMED} more")
    if fetched.kept:
        say("--force replaces files that are newer here")
    for path in fetched.left_out:
        say(f"left out: {printable(path)}")
    return INCOMPLETE if fetched.kept or fetched.left_out else 0
