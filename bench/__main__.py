"""Every benchmark in turn: `python -m bench`, or only some: `python -m bench jobs ledger`."""

import importlib
import sys

BENCHMARKS = (
    *("server", "jobs", "launch", "telemetry", "ledger", "api", "crowded"),
    *("openb", "scale", "queues", "sharing"),
)


def main(names: list[str]) -> None:
    for name in names or BENCHMARKS:
        print(f"-- {name}", flush=True)
        importlib.import_module(f"bench.{name}").main()


if __name__ == "__main__":
    main(sys.argv[1:])
