"""`corral submit`: queue a script or a command and return at once."""

from collections.abc import Sequence

from corral.cli.commands import running
from corral.cli.commands.job_options import SubmitFlags
from corral.cli.direct.submit_command import tell, tell_elements
from corral.cli.jobs.dry_run import show_forecast
from corral.cli.jobs.files import showing_uploads
from corral.cli.jobs.flags import filled, options_of, said, spell
from corral.cli.screen import exit_code_of, say
from corral.cli.scripts.sbatch import marked
from corral.cli.scripts.script import Script, read_script
from corral.cli.scripts.script_header import at_its_line
from corral.cli.scripts.script_mistakes import Mistaken
from corral.client import Client
from corral.client.submitting.request import submission
from corral.core.model.errors import Refused
from corral.core.model.jobs.script_copy import STANDARD_INPUT


def submit(given: running.SubmitCommand) -> int:
    """Run `corral submit`."""
    command, flags, dry_run, origins = list(given.words), given.flags, given.dry_run, dict[str, str]()
    slurm_tasks, text = None, None
    if not given.after_dashes:
        script = _read(given.words, flags)
        own = script.flags if flags.gpus is None else script.flags.but(exclusive=False)
        origins = {name: where for name, where in script.origins.items() if not said(getattr(flags, name))}
        command, flags, dry_run = list(script.command), filled(flags, own), dry_run or script.test_only
        slurm_tasks, text = script.slurm_tasks, script.text
    try:
        with Client() as client:
            request = submission(
                command, options_of(flags, client), script=not given.after_dashes, script_text=text, spell=spell
            )
            if slurm_tasks is not None:
                request = marked(request, slurm_tasks)
            if dry_run:
                return show_forecast(client.dry_run(request), json=given.json)
            with showing_uploads(client):
                job = client.submit(request)
    except Refused as refused:
        raise at_its_line(refused, origins) from None
    tell(job.id, job.notes, json=given.json)
    if request.elements is not None and not given.json:
        tell_elements(job.id, request.elements.indices)
    return 0


def _read(words: Sequence[str], flags: SubmitFlags) -> Script:
    """The script with its arguments, after its warnings were shown. Exits if it has mistakes."""
    try:
        script = read_script(words[0], words[1:], flags)
    except Mistaken as mistaken:
        for mistake in mistaken.mistakes:
            say(mistake)
        raise SystemExit(exit_code_of(mistaken)) from None
    if script.ignored:
        shown = "standard input" if words[0] == STANDARD_INPUT else words[0]
        say(f"{shown}: ignored because they have no meaning here: {', '.join(script.ignored)}")
    for warning in script.warnings:
        say(warning)
    return script
