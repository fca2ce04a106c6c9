/* Files that a job's user may have put anything in place of: see whole_files.py, whose rules these are. */
#ifndef CORRAL_FILES_H
#define CORRAL_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { PATH_BYTES = 4096 };

/* A descriptor of a regular file, -1 with errno otherwise. Never waits and never follows a link. */
int open_regular(const char *path, int flags);

bool write_all(int fd, const void *data, size_t length);

/* A file with these contents, not flushed. */
bool write_new(const char *path, const void *data, size_t length);

/* At most `room` bytes of a file, -1 with errno. */
ssize_t read_some(const char *path, char *buffer, size_t room);

/* A record, ended by a NUL; -1 with errno, EFBIG where it does not fit into `room`. */
ssize_t read_record(const char *path, char *buffer, size_t room);

/* A name for what will become `path`, that no other writer of it uses. False where it is too long. */
bool temporary_beside(char temporary[PATH_BYTES], const char *path);

/* "directory/name". False, with ENAMETOOLONG, where it is too long. */
bool path_in(char path[PATH_BYTES], const char *directory, const char *name);

/* "startending". False, with ENAMETOOLONG, where it is too long. */
bool path_with(char path[PATH_BYTES], const char *start, const char *ending);

/* Flush the names in a directory to disk. */
bool sync_directory(const char *path);

/* The part of a path before its last slash, in place. */
void cut_last_part(char *path);

#endif
