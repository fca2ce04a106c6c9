"""Every benchmark in turn: `python -m bench`, or only some: `python -m bench jobs ledger`."""

import importlib
import sys

from bench import probe

BENCHMARKS = (
    *(
        "server",
        "jobs",
        "slurm",
        "launch",
        "fence",
        "telemetry",
        "health_watch",
        "history",
        "kpis",
        "alerts",
        "accounting",
        "ledger",
    ),
    *("api", "metrics", "events", "pages", "commands"),
    *(
        "crowded",
        "fairness",
        "cluster",
        "openb",
        "scale",
        "queues",
        "prediction",
        "prediction_cost",
        "sharing",
        "faults",
        "idle_nodes",
        "hosts",
        "socket_agents",
    ),
    *("tuning", "tuning_run", "tuner_search"),
    *("kubernetes_watch", "kubernetes_server", "kubernetes_agents", "device_plugin", "binding"),
)


def main(names: list[str]) -> None:
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        sys.exit(f"there is no benchmark {unknown[0]!r}; there are {', '.join(BENCHMARKS)}")
    print(probe.line(), flush=True)
    for name in names or BENCHMARKS:
        print(f"-- {name}", flush=True)
        importlib.import_module(f"bench.{name}").main()


if __name__ == "__main__":
    main(sys.argv[1:])
