/* The process that every supervisor is forked from.

   It reads launch ids from its socket, forks a supervisor for each, and answers with a descriptor of the new process. It
   ends when the server closes the socket or dies; the supervisors stay. */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fence.h"
#include "files.h"
#include "login.h"
#include "records.h"
#include "supervisor.h"

enum { REQUEST_BYTES = 256 };

/* "VERB LAUNCH_ID WHY", with a descriptor of the new process if there is one. */
static bool answer(int server, const char *verb, const char *launch_id, const char *why, int handle) {
    char text[512];
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    int length = snprintf(text, sizeof text, "%s %s%s%s", verb, launch_id, why[0] ? " " : "", why);
    struct iovec part = {text, (size_t)length};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (handle >= 0) {
        message.msg_control = &control;
        message.msg_controllen = sizeof control;
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(&control.header), &handle, sizeof handle);
    }
    return sendmsg(server, &message, MSG_NOSIGNAL) >= 0;
}

static void fork_supervisor(int server, int ended, const char *launches, const char *launch_id) {
    char directory[PATH_BYTES];
    pid_t pid = path_in(directory, launches, launch_id) ? fork() : -1;
    if (pid < 0) {
        answer(server, "failed", launch_id, strerror(errno), -1);
        return;
    }
    if (pid == 0) {
        close(server);
        close(ended);
        setsid();
        prctl(PR_SET_NAME, "corral-job");
        supervise(directory);
        _exit(0);
    }
    /* Unlike a pid it cannot come to mean another process. It is not reaped before, so it is there. */
    int handle = (int)syscall(SYS_pidfd_open, pid, 0);
    /* Without it where no more descriptors may be on their way: the server then finds the process by its claim. */
    if (handle < 0 || !answer(server, "forked", launch_id, "", handle))
        answer(server, "forked", launch_id, "", -1);
    if (handle >= 0)
        close(handle);
}

/* Nothing is ignored or blocked but what a supervisor hears: what is ignored would stay ignored in the jobs. */
static int prepare_signals(void) {
    sigset_t heard, children;
    for (int signum = 1; signum < NSIG; signum++)
        signal(signum, SIG_DFL);
    heard_signals(&heard);
    sigprocmask(SIG_SETMASK, &heard, NULL);
    sigemptyset(&children);
    sigaddset(&children, SIGCHLD);
    return signalfd(-1, &children, SFD_NONBLOCK | SFD_CLOEXEC);
}

static void reap(int ended) {
    struct signalfd_siginfo heard;
    while (read(ended, &heard, sizeof heard) == (ssize_t)sizeof heard)
        continue;
    while (waitpid(-1, NULL, WNOHANG) > 0)
        continue;
}

int main(int count, char **words) {
    if (count == 3 && strcmp(words[1], "--try-fence") == 0)
        return try_fence(words[2]);
    if (count == 4 && strcmp(words[1], "--fence") == 0)
        return fence_one(words[2], words[3]);
    if (count != 3) {
        dprintf(2, "usage: corral-supervisor SOCKET LAUNCHES (a server of Corral starts it)\n");
        return 2;
    }
    int server = atoi(words[1]), ended = prepare_signals();
    fcntl(server, F_SETFD, FD_CLOEXEC);
    prctl(PR_SET_NAME, "corral-zygote");
    /* It reaps what a supervisor that was killed leaves behind. */
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    leave_login();
    if (!read_boot_id()) {
        dprintf(2, "corral-supervisor: /proc/sys/kernel/random/boot_id cannot be read: %s\n", strerror(errno));
        return 1;
    }
    struct pollfd watched[] = {{server, POLLIN, 0}, {ended, POLLIN, 0}};
    for (;;) {
        if (poll(watched, 2, -1) < 0)
            return 1;
        if (watched[1].revents != 0)
            reap(ended);
        if (watched[0].revents == 0)
            continue;
        char launch_id[REQUEST_BYTES];
        ssize_t length = recv(server, launch_id, sizeof launch_id - 1, 0);
        if (length <= 0)
            return 0;
        launch_id[length] = '\0';
        fork_supervisor(server, ended, words[2], launch_id);
    }
}
