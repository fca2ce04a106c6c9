"""`srun` inside a job: it runs a command once per task on the members of its job, as Slurm's srun does.

Start with `command`, which a script calls. On rank 0 of a gang, `script` runs the script itself and gives each srun in
it connections to the other members. On these, `member` waits for commands. `layout` assigns tasks to members, `tasks`
runs those of one host, `channel` is the protocol between srun and members. All of it runs as the job's user outside of
the server, with the standard library only; the server uses `programs` alone.
"""
