/* The files of one launch: see launch_records.py, claim.py and claimed_list.py. */
#ifndef CORRAL_RECORDS_H
#define CORRAL_RECORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum claimed { CLAIMED, CLAIMED_BY_ANOTHER, NOT_CLAIMED };

enum { MESSAGE_CHARACTERS = 1000, REASON_BYTES = 512 };

struct exit_record {
    int exit_code, signum; /* -1, 0: none */
    const char *reason;    /* "": none */
    const char *message;
    double started_at, ended_at; /* started_at < 0: none */
};

/* The kernel's identifier of this boot, which every claim names. Before any is made. */
bool read_boot_id(void);

/* Become the one that decides about this launch, durably. NOT_CLAIMED with errno. */
enum claimed claim_launch(const char *directory);

/* Say in the claim what runs, and since when. */
bool write_started(const char *directory, pid_t pid, double started_at);

/* Write down outside of the directory, too, that the launch was claimed. */
bool list_as_claimed(const char *directory);

/* Reserve disk space for the exit record now, while a full disk can still fail the launch. */
bool reserve_exit(const char *directory);

/* Record the end, durably, in the room that was reserved. */
bool write_exit(const char *directory, const struct exit_record *record);

/* Why the server wants the job to end. False when it does not, or what it wrote was tampered with. */
bool read_stop_reason(const char *directory, char reason[REASON_BYTES]);

/* The time limit that counts instead of the first. False while it is that, or what is there makes no sense. */
bool read_new_time_limit(const char *directory, double *limit_s);

#endif
