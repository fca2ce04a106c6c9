/* A command that is run inside a job that runs already: see process_execution.py. */
#ifndef CORRAL_EXEC_H
#define CORRAL_EXEC_H

/* Where a node agent waits with a command at the socket "exec" in the directory of the launch, run it: in a process of its
   own, which ends it when the agent hangs up. Never waits. For the supervisor of a job that runs. */
void run_waiting_command(const char *directory);

#endif
