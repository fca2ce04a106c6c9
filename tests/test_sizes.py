"""What keeps the house light: folders and classes stay small. The lists of what is larger only shrink."""

import ast
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import corral

ROOT = Path(corral.__file__).parent

MOST_MODULES = 25
MOST_METHODS = 12
"""Public ones."""
MOST_FIELDS = 20

DECLARED = {
    "cli/commands/job_options.py": {"DeviceFlags", "JobFlags"},
    "client/client.py": {"Client"},
    "client/jobs.py": {"Jobs"},
    "client/submitting/options.py": {"RequestOptions"},
    "config/settings.py": {"Settings"},
    "core/model/answers/devices.py": {"DeviceRow"},
    "core/model/answers/jobs.py": {"JobRow"},
    "core/model/devices/device.py": {"Device", "DeviceSample"},
    "core/model/jobs/job.py": {"Job", "JobTerms", "Request"},
    "core/model/jobs/job_patch.py": {"JobPatch"},
    "features/tuner/client.py": {"TuningTasks"},
    "features/tuner/model/tuning_spec.py": {"TuningSpec"},
    "features/tuner/other_names/answers.py": {"AutotunerTask"},
}
"""Rows, readings, settings, options and the public client: each field or method is one thing that a user knows."""

TO_BECOME_SMALLER = {
    "api/connections/peer.py": {"PeerProtocol"},
    "api/events/event_feed.py": {"EventFeed"},
    "core/control/querying/queries.py": {"Queries"},
    "core/control/service.py": {"Service"},
    "core/ledger/store.py": {"SqlLedger"},
    "core/model/home.py": {"Home"},
    "core/model/view.py": {"View", "ViewDraft"},
    "core/ports/ledger.py": {"Ledger"},
    "engines/kubernetes/binding/binding_runtime.py": {"BindingRuntime"},
    "engines/kubernetes/cluster/client.py": {"Cluster"},
    "engines/kubernetes/engine/node_book.py": {"NodeBook"},
    "engines/kubernetes/pods/runtime.py": {"PodRuntime"},
    "engines/kubernetes/pods/state.py": {"LaunchedPod"},
    "features/channels/delivery.py": {"Delivery"},
    "host/runtimes/docker/daemon_calls.py": {"Daemon"},
    "host/runtimes/process/process_launches.py": {"ProcessLaunches"},
    "host/runtimes/process/records/launch_spec.py": {"LaunchSpec"},
    "host/runtimes/process/supervisor_orders.py": {"Orders"},
    "host/runtimes/simulated.py": {"SimulatedRuntime"},
    "tui/app.py": {"TopApp"},
}
"""Nothing joins this list. A class that has become small enough leaves it."""


def classes() -> Iterator[tuple[str, ast.ClassDef]]:
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                yield path.relative_to(ROOT).as_posix(), node


def fields_of(class_: ast.ClassDef) -> int:
    """Annotated fields, or attributes that `__init__` sets, whichever are more."""
    made = next((one for one in class_.body if isinstance(one, ast.FunctionDef) and one.name == "__init__"), None)
    attributes = {
        one.attr
        for one in ast.walk(made or ast.Pass())
        if isinstance(one, ast.Attribute) and isinstance(one.ctx, ast.Store)
    }
    return max(len(attributes), sum(isinstance(one, ast.AnnAssign) for one in class_.body))


def methods_of(class_: ast.ClassDef) -> int:
    functions = (one for one in class_.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef))
    return sum(not one.name.startswith("_") for one in functions)


def test_no_class_grows_beyond_its_measure() -> None:
    large = {
        (path, node.name)
        for path, node in classes()
        if methods_of(node) > MOST_METHODS or fields_of(node) > MOST_FIELDS
    }
    listed = {
        (path, name) for table in (DECLARED, TO_BECOME_SMALLER) for path, names in table.items() for name in names
    }
    assert sorted(large - listed) == [], "split it: a class has a dozen public methods and 20 fields at most"
    assert sorted(listed - large) == [], "these are small enough: take them off the list"


def test_no_folder_has_more_modules_than_a_newcomer_can_read() -> None:
    counted = Counter(path.parent.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py"))
    assert {folder: count for folder, count in counted.items() if count - 1 > MOST_MODULES} == {}


def test_no_built_program_is_kept_with_the_sources() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    files = [ROOT / name for name in listed.stdout.split("\0") if name]
    assert files
    assert [path for path in files if path.is_file() and path.read_bytes()[:4] == b"\x7fELF"] == []
