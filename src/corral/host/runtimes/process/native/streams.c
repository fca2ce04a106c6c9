#include "streams.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <termios.h>
#include <unistd.h>

enum { HEADER_BYTES = 9, PORTION_BYTES = 65536 };

static bool set_nonblocking(int fd) {
    int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0;
}

/* A pipe. What opens /dev/stdin or /dev/stderr opens it anew, which only its owner may. */
static bool open_pipe(int ends[2], const struct orders *orders) {
    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    uid_t uid = (uid_t)orders->uid;
    gid_t gid = (gid_t)orders->gid;
    return orders->uid == -1 || (fchown(ends[0], uid, gid) == 0 && fchown(ends[1], uid, gid) == 0);
}

static bool resize(int terminal, unsigned rows, unsigned columns) {
    struct winsize size = {.ws_row = (unsigned short)rows, .ws_col = (unsigned short)columns};
    return rows <= 0xFFFF && columns <= 0xFFFF && ioctl(terminal, TIOCSWINSZ, &size) == 0;
}

static bool open_terminal(struct streams *streams, const struct orders *orders) {
    char name[64];
    struct termios modes;
    int ours = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    streams->output = ours;
    if (ours < 0 || grantpt(ours) != 0 || unlockpt(ours) != 0)
        return false;
    /* Not by its name first, for /dev/pts here may be another instance's. */
    int theirs = ioctl(ours, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (theirs < 0 && ptsname_r(ours, name, sizeof name) == 0)
        theirs = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
    streams->program_in = streams->program_out = theirs;
    /* Nobody else may write to it, as wall(1) and write(1) may to most. */
    if (theirs < 0 || !set_nonblocking(ours) || fchmod(theirs, 0600) != 0)
        return false;
    if (orders->uid != -1 && fchown(theirs, (uid_t)orders->uid, (gid_t)-1) != 0)
        return false;
    if (tcgetattr(theirs, &modes) != 0)
        return false;
    modes.c_iflag |= IUTF8; /* what is typed is UTF-8, so that one backspace erases one character */
    if (tcsetattr(theirs, TCSANOW, &modes) != 0)
        return false;
    return resize(ours, (unsigned)orders->rows, (unsigned)orders->columns);
}

/* The socket "input" in the directory of the launch, which no other user can enter. */
static int open_questions(const char *directory) {
    int inside = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int made = inside < 0 ? -1 : socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (made >= 0) {
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        /* Through the descriptor, for a path may be longer than a socket's. */
        snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/input", inside);
        mode_t usual = umask(0177);
        int bound = bind(made, (struct sockaddr *)&address, sizeof address);
        int why = errno;
        umask(usual);
        if (bound != 0) {
            close(made);
            made = -1;
        }
        errno = why;
    }
    if (inside >= 0)
        close(inside);
    return made;
}

bool streams_open(struct streams *streams, const struct orders *orders, const char *directory) {
    *streams = (struct streams){.program_in = -1,
                                .program_out = -1,
                                .program_error = -1,
                                .output = -1,
                                .questions = -1,
                                .input = -1,
                                .is_terminal = orders->has_terminal};
    int ends[2];
    if (orders->has_terminal) {
        if (!open_terminal(streams, orders))
            return false;
        streams->input = fcntl(streams->output, F_DUPFD_CLOEXEC, 0);
        streams->questions = open_questions(directory);
        return streams->input >= 0 && streams->questions >= 0;
    }
    if (!open_pipe(ends, orders))
        return false;
    streams->output = ends[0];
    streams->program_out = ends[1];
    if (!set_nonblocking(streams->output))
        return false;
    if (!orders->stdin_comes)
        return true;
    if (!open_pipe(ends, orders))
        return false;
    streams->program_in = ends[0];
    streams->input = ends[1];
    streams->questions = set_nonblocking(streams->input) ? open_questions(directory) : -1;
    return streams->questions >= 0;
}

void streams_started(struct streams *streams) {
    /* A pipe's, kept here too, would never be known to be closed by the program. A terminal's is kept: it would hang up
       when the program closes it, though it may open it again. */
    if (streams->is_terminal)
        return;
    close(streams->program_out);
    if (streams->program_in >= 0)
        close(streams->program_in);
}

static void close_input(struct streams *streams) {
    if (streams->input >= 0)
        close(streams->input);
    streams->input = -1;
}

void streams_close(struct streams *streams) {
    close(streams->output);
    if (streams->is_terminal)
        close(streams->program_out);
    close_input(streams);
    if (streams->questions >= 0)
        close(streams->questions);
}

static unsigned long long number_of(const unsigned char *bytes, int count) {
    unsigned long long number = 0;
    for (int i = 0; i < count; i++)
        number = number << 8 | bytes[i];
    return number;
}

static void give(struct streams *streams, unsigned long long offset, const unsigned char *data, size_t length) {
    if (offset > streams->taken || streams->taken - offset >= length || streams->input < 0)
        return;
    size_t known = (size_t)(streams->taken - offset);
    ssize_t given = write(streams->input, data + known, length - known);
    if (given >= 0)
        streams->taken += (unsigned long long)given;
    else if (errno != EAGAIN)
        close_input(streams); /* nobody has it open to read any more */
}

void streams_answer(struct streams *streams) {
    unsigned char request[HEADER_BYTES + PORTION_BYTES], answer[HEADER_BYTES];
    struct sockaddr_un asker;
    socklen_t asker_length = sizeof asker;
    ssize_t got = recvfrom(streams->questions, request, sizeof request, 0, (struct sockaddr *)&asker, &asker_length);
    if (got < 0)
        return;
    if (got >= HEADER_BYTES && (request[0] == 'w' || request[0] == 'e')) {
        unsigned long long offset = number_of(request + 1, 8);
        size_t length = (size_t)got - HEADER_BYTES;
        give(streams, offset, request + HEADER_BYTES, length);
        if (request[0] == 'e' && !streams->is_terminal && streams->taken >= length && streams->taken - length == offset)
            close_input(streams);
    } else if (got >= HEADER_BYTES && request[0] == 'r' && streams->is_terminal && streams->input >= 0) {
        resize(streams->input, (unsigned)number_of(request + 1, 4), (unsigned)number_of(request + 5, 4));
    }
    if (asker_length <= sizeof(sa_family_t))
        return;
    for (int i = 0; i < 8; i++)
        answer[i] = (unsigned char)(streams->taken >> (56 - 8 * i));
    answer[8] = streams->input < 0 ? 'c' : 'o';
    sendto(streams->questions, answer, sizeof answer, 0, (struct sockaddr *)&asker, asker_length);
}
