"""`corral config check`: whether a server would take a file of settings, and what of it has an effect."""

from pathlib import Path
from typing import Annotated

import typer

from corral.cli.screen import example, print_json, write_lines
from corral.client import find_address
from corral.config import load_settings
from corral.control.arranging import arrange
from corral.model.errors import Refused
from corral.scheduling.site import site_policies
from corral.sharing.definitions import load_catalogue

app = typer.Typer(
    name="config",
    help="Look at a site's settings.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    epilog="\b\nExample:\n  corral config check cluster-config.yaml",
)


@app.callback()
def config() -> None:
    """Look at a site's settings, which are in $CORRAL_HOME/config.yaml."""


@app.command(epilog=example("corral config check", "corral config check cluster-config.yaml"))
def check(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="What to check.", show_default="the home's config.yaml")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check settings before a server reads them.

    Keys that Corral knows and does nothing with yet are listed. What is wrong is told with its line, and exits with 2.
    """
    path = find_address().home.config_file if file is None else file
    if not path.exists():
        raise Refused(f"there is no file {path}; without one every setting has its default", field="FILE")
    settings = load_settings(path)
    if settings.resource_names is not None:
        try:
            load_catalogue([path.parent / settings.resource_names])
        except Refused as refused:
            raise Refused(f"{settings.places['resource_names']}: {refused}") from None
    remarks = arrange(settings, None, site_policies()).remarks
    if json:
        print_json({"file": str(path), "unbuilt": list(settings.unbuilt), "remarks": list(remarks)})
        return
    for key in settings.unbuilt:
        write_lines(f"no effect yet: {key}")
    for remark in remarks:
        write_lines(f"note: {remark}")
    write_lines(f"{path} is good: a server takes it")
