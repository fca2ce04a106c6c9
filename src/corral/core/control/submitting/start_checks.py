"""Checks whether a job could be started on its nodes: its working directory, its program, its output."""

from collections.abc import Sequence

from corral.core.access.caller import Caller
from corral.core.control.submitting.file_findings import FileFindings
from corral.core.model.errors import Refused
from corral.core.model.jobs.script_copy import STANDARD_INPUT, place_of_script
from corral.core.model.jobs.submission import Submission
from corral.core.model.view import View
from corral.core.preflight.program_lookup import ProgramState, search_path, trouble
from corral.core.preflight.script_argument import no_such_file, script_argument
from corral.core.scheduling.queueing.barred_nodes import barred_to

_MOST_NAMED = 4
_LATER = "; it must be there when the job starts"
_FORCE = "; --force submits it anyway"
_FIELDS = {ProgramState.NOT_EXECUTABLE: "program.mode"}
"""The error fields by which `corral run` distinguishes exit code 126 (not executable) from 127 (not found)."""


def start_notes(view: View, submission: Submission, caller: Caller, files: FileFindings) -> tuple[str, ...]:
    """Return notes about files that are missing on some nodes, or unknown. Raises Refused for files that are missing on
    all.

    A missing file is a note if the job starts later (`after`, `begin_at`), because it may be made until then. With
    `force` it is a note too, except for the working directory.
    """
    return (
        *_barred_notes(view, submission, caller),
        *_directory_notes(view, submission, caller, files),
        *_program_notes(view, submission, files),
        *_script_notes(view, submission, files),
        *_output_notes(view, submission, files),
    )


def lacks_what_starts(submission: Submission, files: FileFindings) -> bool:
    """Return whether the submission would be refused without `force` because of missing files."""
    lacks = files.without_program or files.without_script or bool(files.missing_outputs)
    return lacks and not _starts_later(submission)


def listed(nodes: Sequence[str]) -> str:
    """Return the names of a few nodes, and the number of the others."""
    more = f" and {len(nodes) - _MOST_NAMED} more" if len(nodes) > _MOST_NAMED else ""
    return ", ".join(nodes[:_MOST_NAMED]) + more


def where(view: View, nodes: Sequence[str]) -> str:
    """ " on gpu-03, gpu-07"; "" on a server with a single node."""
    return f" on {listed(nodes)}" if len(view.nodes) > 1 else ""


def _starts_later(submission: Submission) -> bool:
    return bool(submission.after) or submission.begin_at is not None


def _barred_notes(view: View, submission: Submission, caller: Caller) -> tuple[str, ...]:
    """Return a note for each reason for which named nodes, or all that remain, cannot run the job."""
    barred = barred_to(view, caller.user, submission.container)
    allowed = {name for name in view.nodes if submission.request.allows_node(name)}
    if not barred or not (submission.request.named_nodes or allowed <= barred.keys()):
        return ()
    nodes: dict[str, list[str]] = {}
    for name in sorted(allowed & barred.keys()):
        nodes.setdefault(barred[name], []).append(name)
    notes = tuple(f"{listed(names)} cannot run {reason}" for reason, names in nodes.items())
    return (*notes, "so this job waits until that is mended") if allowed <= barred.keys() else notes


def _directory_notes(view: View, submission: Submission, caller: Caller, files: FileFindings) -> tuple[str, ...]:
    if {found.enterable for found in files.nodes.values()} == {True}:
        return ()
    directory = f"the working directory {submission.workdir!r:.200}"
    if not files.nodes:
        unchecked = f"{directory} could not be checked: no node that could run the job answers now"
        return (f"{unchecked}; the job will fail if it does not exist",)
    missing = [node for node, found in files.nodes.items() if found.enterable is False]
    if files.unusable:
        single = len(view.nodes) <= 1
        place = "this machine" if single else listed(missing)
        what = f"{directory} is not a directory {f'on {place} ' if single else ''}that {caller.user} can use"
        if _starts_later(submission):
            return (f"{what}{where(view, missing)}{_LATER}",)
        if single:
            raise Refused(f"{what}; choose another with --workdir", field="workdir")
        raise Refused(
            f"{what} on {place}, where the job could start soonest; send it along with --upload DIR, choose another "
            "with --workdir, or a node that has it with --node",
            field="workdir",
        )
    notes = []
    if missing:
        there = [node for node, found in files.nodes.items() if found.enterable]
        notes.append(
            f"{directory} is not a directory on {listed(missing)}{_instead(there)} choose another directory with "
            "--workdir"
        )
    unseen = [node for node, found in files.nodes.items() if found.enterable is None]
    if unseen:
        notes.append(
            f"{directory} could not be checked in time (3 s){where(view, unseen)}; "
            "the job will fail if it does not exist"
        )
    return tuple(notes)


def _instead(there: Sequence[str]) -> str:
    return f"; it is on {listed(there)}: name a node with --node, or" if there else ";"


def _program_notes(view: View, submission: Submission, files: FileFindings) -> tuple[str, ...]:
    # A missing working directory was reported already, and no relative path can be followed from it.
    usable = {node: found.program for node, found in files.nodes.items() if found.enterable is not False}
    lacking = {node: program for node, program in usable.items() if program is not None and not program.found}
    notes = []
    if lacking:
        first = next(iter(lacking.values()))
        path = search_path(submission.env)
        on = where(view, list(lacking))
        text = trouble(first, _what_starts(submission), path, submission.workdir, on)
        if not files.without_program:
            there = [node for node, program in usable.items() if program is not None and program.found]
            notes.append(f"{text}{f'; it is on {listed(there)}: name a node with --node' if there else ''}")
        elif _starts_later(submission):
            notes.append(text + _LATER)
        elif submission.force:
            notes.append(text)
        else:
            raise Refused(text + _FORCE, field=_FIELDS.get(first.state, "program"))
    unseen = [node for node, found in files.nodes.items() if found.enterable and found.program is None]
    if unseen:
        notes.append(
            f"the program {submission.command[0]!r:.200} could not be looked up in time (3 s){where(view, unseen)}; "
            "the job will fail if it does not exist"
        )
    return tuple(notes)


def _what_starts(submission: Submission) -> str:
    """Return the script that was copied, or else the program."""
    command, text = submission.command, submission.script_text
    if text is None:
        return command[0]
    script = command[place_of_script(command, text)]
    return "standard input" if script == STANDARD_INPUT else script


def _script_notes(view: View, submission: Submission, files: FileFindings) -> tuple[str, ...]:
    usable = {node: found.script for node, found in files.nodes.items() if found.enterable is not False}
    lacking = [node for node, there in usable.items() if there is False]
    script = script_argument(submission.command)
    if not lacking or script is None:
        return ()
    text = no_such_file(submission.command[0], script.name, submission.workdir, where(view, lacking))
    if not files.without_script:
        there = [node for node, found in usable.items() if found]
        return (f"{text}{f'; it is on {listed(there)}: name a node with --node' if there else ''}",)
    if _starts_later(submission):
        return (text + _LATER,)
    if submission.force:
        return (text,)
    raise Refused(text + _FORCE, field="command")


def _output_notes(view: View, submission: Submission, files: FileFindings) -> tuple[str, ...]:
    usable = {node: dict(found.outputs) for node, found in files.nodes.items() if found.enterable is not False}
    notes = []
    for name in dict.fromkeys(name for outputs in usable.values() for name in outputs):
        lacking = [node for node, outputs in usable.items() if outputs.get(name) is False]
        if not lacking:
            continue
        text = f"the directory for output {name!r:.200} does not exist{where(view, lacking)}, or may not be entered"
        if name not in files.missing_outputs or submission.force:
            notes.append(text)
        elif _starts_later(submission):
            notes.append(text + _LATER)
        else:
            raise Refused(f"{text}; make it (mkdir -p){_FORCE}", field="output")
    return tuple(notes)
