#include "exec.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kill_grace.h"
#include "files.h"
#include "orders.h"
#include "processes.h"
#include "start.h"
#include "streams.h"

enum {
    MESSAGE_BYTES = 128 * 1024,
    MOST_WORDS = MESSAGE_BYTES / 2,
    STREAMS = 3,
    ORDER_MS = 5000,   /* an agent that has connected sends what to run at once */
    GRACE_MS = 5000,   /* between SIGTERM and SIGKILL */
    RETRY_MS = 50,     /* SIGKILL is repeated until nothing is left */
    FIRST_OWN_FD = 4,
    ASSUMED_FILES = 4096,
};

/* What an agent has sent: a byte 'p' for pipes or 't' for a terminal, its kind (TERM), and the words of the command, each
   of these texts with a NUL after it. */
struct order {
    char text[MESSAGE_BYTES + 1];
    char *words[MOST_WORDS + 1];
    const char *term;
    int fds[STREAMS];
    bool at_terminal;
};

/* Reaching the agent */

static bool is_servers(int connection) {
    struct ucred peer;
    socklen_t length = sizeof peer;
    return getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 &&
           (peer.uid == 0 || peer.uid == geteuid());
}

static int reach_agent(const char *directory) {
    int inside = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int made = inside < 0 ? -1 : socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (made >= 0) {
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        /* Through the descriptor, for a path may be longer than a socket's. */
        snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/exec", inside);
        if (connect(made, (struct sockaddr *)&address, sizeof address) != 0 || !is_servers(made)) {
            close(made);
            made = -1;
        }
    }
    if (inside >= 0)
        close(inside);
    return made;
}

/* What is to be run */

static bool read_words(struct order *order, size_t length) {
    order->text[length] = '\0';
    if (length < 3 || order->text[length - 1] != '\0' || (order->text[0] != 'p' && order->text[0] != 't'))
        return false;
    order->at_terminal = order->text[0] == 't';
    order->term = order->text + 1;
    size_t count = 0;
    for (char *word = order->text + 1 + strlen(order->term) + 1; word < order->text + length; word += strlen(word) + 1) {
        if (count == MOST_WORDS)
            return false;
        order->words[count++] = word;
    }
    order->words[count] = NULL;
    return count > 0;
}

static bool receive_order(int agent, struct order *order) {
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(STREAMS * sizeof(int))];
    } control = {0};
    struct iovec part = {order->text, MESSAGE_BYTES};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    struct pollfd ready = {agent, POLLIN, 0};
    if (poll(&ready, 1, ORDER_MS) <= 0)
        return false;
    ssize_t length = recvmsg(agent, &message, MSG_CMSG_CLOEXEC);
    const struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (length <= 0 || (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0 || header == NULL ||
        header->cmsg_type != SCM_RIGHTS || header->cmsg_len != CMSG_LEN(STREAMS * sizeof(int)))
        return false;
    memcpy(order->fds, CMSG_DATA(header), STREAMS * sizeof(int));
    return read_words(order, (size_t)length);
}

static bool names(const char *entry, const char *name) {
    size_t length = strlen(name);
    return strncmp(entry, name, length) == 0 && entry[length] == '=';
}

/* At a terminal of its own the command asks that for its size, and its kind is as whoever sits there has it. */
static bool set_terminal(struct command *command, const char *term, struct arena *arena) {
    char **kept = command->env;
    for (char **entry = command->env; *entry != NULL; entry++)
        if (!names(*entry, "LINES") && !names(*entry, "COLUMNS") && (*term == '\0' || !names(*entry, "TERM")))
            *kept++ = *entry;
    *kept = NULL;
    if (*term == '\0')
        return true;
    size_t count = (size_t)(kept - command->env), room = strlen(term) + sizeof "TERM=";
    char **env = arena_take(arena, (count + 2) * sizeof *env);
    char *variable = arena_take(arena, room);
    if (env == NULL || variable == NULL)
        return false;
    memcpy(env, command->env, count * sizeof *env);
    snprintf(variable, room, "TERM=%s", term);
    env[count] = variable;
    env[count + 1] = NULL;
    command->env = env;
    return true;
}

/* The keeper of one command */

static void tell(int agent, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void tell(int agent, const char *format, ...) {
    char text[4096];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (length >= (int)sizeof text)
        length = sizeof text - 1;
    send(agent, text, (size_t)length, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Only the connection is the keeper's own: what the supervisor has open would outlive it here. */
static int close_all_but(int connection) {
    int kept = FIRST_OWN_FD - 1;
    if (connection != kept && dup2(connection, kept) < 0)
        return -1;
    fcntl(kept, F_SETFD, FD_CLOEXEC);
    if (syscall(SYS_close_range, FIRST_OWN_FD, ~0U, 0) != 0)
        for (int fd = FIRST_OWN_FD; fd < ASSUMED_FILES; fd++)
            close(fd);
    return kept;
}

/* Whether any process is left; how the command ended, once it has. */
static bool reap(pid_t main_pid, bool *ended, int *status) {
    int how;
    for (;;) {
        pid_t pid = waitpid(-1, &how, WNOHANG);
        if (pid <= 0)
            return pid == 0;
        if (pid == main_pid) {
            *ended = true;
            *status = how;
        }
    }
}

static void end_gently(bool at_terminal) {
    terminate_job();
    if (at_terminal)
        /* As when a terminal is closed: a shell at one takes no notice of SIGTERM. */
        tell_job(SIGHUP, '\0', 0, false);
}

/* Until nothing is left of the command, which is ended when the agent hangs up or the job is told to end. */
static void watch(int agent, int signals, pid_t main_pid, bool at_terminal) {
    bool ended = false, told = false, ending = false;
    int status = 0;
    double kill_at_s = 0;
    struct pollfd watched[] = {{signals, POLLIN, 0}, {agent, POLLIN, 0}};
    while (reap(main_pid, &ended, &status) || !told) {
        if (ended && !told) {
            /* What it has left behind is ended with it, before its end is told: its output is complete then. */
            kill_job();
            int signum = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
            tell(agent, "exited %d %d", signum ? 128 + signum : WEXITSTATUS(status), signum);
            told = true;
            continue;
        }
        bool killing = ended || (ending && uptime_s() >= kill_at_s);
        if (killing)
            kill_job();
        int left_ms = ending ? (int)((kill_at_s - uptime_s()) * 1000) + 1 : -1;
        if (poll(watched, 2, killing ? RETRY_MS : left_ms) <= 0)
            continue;
        struct signalfd_siginfo heard;
        bool to_end = watched[1].revents != 0;
        while (read(signals, &heard, sizeof heard) == (ssize_t)sizeof heard)
            to_end |= heard.ssi_signo == SIGTERM || heard.ssi_signo == SIGINT || heard.ssi_signo == SIGHUP;
        if (watched[1].revents != 0)
            watched[1].fd = -1;
        if (to_end && !ending && !ended) {
            ending = true;
            kill_at_s = uptime_s() + GRACE_MS / 1000.0;
            end_gently(at_terminal);
        }
    }
}

static void keep(const char *directory, int agent, int signals) {
    static struct order order;
    static struct orders orders;
    static struct command command;
    struct arena kept = {0}, used = {0};
    struct start_failure failure = {-1, ""};
    char path[PATH_BYTES];
    if (!receive_order(agent, &order))
        return;
    const char *wrong = !path_in(path, directory, "spec.jsonl") ? strerror(errno)
                                                                : read_orders(path, &kept, &orders, &used, &command);
    if (wrong == NULL && order.at_terminal && !set_terminal(&command, order.term, &used))
        wrong = strerror(ENOMEM);
    if (wrong != NULL) {
        tell(agent, "failed -1 the record of the job cannot be read: %s", wrong);
        return;
    }
    command.argv = order.words;
    command.input = command.output = command.error = NULL;
    struct streams streams = {.program_in = order.fds[0],
                              .program_out = order.fds[1],
                              .program_error = order.fds[2],
                              .output = -1,
                              .questions = -1,
                              .input = -1,
                              .is_terminal = order.at_terminal};
    pid_t pid = start_program(&command, &streams, &orders, &failure);
    if (pid < 0) {
        tell(agent, "failed %d %s", failure.exit_code, failure.message);
        return;
    }
    for (int i = 0; i < STREAMS; i++)
        close(order.fds[i]);
    tell(agent, "started");
    watch(agent, signals, pid, order.at_terminal);
}

void run_waiting_command(const char *directory) {
    int agent = reach_agent(directory);
    if (agent < 0)
        return;
    pid_t supervisor = getpid();
    if (fork() == 0) {
        /* Not the supervisor's name: it holds nothing of the launch, and is not to be taken for it. */
        prctl(PR_SET_NAME, "corral-exec");
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
        sigset_t all;
        sigfillset(&all);
        sigprocmask(SIG_SETMASK, &all, NULL);
        if (getppid() != supervisor)
            _exit(0);
        agent = close_all_but(agent);
        int signals = signalfd(-1, &all, SFD_NONBLOCK | SFD_CLOEXEC);
        if (agent >= 0 && signals >= 0)
            keep(directory, agent, signals);
        _exit(0);
    }
    close(agent);
}
