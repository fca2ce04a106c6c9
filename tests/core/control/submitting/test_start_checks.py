"""What is missing on every node is refused before it is queued, and what only some lack is told with their names."""

from dataclasses import replace

import pytest

from corral.core.access.caller import Caller
from corral.core.control.submitting.file_findings import FileFindings, NodeFindings
from corral.core.control.submitting.start_checks import lacks_what_starts, start_notes
from corral.core.model.devices.device import Node
from corral.core.model.errors import Refused
from corral.core.model.fact import NodeObserved
from corral.core.model.jobs.submission import Submission
from corral.core.model.view import View
from corral.core.preflight.program_lookup import ProgramFinding, ProgramState

JOB = Submission(("python", "slow.py"), workdir="/work", env={"PATH": "/usr/bin"}, output="out/%j.log")
THERE = NodeFindings(outputs=(("out", True),))
LACKS_PROGRAM = replace(THERE, program=ProgramFinding(ProgramState.MISSING, instead="python3"))
LACKS_OUTPUT = NodeFindings(outputs=(("out", False),))
LACKS_SCRIPT = replace(THERE, script=False)
UNSEEN = NodeFindings(program=None, outputs=(("out", None),), script=None)


def notes(submission: Submission = JOB, **findings: NodeFindings) -> tuple[str, ...]:
    view = View().advance(NodeObserved(Node(name, (), 1000, 1000)) for name in findings)
    return start_notes(view, submission, Caller("alice", 1, 1), FileFindings(findings))


def test_a_program_that_no_node_has_is_refused_with_where_it_was_looked_for() -> None:
    with pytest.raises(Refused, match=r"^command not found: python; looked in PATH=/usr/bin; there is python3; -"):
        notes(a=LACKS_PROGRAM)
    with pytest.raises(Refused, match=r"^command not found on a, b: python; ") as refused:
        notes(a=LACKS_PROGRAM, b=LACKS_PROGRAM)
    assert refused.value.field == "program"


def test_a_file_to_run_that_no_node_has_is_refused() -> None:
    with pytest.raises(Refused, match=r"^'python' is to run 'slow.py', and there is no such file on a, b, seen from"):
        notes(a=LACKS_SCRIPT, b=LACKS_SCRIPT)


def test_a_directory_for_output_that_no_node_has_is_refused() -> None:
    with pytest.raises(Refused, match="directory for output 'out' does not exist, or may not be entered; make it"):
        notes(a=LACKS_OUTPUT)


@pytest.mark.parametrize("lacking", [LACKS_PROGRAM, LACKS_SCRIPT, LACKS_OUTPUT])
def test_what_only_some_nodes_lack_is_a_note_with_their_names(lacking: NodeFindings) -> None:
    (note,) = notes(a=THERE, b=lacking)
    assert " on b" in note
    assert notes(a=THERE, b=THERE) == ()


def test_what_did_not_answer_is_not_known_to_be_missing() -> None:
    assert "python' could not be looked up in time (3 s)" in notes(a=UNSEEN)[0]
    assert len(notes(a=UNSEEN, b=LACKS_PROGRAM)) == 2


@pytest.mark.parametrize("later", [{"after": ("17",)}, {"begin_at": 5.0}])
@pytest.mark.parametrize(
    "lacking", [LACKS_PROGRAM, LACKS_SCRIPT, LACKS_OUTPUT, NodeFindings(enterable=False, program=None)]
)
def test_what_may_be_made_until_the_job_starts_is_a_note(later: dict[str, object], lacking: NodeFindings) -> None:
    job = replace(JOB, **later)  # type: ignore[arg-type]
    (note,) = notes(job, a=lacking)
    assert note.endswith("; it must be there when the job starts")
    assert not lacks_what_starts(job, FileFindings({"a": lacking}))


@pytest.mark.parametrize("lacking", [LACKS_PROGRAM, LACKS_SCRIPT, LACKS_OUTPUT])
def test_force_lets_it_in_with_a_note(lacking: NodeFindings) -> None:
    assert len(notes(replace(JOB, force=True), a=lacking)) == 1
    assert lacks_what_starts(JOB, FileFindings({"a": lacking}))
    assert not lacks_what_starts(JOB, FileFindings({"a": lacking, "b": THERE}))


def test_a_missing_working_directory_is_said_once() -> None:
    with pytest.raises(Refused) as refused:
        notes(replace(JOB, force=True), a=NodeFindings(enterable=False, program=LACKS_PROGRAM.program))
    assert refused.value.field == "workdir"
