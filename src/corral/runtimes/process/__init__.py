"""Jobs as processes of this machine, each under a supervisor of its own.

- `process_launches` is what a node holds: launch, stop, status, recovery. `zygote_link` and `watcher` tell it what
  happens, `verification` holds records against living processes, `leftovers` kills what dead supervisors leave,
  and `job_cgroups` has the cgroups.
- `native/` is the zygote and the supervisor, in C (decision 96): begin with `main.c` and `supervisor.c`.
- `supervisor_orders`, `launch_records` and `claimed_list` are what the two sides say to each other, on disk.
"""
