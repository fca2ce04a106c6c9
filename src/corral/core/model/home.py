"""The paths of one server's files under `$CORRAL_HOME`, for the server and its clients.

This module only computes paths; nothing here reads the disk.
"""

from __future__ import annotations

from functools import cached_property

from corral.core.model.errors import Refused

TYPE_CHECKING = False  # what every command loads needs neither `typing` nor `pathlib`
if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

SOCKET_PATH_BYTES = 107
"""The longest path of a Unix socket: `sun_path` of unix(7) is 108 bytes with its closing NUL."""


def agent_home(user_home: Path, *, by_root: bool) -> Home:
    """Return the home of the agent that serves the server of another host: root's, or that of this user."""
    return Home("/var/lib/corral-agent" if by_root else user_home / ".local/share/corral-agent")


class Home:
    """The directory of one server, with the paths of its files."""

    def __init__(self, root: Path | str) -> None:
        self._root = _tidy(str(root))

    def __str__(self) -> str:
        return self._root

    def __repr__(self) -> str:
        return f"Home({self._root!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Home) and self._root == other._root

    def __hash__(self) -> int:
        return hash(self._root)

    @cached_property
    def root(self) -> Path:
        """The directory itself."""
        from pathlib import Path

        return Path(self._root)

    @property
    def socket_path(self) -> str:
        """The server's socket. Raises Refused if the path is longer than a socket's may be."""
        return _socket_path(f"{self._root.rstrip('/')}/corral.sock")

    @property
    def socket(self) -> Path:
        """The server's socket as a path object. Raises Refused as `socket_path` does."""
        from pathlib import Path

        return Path(self.socket_path)

    @property
    def notify_socket(self) -> Path:
        """The socket on which supervisors report ends of jobs. Raises Refused as `socket_path` does."""
        from pathlib import Path

        return Path(_socket_path(f"{self._root.rstrip('/')}/notify.sock"))

    @property
    def agent_socket(self) -> Path:
        """The socket of the agent with this home."""
        return self.root / "agent.sock"

    @property
    def claim_file(self) -> Path:
        """The claim of the server that the agent with this home serves."""
        return self.root / "server.json"

    @property
    def lock_file(self) -> Path:
        """The lock file. The one server of this home locks it while it runs."""
        return self.root / "corral.lock"

    @property
    def pid_file(self) -> Path:
        """The file whose first word is the pid of the server."""
        return self.root / "corral.pid"

    @property
    def token_file(self) -> Path:
        """The server owner's own token for TCP, readable by that user alone."""
        return self.root / "token"

    @property
    def config_file(self) -> Path:
        """The site's settings; it need not exist."""
        return self.root / "config.yaml"

    @property
    def clock_file(self) -> Path:
        """The file with the start of this boot, by which servers of this home count time."""
        return self.root / "clock.json"

    @property
    def page_port_file(self) -> Path:
        """The file with the port of this machine for the server's pages, once somebody asked for the pages."""
        return self.root / "page-port"

    @property
    def cluster_tag_file(self) -> Path:
        """The file with the tag of the server's pods, which distinguishes them in a Kubernetes cluster."""
        return self.root / "cluster-tag"

    @property
    def hosts_file(self) -> Path:
        """The hosts that were joined by SSH, and what is known of each."""
        return self.root / "hosts.json"

    @property
    def hosts_tag_file(self) -> Path:
        """The file with the tag by which agents of other hosts know their server."""
        return self.root / "hosts-tag"

    @property
    def ssh_key_file(self) -> Path:
        """The server's own key for hosts where it reaches the agent and nothing else."""
        return self.root / "ssh" / "id_ed25519"

    @property
    def server_log(self) -> Path:
        """The log of a detached server."""
        return self.root / "server.log"

    @property
    def ledger_url(self) -> str:
        """The URL of the ledger, unless the site names another."""
        return f"sqlite:///{self.root / 'ledger.db'}"

    @property
    def history_file(self) -> Path:
        """The measured history of devices. No decision depends on it."""
        return self.root / "history.db"

    @property
    def deliveries_file(self) -> Path:
        """Messages to be sent, and the channels of users: secrets, readable by the owner alone."""
        return self.root / "deliveries.db"

    @cached_property
    def logs(self) -> Path:
        """The jobs' logs, by `log_name`."""
        return self.root / "logs"

    @cached_property
    def scratch(self) -> Path:
        """The jobs' scratch directories, `<id>/`."""
        return self.root / "scratch"

    @cached_property
    def launches(self) -> Path:
        """The files through which server and supervisors exchange the state of each launch."""
        return self.root / "launches"

    @property
    def notifications(self) -> Path:
        """The commands to run for jobs that have ended, and the ids of those that ran."""
        return self.root / "notifications"

    @cached_property
    def programs(self) -> Path:
        """The programs that Corral adds to the PATH of jobs."""
        return self.root / "bin"

    @property
    def power_limits(self) -> Path:
        """The records of devices whose power limit a job has changed."""
        return self.root / "power-limits"

    @property
    def uploads(self) -> Path:
        """The contents of directories that users uploaded for their jobs."""
        return self.root / "uploads"

    @property
    def trees(self) -> Path:
        """The directory for what a node keeps of such directories, and of those that jobs leave for their users."""
        return self.root / "trees"

    @property
    def nodes(self) -> Path:
        """The homes of the agents of a mock cluster, by the names of their nodes."""
        return self.root / "nodes"

    def log_of(self, job_id: str, rank: int = 0) -> Path:
        """The log of one member of a job."""
        return self.logs / log_name(job_id, rank)

    def scratch_of(self, job_id: str) -> Path:
        """The scratch directory of one job."""
        return self.scratch / job_id

    def script_of(self, job_id: str) -> Path:
        """The copy of a job's script on the node where it runs."""
        return self.scratch / job_id / "config" / "script"


def log_name(job_id: str, rank: int = 0) -> str:
    """The file name of a member's log: `<id>.log` for rank 0, `<id>.<rank>.log` for the others."""
    return f"{job_id}.{rank}.log" if rank else f"{job_id}.log"


def find_home(env: Mapping[str, str], working_dir: str | Path) -> Home:
    """The home that the environment names: `$CORRAL_HOME`, else `~/.corral`.

    A relative `$CORRAL_HOME` starts at `working_dir`. Raises Refused when neither it nor `$HOME` is set.
    """
    user_home = env.get("HOME", "")
    named = env.get("CORRAL_HOME", "")
    if not named or named.startswith("~/"):
        if not user_home:
            raise Refused("neither CORRAL_HOME nor HOME is set; set CORRAL_HOME to a directory", field="CORRAL_HOME")
        named = named.replace("~", user_home, 1) if named else f"{user_home}/.corral"
    return Home(named if named.startswith("/") else f"{working_dir}/{named}")


def _tidy(path: str) -> str:
    """The path as `pathlib` writes it: without redundant parts, such as /./ and a slash at its end."""
    start = "/" if path.startswith("/") else ""
    return start + "/".join(part for part in path.split("/") if part not in ("", ".")) or "."


def _socket_path(path: str) -> str:
    length = len(path.encode(errors="surrogateescape"))
    if length > SOCKET_PATH_BYTES:
        raise Refused(
            f"{path} is {length} bytes long, and a Unix socket's path may have {SOCKET_PATH_BYTES}; "
            f"set CORRAL_HOME to a directory whose path is at least {length - SOCKET_PATH_BYTES} bytes shorter",
            field="CORRAL_HOME",
        )
    return path
