"""The agent on a node of a cluster, in a process of its own. Run as `corral kubernetes agent`.

It reports the state of its node to the server every few seconds, and ends on SIGTERM. While the server is away it goes
on sampling, and tries again at longer and longer intervals.
"""

import argparse
import gc
import json
import logging
import os
import random
import signal
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from corral.clock import SystemClock
from corral.config import Settings, load_settings
from corral.core.model.errors import BackendFailed, CorralError, Refused
from corral.engines.kubernetes.agent.agent_report import REPORT_EVERY_S
from corral.engines.kubernetes.agent.own_node import KUBELET_DIR, OwnNode
from corral.engines.kubernetes.agent.report_sender import ReportSender
from corral.engines.kubernetes.agent.version_labelling import NodeLabelling
from corral.engines.kubernetes.cluster.client import Cluster
from corral.event_log import log_to_stderr
from corral.host.sharing.host_drivers import HostDrivers, arranged_by, host_drivers
from corral.vendors.vendor import Host
from corral.wire import to_plain

if TYPE_CHECKING:
    from corral.engines.kubernetes.agent.plugin.device_plugins import DevicePlugins

log = logging.getLogger("corral.agent")

BROKEN = 70
"""Exit status after a broken invariant: EX_SOFTWARE of sysexits.h."""

HOME = Path("/var/lib/corral")

TOKEN_FILE = Path("/var/run/secrets/corral/token")

LONGEST_WAIT_S = 60.0
"""The longest pause between two tries while the server takes no report."""


@dataclass(frozen=True, slots=True)
class NodeOptions:
    """The options of the agent of a node.

    Attributes:
        server: the address of the server, https://HOST:PORT.
        token_file: the projected token of the agent's pod.
        ca_file: the certificates to trust; None is the system's.
        node: the name of its node.
        kubelet_dir: the directory of the kubelet.
        node_labels: whether it writes the versions for programs as labels of its node.
        mock: a file with mock devices, in place of this host's.
        config: a file with settings, of which those on sharing devices count; None for none.
        device_plugin: whether it offers the devices to the kubelet.
        home: its directory, under the same path as on the host.
    """

    server: str
    token_file: Path
    ca_file: Path | None
    node: str | None
    kubelet_dir: Path
    node_labels: bool
    mock: Path | None
    config: Path | None
    device_plugin: bool
    home: Path


class Reporting:
    """Sends the reports of a node until it is stopped."""

    def __init__(
        self,
        node: OwnNode,
        sender: ReportSender,
        labels: NodeLabelling | None,
        plugins: "DevicePlugins | None",
        stop: threading.Event,
    ) -> None:
        self._node = node
        self._plugins = plugins
        self._sender = sender
        self._labels = labels
        self._stop = stop
        self._failed = 0
        self._said: str | None = None
        self._jitter = random.Random()

    def run(self) -> None:
        """Report until the stop. Raises nothing for a server that is away."""
        while True:
            plugins = self._plugins
            report = self._node.report() if plugins is None else self._node.report(plugins.given(), plugins.served())
            try:
                self._sender.send(json.dumps(to_plain(report, compact=True), separators=(",", ":")).encode())
            except BackendFailed as error:
                self._failed += 1
                if str(error) != self._said:
                    log.warning("%s; it is tried again", error)
                self._said = str(error)
            else:
                self._told()
            if self._labels is not None:
                self._labels.write(report.node)
            if self._stop.wait(self._pause_s()):
                return

    def _told(self) -> None:
        if self._said is not None:
            log.info("the server takes reports again")
        self._failed, self._said = 0, None

    def _pause_s(self) -> float:
        """The seconds until the next report. Many agents that lost one server do not return at once."""
        if not self._failed:
            return REPORT_EVERY_S
        longest_s = min(LONGEST_WAIT_S, REPORT_EVERY_S * 2.0 ** min(self._failed - 1, 10))
        return longest_s * self._jitter.uniform(0.5, 1.0)


def run(options: NodeOptions) -> int:
    """Report until SIGTERM. Return 0 after an orderly end, 1 if the agent could not start."""
    threading.excepthook = _crash
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        if options.node is None:
            raise Refused(
                "the node's name is missing; set NODE_NAME in the pod by the field spec.nodeName, or give --node",
                field="node",
            )
        sender = ReportSender(options.server, options.token_file, options.ca_file)
        labels = NodeLabelling(Cluster.connect(), options.node) if options.node_labels else None
        settings = Settings() if options.config is None else load_settings(options.config)
        host = Host(options.home, settings, described=options.mock is not None, by_root=os.geteuid() == 0)
        drivers = host_drivers(host)
        node = OwnNode(
            options.node,
            SystemClock(),
            mock=options.mock,
            kubelet_dir=options.kubelet_dir,
            arrangement=arranged_by(settings, drivers),
        )
        plugins = _device_plugins(options, options.node, node, drivers) if options.device_plugin else None
    except CorralError as error:
        log.error("%s", error)
        return 1
    node.start()
    if plugins is not None:
        plugins.start()
    # Objects that are alive now live until the end: no collection need look at them again.
    gc.collect()
    gc.freeze()
    log.info("reporting node %s to %s every %g s", options.node, options.server, REPORT_EVERY_S)
    try:
        Reporting(node, sender, labels, plugins, stop).run()
    finally:
        if plugins is not None:
            plugins.stop()
        node.close()
        sender.close()
    return 0


def _device_plugins(options: NodeOptions, name: str, node: OwnNode, drivers: HostDrivers) -> "DevicePlugins":
    """Return the plugins of the node. Raises Refused without the packages of the extra `kubelet`."""
    try:
        from corral.engines.kubernetes.agent.plugin.device_plugins import DevicePlugins, KubeletPlaces
    except ImportError as error:
        raise Refused(f"--device-plugin: {error}; install corral[kubelet]", field="device_plugin") from None
    kubelet = options.kubelet_dir
    places = KubeletPlaces(kubelet / "device-plugins", kubelet / "pod-resources" / "kubelet.sock")
    return DevicePlugins(Cluster.connect(), name, node.seen, drivers, home=options.home, places=places)


def _crash(failure: threading.ExceptHookArgs) -> None:
    """End this process at once after an unexpected error in a thread. The kubelet starts the next agent."""
    thread = failure.thread.name if failure.thread is not None else "unknown"
    log.critical("the %s thread failed; the agent ends", thread, exc_info=failure.exc_value)
    os._exit(BROKEN)


def options_of(argv: Sequence[str] | None) -> NodeOptions:
    """Return the options on a command line, None for that of this process. Ends the process for other options."""
    parser = argparse.ArgumentParser(prog="corral kubernetes agent")
    parser.add_argument("--server", required=True)
    parser.add_argument("--token-file", type=Path, default=TOKEN_FILE)
    parser.add_argument("--ca-file", type=Path)
    parser.add_argument("--node", default=os.environ.get("NODE_NAME") or None)
    parser.add_argument("--kubelet-dir", type=Path, default=KUBELET_DIR)
    parser.add_argument("--node-labels", action="store_true")
    parser.add_argument("--mock", type=Path)
    parser.add_argument("--config", type=Path)
    parser.add_argument("--device-plugin", action="store_true")
    parser.add_argument("--home", type=Path, default=HOME)
    return NodeOptions(**vars(parser.parse_args(argv)))


if __name__ == "__main__":
    log_to_stderr()
    sys.exit(run(options_of(None)))
