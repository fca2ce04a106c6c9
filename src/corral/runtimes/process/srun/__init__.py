"""`srun` inside a job: it runs a command once per task on the members of its job, as that of Slurm does.

Start with `command`, what a script calls. On rank 0 of a gang `script` runs the script itself, and gives each srun in
it connections to the other members; on these `member` waits for commands. `layout` says which task runs where, `tasks`
runs those of one host, `channel` is what srun and members say to each other. All of it runs as the job's user outside
of the server, with the standard library only; the server uses `programs` alone.
"""
