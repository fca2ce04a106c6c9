"""`corral dashboard`: open the pages of the server in a browser."""

import os
import sys
import webbrowser

from corral.cli.screen import say, write_lines
from corral.client import Client
from corral.features.dashboard import commands


def dashboard(given: commands.DashboardCommand) -> None:
    """Run `corral dashboard`."""
    with Client() as client:
        link = client.page_link()
    write_lines(link.url)
    sys.stdout.flush()
    if given.no_open:
        return
    if not _has_screen() or not webbrowser.open(link.url):
        port = link.url.partition("127.0.0.1:")[2].partition("/")[0]
        # Only root may listen on a low port, on the other machine too.
        near = int(port) + 8000 if int(port) < 1024 else int(port)
        changed = "" if near == int(port) else f", with {near} for {port}"
        forward = f"ssh -L {near}:127.0.0.1:{port} HOST"
        say(f"no browser here; open the link on this machine, or elsewhere{changed} after: {forward}")


def _has_screen() -> bool:
    """Whether a browser would have a window. A browser inside the terminal does not count."""
    return sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
