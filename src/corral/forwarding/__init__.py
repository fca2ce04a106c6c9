"""Connections between a user's machine and a job: what both ends share, and the programs that run inside the job.

Begin with `lanes`, then `relay`, its end inside the job.

The programs are sent to the job (`corral.forwarding.sent_program`) and run there under whatever Python it has, from 3.8
on. They use the standard library and each other alone.
"""
