"""The objects that the routes of the pages share."""

from dataclasses import dataclass, field

from corral.api.pages.files import PageFiles
from corral.api.pages.links import LoginLinks
from corral.api.pages.listener import LoopbackListener
from corral.clock import Clock


@dataclass(frozen=True, slots=True)
class Dashboard:
    """The pages of one server.

    `proxied_host` is the name under which a reverse proxy of this machine shows the pages. None if there is none.
    """

    listener: LoopbackListener
    clock: Clock
    files: PageFiles = field(default_factory=PageFiles)
    links: LoginLinks = field(default_factory=LoginLinks)
    proxied_host: str | None = None
