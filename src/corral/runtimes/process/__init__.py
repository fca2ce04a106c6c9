"""Jobs as processes of this machine, each under a supervisor of its own.

Nothing is imported here: the zygote, which every supervisor is forked from, loads modules of this package without the
rest of Corral, and each module it loads makes every fork slower.

- `process_launches` is what a node holds: launch, stop, status, recovery. `zygote_link` and `watcher` tell it what
  happens,
  `verification` holds records against living processes, `leftovers` kills what dead supervisors leave,
  and `job_cgroups` has the cgroups.
- `native/` is the supervisor in C, which a job has where it was compiled (`native_supervisor`); `zygote`, `supervisor`,
  `start_program` and `joblog` are the one in Python that others have, outside the server, of the standard library only.
- `supervisor_orders`, `launch_records` and `claimed_list` are what the two sides say to each other, on disk.
"""
