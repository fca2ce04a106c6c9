"""The pages and the sessions of one server, which their routes share."""

from dataclasses import dataclass, field

from starlette.requests import HTTPConnection

from corral.clock import Clock
from corral.core.access.caller import Caller
from corral.features.dashboard import cookies
from corral.features.dashboard.listener import LoopbackListener
from corral.features.dashboard.login_links import LoginLinks
from corral.features.dashboard.page_files import PageFiles


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

    def secret_in(self, connection: HTTPConnection) -> str | None:
        """As `corral.api.requests.auth.Sessions` has it, and the two below."""
        return cookies.read(connection, self.proxied_host)

    def digest_of(self, secret: str, connection: HTTPConnection) -> str:
        return cookies.digest(secret, cookies.way(connection))

    def must_be_of(self, caller: Caller, connection: HTTPConnection) -> None:
        cookies.must_be_of(caller, connection)
