/* What a program reads and writes, pipes to its supervisor or a terminal, and the input that comes from outside
   (job_input.py asks). A pipe is closed after the last byte of input; that of a terminal has no end, for its programs come
   and go. */
#ifndef CORRAL_STREAMS_H
#define CORRAL_STREAMS_H

#include <stdbool.h>

#include "orders.h"

struct streams {
    int program_in;  /* the program's ends; -1 where it has no input but the supervisor's own, which is empty */
    int program_out;
    int program_error; /* -1: errors go where its output goes */
    int output;      /* what comes out of it, a descriptor that does not block */
    int questions;   /* a socket for who sends it input, -1 where nobody does */
    int input;       /* where that goes, -1 once nobody takes it */
    unsigned long long taken; /* bytes of input that the program has been given */
    bool is_terminal;
};

/* False with errno. */
bool streams_open(struct streams *streams, const struct orders *orders, const char *directory);

/* The program has its ends. */
void streams_started(struct streams *streams);

/* Take a question about input in, and answer it. Never waits. */
void streams_answer(struct streams *streams);

/* The program has ended, and all that it wrote is read. */
void streams_close(struct streams *streams);

#endif
