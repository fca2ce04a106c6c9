"""All commands, and the module of each. A module is loaded when its command is used."""

import importlib
import importlib.util
from typing import Any

import typer
from typer.core import TyperGroup

from corral.model.errors import nearest

COMMANDS = {
    "run": "run",
    "submit": "submit",
    "wait": "jobs",
    "ps": "listing",
    "why": "jobs",
    "logs": "jobs",
    "cancel": "jobs",
    "hold": "jobs",
    "release": "jobs",
    "requeue": "jobs",
    "status": "listing",
    "devices": "listing",
    "reserve": "reserve",
    "adopt": "reserve",
    "cordon": "cordon",
    "uncordon": "cordon",
    "nodes": "nodes",
    "drain": "nodes",
    "mig": "mig",
    "up": "local.server",
    "down": "local.server",
    "doctor": "local.doctor",
    "demo": "demo",
    "version": "local.server",
    "alloc-map": "local.alloc_map",
    "usage": "usage",
    "check": "local.check",
    "estimate": "local.estimate",
    "config": "local.config",
    "token": "token_command",
    "simulate": "local.simulate",
    "agent": "local.agent",
}
"""Each command and the module of this package that defines it."""


class _Commands(TyperGroup):
    """Loads a command only when it is used, so that no command pays for the others."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [name for name, module in COMMANDS.items() if importlib.util.find_spec(f"corral.cli.{module}")]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in self.list_commands(ctx):
            return None
        module = importlib.import_module(f"corral.cli.{COMMANDS[cmd_name]}")
        loaded = typer.main.get_command(module.app)
        found = loaded.commands.get(cmd_name, loaded) if isinstance(loaded, TyperGroup) else loaded
        pieces = found.collect_usage_pieces
        # A manual writes what is needed plainly, and typer in braces.
        vars(found)["collect_usage_pieces"] = lambda ctx: [piece.strip("{}") for piece in pieces(ctx)]
        return found

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if not args[0].startswith("-") and args[0] not in COMMANDS:
            ctx.fail(f"there is no command {args[0]!r}; {nearest(args[0], self.list_commands(ctx))}")
        return super().resolve_command(ctx, args)


app = typer.Typer(
    cls=_Commands,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
    epilog="\b\nExample:\n  corral run --gpus 2 -- python train.py",
)


@app.callback()
def corral() -> None:
    """Share GPUs: queue jobs, run them on the right GPUs, see why they wait.

    Commands talk to the server in $CORRAL_HOME (default ~/.corral), or to the one at $CORRAL_URL with $CORRAL_TOKEN
    (see "corral token").
    """
