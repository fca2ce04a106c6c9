"""An agent without a server: its jobs run on, or end after a time, as the site says."""

import time

from corral.core.model.home import Home
from corral.core.model.runs.launch import LaunchPhase
from corral.host.node.launches.cut_off_from_server import IsolationWatch
from tests.host.node.conftest import CONFIG, RemoteHost, a_launch, ended, until


def test_isolation_is_told_once_and_again_after_another_call() -> None:
    told: list[str] = []
    watch = IsolationWatch(0.1, told.append)
    watch.start()
    until(lambda: told, "it is isolated")
    assert "not heard from its server" in told[0]
    watch.called()
    until(lambda: len(told) == 2, "it is isolated again")
    watch.close()
    assert len(told) == 2


def test_a_call_that_grows_old_before_it_is_looked_again_is_followed_by_another_end() -> None:
    told: list[str] = []
    after_s = 0.05

    def end_all(reason: str) -> None:
        told.append(reason)
        if len(told) == 1:
            watch.called()
            time.sleep(2 * after_s)

    watch = IsolationWatch(after_s, end_all)
    watch.start()
    until(lambda: len(told) == 2, "it is isolated again")
    watch.close()


def test_calls_keep_it_from_being_isolated() -> None:
    told: list[str] = []
    watch = IsolationWatch(30.0, told.append)
    watch.start()
    for _ in range(5):
        watch.called()
    watch.close()
    assert told == []


def test_jobs_of_an_agent_that_lost_its_server_end_where_the_site_wants_so_and_their_logs_say_why(home: Home) -> None:
    host = RemoteHost(home)
    host.end()
    home.config_file.write_text(f"{CONFIG}on_isolation: stop\nnode_silent_after: 1s\nnode_gone_after: 4s\n")
    host.start()
    host.node.launches.reconcile((), ())
    host.node.launches.launch(a_launch(1, "sleep", "600"))
    host.wait("1.1", LaunchPhase.RUNNING)
    # Whoever asks for a report has called, so only the log is looked at.
    until(lambda: "not heard from its server for 4s" in host.log("1"), "the job is ended")
    assert host.wait("1.1", LaunchPhase.EXITED).reason == "its node has not heard from its server for 4s (on_isolation)"
    ended(host)
