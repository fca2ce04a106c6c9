"""`corral submit`: queues a script or a command and returns at once."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from corral.cli.direct.submit_command import tell, tell_elements
from corral.cli.dry_run import show_forecast
from corral.cli.flag_classes import taking
from corral.cli.flags import SubmitFlags, filled, said, spell
from corral.cli.sbatch import marked
from corral.cli.screen import command_group, example, exit_code_of, say
from corral.cli.script import Script, read_script
from corral.cli.script_header import at_its_line
from corral.cli.script_mistakes import Mistaken
from corral.client import Client
from corral.client.request import submission
from corral.model.errors import Refused
from corral.model.script_copy import STANDARD_INPUT

_AFTER_DASHES = "corral.after_dashes"

app = command_group()


class _ScriptOrCommand(TyperCommand):
    """Notes whether the words stand after --: then they are a command, else a script and its arguments."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        given = list(args)
        rest = super().parse_args(ctx, args)
        before = len(given) - len(ctx.params.get("words") or ()) - 1
        ctx.meta[_AFTER_DASHES] = before >= 0 and given[before] == "--"
        return rest


@app.command(
    cls=_ScriptOrCommand,
    context_settings={"allow_interspersed_args": False},
    epilog=example("corral submit --gpus 2 --time 2h -- python train.py", "corral submit --array 0-9%2 train.sh"),
)
@taking(SubmitFlags)
def submit(
    ctx: typer.Context,
    flags: SubmitFlags,
    words: Annotated[
        list[str],
        typer.Argument(metavar="SCRIPT... | -- COMMAND...", help="A script with its arguments, or a command after --."),
    ],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Submit nothing; show whether and where it would start now.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help='Print JSON: {"id": ...}.')] = False,
) -> None:
    """Queue a script or a command, and print the job's id.

    A script may give flags in lines at its top: #CORRAL --gpus 2 --time 2h. Its #SBATCH lines are read, too; options
    that have no meaning here are ignored and listed. Such a script gets SLURM_JOB_ID, SLURM_ARRAY_TASK_ID and other
    SLURM_ variables. In a gang the script runs on the first member, and its srun runs commands on all. Flags on the
    command line override those in the script. The script is copied now: what you change in it later is for later jobs.
    Of a command after -- nothing is copied, nor are other files that a script or a command reads. With - the script
    is read from standard input.

    Output goes to the job's log (see `corral logs`), or to the files given with --output and --error.
    """
    command, is_script, origins = list(words), not ctx.meta[_AFTER_DASHES], dict[str, str]()
    slurm_tasks, text = None, None
    if is_script:
        script = _read(words, flags)
        own = script.flags if flags.gpus is None else replace(script.flags, exclusive=False)
        origins = {name: where for name, where in script.origins.items() if not said(getattr(flags, name))}
        command, flags, dry_run = list(script.command), filled(flags, own), dry_run or script.test_only
        slurm_tasks, text = script.slurm_tasks, script.text
    try:
        with Client() as client:
            request = submission(command, flags.options(client), script=is_script, script_text=text, spell=spell)
            if slurm_tasks is not None:
                request = marked(request, slurm_tasks)
            if dry_run:
                raise typer.Exit(show_forecast(client.dry_run(request), json=json))
            job = client.submit(request)
    except Refused as refused:
        raise at_its_line(refused, origins) from None
    tell(job.id, job.notes, json=json)
    if request.elements is not None and not json:
        tell_elements(job.id, request.elements.indices)


def _read(words: Sequence[str], flags: SubmitFlags) -> Script:
    """The script with its arguments, of which all is said that there is to say. Exits where it has mistakes."""
    try:
        script = read_script(words[0], words[1:], flags)
    except Mistaken as mistaken:
        for mistake in mistaken.mistakes:
            say(mistake)
        raise typer.Exit(exit_code_of(mistaken)) from None
    if script.ignored:
        shown = "standard input" if words[0] == STANDARD_INPUT else words[0]
        say(f"{shown}: ignored because they have no meaning here: {', '.join(script.ignored)}")
    for warning in script.warnings:
        say(warning)
    return script
