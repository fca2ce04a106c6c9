"""Jobs as processes of this machine, each under a supervisor of its own.

- `process_launches` has the node's operations: launch, stop, status, recovery. `zygote_link` and `watcher` report
  events to it, `verification` compares records with living processes, `leftovers` kills processes left by dead
  supervisors, and `job_cgroups` has the cgroups.
- `native/` is the zygote and the supervisor, in C (decision 96): begin with `main.c` and `supervisor.c`.
- `supervisor_orders`, `launch_records` and `claimed_list` are the files by which both sides communicate.
"""
