/* One job's supervisor: claims the launch, runs the program, moves its output, ends it, records how it ended. It is forked
   from the zygote and belongs to no server: it goes on when the server dies, and enforces time limit and log limit by
   itself. A single thread around one poll. */
#ifndef CORRAL_SUPERVISOR_H
#define CORRAL_SUPERVISOR_H

#include <signal.h>

/* The signals that a supervisor hears; they are blocked from the zygote on. SIGPIPE and SIGXFSZ only must not kill. */
void heard_signals(sigset_t *signals);

/* Run the launch described in the directory to its end: claim it, run its program, move its output, end it, record how it
   ended. */
void supervise(const char *directory);

#endif
