"""Commands that bring a job's ports and shells to the user's machine.

Begin with `forward`, which carries connections by `forwarded_ports` and `job_program`; `ssh` is beside it. The programs
inside the job are in `corral.forwarding`.
"""
