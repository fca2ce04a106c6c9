#include "start.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cgroups.h"
#include "files.h"
#include "log.h"
#include "login.h"

enum {
    NOT_FOUND = 127,
    CANNOT_RUN = 126,
    SHOWN_CHARACTERS = 400,
    FULL_BYTES = 64 * 1024, /* a disk with less room is full: some file systems keep a little that nobody gets */
};

static const char DEFAULT_PATH[] = "/bin:/usr/bin";

/* What a person reads */

struct shown {
    char text[4 * SHOWN_CHARACTERS + 64];
};

/* Long names of the user's are cut. */
static const char *show(struct shown *shown, const char *text) {
    size_t characters = 0, bytes = 0, length, kept = 0;
    for (; text[bytes] != '\0'; bytes += length) {
        utf8_decode(text + bytes, &length);
        if (characters++ < SHOWN_CHARACTERS)
            kept = bytes + length;
    }
    memcpy(shown->text, text, kept);
    shown->text[kept] = '\0';
    if (characters > SHOWN_CHARACTERS)
        snprintf(shown->text + kept, sizeof shown->text - kept, "... (%zu characters)", characters);
    return shown->text;
}

#define EXPLAIN(failure, code, ...) \
    ((failure)->exit_code = (code), snprintf((failure)->message, sizeof(failure)->message, __VA_ARGS__))

static const char *variable(const struct command *command, const char *name, const char *missing) {
    size_t length = strlen(name);
    for (char **entry = command->env; *entry != NULL; entry++)
        if (strncmp(*entry, name, length) == 0 && (*entry)[length] == '=')
            return *entry + length + 1;
    return missing;
}

static void explain_exec(const struct command *command, int why, struct start_failure *failure) {
    struct shown program, place;
    struct stat found;
    const char *name = show(&program, command->argv[0]);
    if (why == ENOENT || why == ENOTDIR) {
        if (strchr(command->argv[0], '/') == NULL)
            EXPLAIN(failure, NOT_FOUND, "command not found: %s; looked in PATH=%s", name,
                    show(&place, variable(command, "PATH", DEFAULT_PATH)));
        else if (stat(command->argv[0], &found) == 0)
            EXPLAIN(failure, NOT_FOUND, "cannot run %s: its first line names an interpreter that does not exist", name);
        else
            EXPLAIN(failure, NOT_FOUND, "no such file: %s, seen from %s", name, show(&place, command->workdir));
    } else if (why == EACCES || why == EPERM) {
        EXPLAIN(failure, CANNOT_RUN, "cannot run %s: %s; is it a file and executable (chmod +x)?", name, strerror(why));
    } else if (why == ENOEXEC) {
        EXPLAIN(failure, CANNOT_RUN, "cannot run %s: neither a program nor a script with a #! first line", name);
    } else {
        EXPLAIN(failure, CANNOT_RUN, "cannot run %s: %s", name, strerror(why));
    }
}

/* Steps of the process that becomes the job: each false with why. */

static int limit_number(const char *name) {
    static const struct {
        const char *name;
        int number;
    } limits[] = {
        {"RLIMIT_AS", RLIMIT_AS},           {"RLIMIT_CORE", RLIMIT_CORE},         {"RLIMIT_CPU", RLIMIT_CPU},
        {"RLIMIT_DATA", RLIMIT_DATA},       {"RLIMIT_FSIZE", RLIMIT_FSIZE},       {"RLIMIT_MEMLOCK", RLIMIT_MEMLOCK},
        {"RLIMIT_MSGQUEUE", RLIMIT_MSGQUEUE}, {"RLIMIT_NICE", RLIMIT_NICE},       {"RLIMIT_NOFILE", RLIMIT_NOFILE},
        {"RLIMIT_NPROC", RLIMIT_NPROC},     {"RLIMIT_RSS", RLIMIT_RSS},           {"RLIMIT_RTPRIO", RLIMIT_RTPRIO},
        {"RLIMIT_OFILE", RLIMIT_NOFILE},
        {"RLIMIT_RTTIME", RLIMIT_RTTIME},   {"RLIMIT_SIGPENDING", RLIMIT_SIGPENDING}, {"RLIMIT_STACK", RLIMIT_STACK},
    };
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        if (strcmp(limits[i].name, name) == 0)
            return limits[i].number;
    return -1;
}

static bool lower_limits(const struct command *command, struct start_failure *failure) {
    for (const struct json *wanted = command->rlimits->first; wanted != NULL; wanted = wanted->next) {
        int number = limit_number(wanted->key);
        struct rlimit limit;
        errno = EINVAL;
        if (number < 0 || wanted->kind != JSON_WHOLE || getrlimit(number, &limit) != 0 ||
            (limit.rlim_cur = (rlim_t)wanted->whole, setrlimit(number, &limit) != 0)) {
            struct shown program;
            EXPLAIN(failure, CANNOT_RUN, "cannot run %s: %s", show(&program, command->argv[0]), strerror(errno));
            return false;
        }
    }
    return true;
}

/* Take on the job's user and groups, for good, and no more than such a user has. */
static bool become_user(const struct command *command) {
    uid_t uid = (uid_t)command->uid;
    gid_t gid = (gid_t)command->gid;
    take_login_standing();
    return !command->becomes_user ||
           (setgroups(command->group_count, command->groups) == 0 && setresgid(gid, gid, gid) == 0 &&
            setresuid(uid, uid, uid) == 0 && (uid == 0 || drop_capabilities()));
}

/* Open the file of standard input. Anything but a regular file is refused: it could block. */
static int open_input(const char *path, struct start_failure *failure) {
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    struct stat found;
    const char *why = NULL;
    if (fd < 0 || fstat(fd, &found) != 0)
        why = strerror(errno);
    else if (!S_ISREG(found.st_mode) && found.st_rdev != makedev(1, 3))
        why = "it is not a file";
    else if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK) != 0)
        why = strerror(errno);
    if (why == NULL)
        return fd;
    EXPLAIN(failure, CANNOT_RUN, "cannot read the input from %s: %s", path, why);
    if (fd >= 0)
        close(fd);
    return -1;
}

/* Open a file for output, emptied unless it is appended to. Anything but a regular file is refused: it could block. */
static int open_output(const char *path, bool append, struct start_failure *failure) {
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0666);
    struct stat found;
    const char *why = NULL;
    if (fd < 0)
        why = errno == ELOOP ? "it is a symbolic link, and none is followed"
              : errno == ENXIO ? "it is not a file"
                               : strerror(errno);
    else if (fstat(fd, &found) != 0)
        why = strerror(errno);
    else if (!S_ISREG(found.st_mode) && found.st_rdev != makedev(1, 3))
        why = "it is not a file";
    else if (S_ISREG(found.st_mode) && !append && ftruncate(fd, 0) != 0)
        why = strerror(errno);
    else if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK) != 0)
        why = strerror(errno);
    if (why == NULL)
        return fd;
    EXPLAIN(failure, CANNOT_RUN, "cannot write the output to %s: %s", path, why);
    if (fd >= 0)
        close(fd);
    return -1;
}

/* Standard error goes where standard output does unless it has a file or a pipe of its own. */
static bool open_outputs(const struct command *command, const struct streams *streams, int fds[2],
                         struct start_failure *failure) {
    fds[0] = command->output == NULL ? streams->program_out : open_output(command->output, command->append, failure);
    if (streams->program_error >= 0) {
        fds[1] = streams->program_error;
        return fds[0] >= 0;
    }
    bool together = command->error == NULL || (command->output != NULL && strcmp(command->error, command->output) == 0);
    fds[1] = together || fds[0] < 0 ? fds[0] : open_output(command->error, command->append, failure);
    return fds[0] >= 0 && fds[1] >= 0;
}

/* Execute the program where it is found. Like a shell: what cannot be executed is remembered, and the search goes on. */
static void execute(const struct command *command, struct start_failure *failure) {
    const char *program = command->argv[0];
    int why = ENOENT;
    if (strchr(program, '/') != NULL) {
        execve(program, command->argv, command->env);
        explain_exec(command, errno, failure);
        return;
    }
    const char *directory = variable(command, "PATH", DEFAULT_PATH);
    for (;;) {
        char path[PATH_BYTES];
        struct stat found;
        size_t length = strcspn(directory, ":");
        int written = snprintf(path, sizeof path, "%.*s/%s", length ? (int)length : 1, length ? directory : ".", program);
        if (written > 0 && written < PATH_BYTES && stat(path, &found) == 0) {
            execve(path, command->argv, command->env);
            if (why == ENOENT || why == ENOTDIR || (errno != ENOENT && errno != ENOTDIR))
                why = errno;
        }
        if (directory[length] == '\0')
            break;
        directory += length + 1;
    }
    explain_exec(command, why, failure);
}

/* Turn a forked supervisor into the job. Comes back where that failed, with why. */
static void become_job(const struct command *command, const struct streams *streams, const struct orders *orders,
                       struct start_failure *failure) {
    struct shown shown;
    int outputs[2];
    bool of_root = geteuid() == 0;
    setsid();
    if (streams->is_terminal && ioctl(streams->program_in, TIOCSCTTY, 0) != 0) {
        explain_exec(command, errno, failure);
        return;
    }
    for (const struct json *group = orders->limits ? orders->limits->first : NULL; group; group = group->next)
        if (!cgroup_join(group->text)) {
            EXPLAIN(failure, -1, "cannot hold the job to its part of the host: %s", strerror(errno));
            return;
        }
    if (!lower_limits(command, failure))
        return;
    if (!become_user(command)) {
        EXPLAIN(failure, CANNOT_RUN, "cannot become user %ld, group %ld: %s; only root can", command->uid, command->gid,
                strerror(errno));
        return;
    }
    if (of_root && !take_own_keyring()) {
        EXPLAIN(failure, -1, "cannot give the job a keyring of its own: %s (see kernel.keys in sysctl)", strerror(errno));
        return;
    }
    umask(command->umask);
    if (chdir(command->workdir) != 0) {
        EXPLAIN(failure, CANNOT_RUN, "cannot enter the working directory %s: %s", show(&shown, command->workdir),
                strerror(errno));
        return;
    }
    int input = command->input == NULL ? streams->program_in : open_input(command->input, failure);
    if (command->input != NULL && input < 0)
        return;
    if (!open_outputs(command, streams, outputs, failure))
        return;
    if ((input >= 0 && dup2(input, 0) < 0) || dup2(outputs[0], 1) < 0 ||
        dup2(outputs[1], 2) < 0) {
        explain_exec(command, errno, failure);
        return;
    }
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execute(command, failure);
}

/* As fork, into the job's cgroup if it has one: to be born there is at once, and to be moved there waits for every
   processor of the machine, 12 ms on one that is idle. Where the cgroup cannot be had the job is still found by its
   descent and by its mark. The child is told whether it is inside. */
static pid_t fork_into(const struct orders *orders, bool *inside) {
    const char *cgroup = orders->cgroup;
    int fd = -1;
    /* One that is fenced was made before: another of that name would have no fence. */
    if (cgroup != NULL && (orders->closed != NULL || mkdir(cgroup, 0777) == 0 || errno == EEXIST))
        fd = open(cgroup, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    pid_t pid = -1;
    *inside = true;
    if (fd >= 0) {
        struct clone_args wanted = {
            .flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD, .cgroup = (unsigned long long)fd};
        pid = (pid_t)syscall(SYS_clone3, &wanted, sizeof wanted);
        close(fd);
    }
    if (pid >= 0)
        return pid;
    /* Of a kernel that does not know it, or where a filter of system calls hides it. */
    pid = fork();
    if (pid == 0)
        *inside = cgroup != NULL && cgroup_join(cgroup);
    return pid;
}

pid_t start_program(const struct command *command, const struct streams *streams, const struct orders *orders,
                    struct start_failure *failure) {
    int report[2];
    bool inside;
    pid_t pid = pipe2(report, O_CLOEXEC) == 0 ? fork_into(orders, &inside) : -1;
    if (pid < 0) {
        EXPLAIN(failure, -1, "cannot make a process for the job: %s", strerror(errno));
        return -1;
    }
    if (pid == 0) {
        if (orders->closed != NULL && !inside)
            EXPLAIN(failure, -1, "cannot keep the job from the GPUs of others: its cgroup cannot be entered");
        else
            become_job(command, streams, orders, failure);
        /* Its user may have filled every disk, but nobody else reads this pipe. */
        write_all(report[1], failure, sizeof *failure);
        _exit(CANNOT_RUN);
    }
    close(report[1]);
    /* Ends without a word when the program is executed, for then the child's end closes. */
    size_t length = 0;
    ssize_t got;
    while (length < sizeof *failure && (got = read(report[0], (char *)failure + length, sizeof *failure - length)) > 0)
        length += (size_t)got;
    close(report[0]);
    if (length == 0)
        return pid;
    waitpid(pid, NULL, 0);
    failure->message[sizeof failure->message - 1] = '\0';
    return -1;
}

/* Disks of files for output */

static const char *copy(struct arena *arena, const char *text) {
    char *copied = text == NULL ? NULL : arena_take(arena, strlen(text) + 1);
    return copied == NULL ? NULL : strcpy(copied, text);
}

bool keep_outputs(struct arena *arena, const struct command *command, struct command *kept) {
    *kept = *command;
    kept->argv = kept->env = NULL;
    kept->rlimits = NULL;
    kept->input = NULL;
    kept->workdir = copy(arena, command->workdir);
    kept->output = copy(arena, command->output);
    kept->error = copy(arena, command->error);
    kept->groups = arena_take(arena, (command->group_count + 1) * sizeof *kept->groups);
    if (kept->workdir == NULL || kept->groups == NULL)
        return false;
    if (command->group_count > 0)
        memcpy(kept->groups, command->groups, command->group_count * sizeof *kept->groups);
    return true;
}

static bool is_full(const char *path) {
    struct statvfs found;
    if (statvfs(path, &found) != 0)
        return false;
    /* What is kept for root counts for root alone. */
    unsigned long long blocks = geteuid() ? found.f_bavail : found.f_bfree;
    return found.f_blocks > 0 && blocks * found.f_frsize < FULL_BYTES;
}

/* By a process that becomes the job's user: the path is the user's, and may be one that never answers. */
static bool asked(const struct command *command, const char *path) {
    pid_t pid = fork();
    if (pid == 0)
        _exit(become_user(command) && chdir(command->workdir) == 0 && is_full(path) ? 1 : 0);
    if (pid < 0)
        return false;
    struct timespec pause = {0, 10 * 1000 * 1000};
    int status;
    for (double until_s = uptime_s() + 2; uptime_s() < until_s; nanosleep(&pause, NULL))
        if (waitpid(pid, &status, WNOHANG) == pid)
            return WIFEXITED(status) && WEXITSTATUS(status) == 1;
    kill(pid, SIGKILL);
    return false;
}

void full_disk(const struct command *command, char *path, size_t room) {
    const char *files[] = {command->output, command->error};
    path[0] = '\0';
    for (int i = 0; i < 2; i++)
        if (files[i] != NULL && (i == 0 || files[0] == NULL || strcmp(files[0], files[1]) != 0) &&
            asked(command, files[i])) {
            bool absolute = files[i][0] == '/';
            snprintf(path, room, "%s%s%s", absolute ? "" : command->workdir, absolute ? "" : "/", files[i]);
            return;
        }
}

/* NUMA */

static long prefer_memory_of(const struct json *nodes, int mode) {
    enum { MOST_NODES = 1024, BITS = 8 * sizeof(unsigned long) }; /* the largest MAX_NUMNODES of a kernel */
    unsigned long mask[MOST_NODES / BITS] = {0};
    for (const struct json *node = nodes->first; node != NULL; node = node->next) {
        if (node->whole < 0 || node->whole >= MOST_NODES) {
            errno = EINVAL;
            return -1;
        }
        mask[node->whole / BITS] |= 1ul << (node->whole % BITS);
    }
    return syscall(SYS_set_mempolicy, mode, mask, MOST_NODES + 1);
}

bool bind_to_numa_nodes(const struct orders *orders, char *why, size_t room) {
    enum { PREFERRED = 1, PREFERRED_MANY = 5, MOST_CPUS = 8192 }; /* <linux/mempolicy.h>; the second of Linux 5.15 */
    const struct json *nodes = orders->numa_nodes, *cpus = orders->numa_cpus;
    if (nodes == NULL || cpus == NULL || nodes->count == 0 || cpus->count == 0)
        return true;
    unsigned long set[MOST_CPUS / (8 * sizeof(unsigned long))] = {0};
    for (const struct json *cpu = cpus->first; cpu != NULL; cpu = cpu->next)
        if (cpu->whole >= 0 && cpu->whole < MOST_CPUS)
            set[cpu->whole / (8 * (long long)sizeof *set)] |= 1ul << (cpu->whole % (8 * (long long)sizeof *set));
    if (sched_setaffinity(0, sizeof set, (cpu_set_t *)(void *)set) != 0) {
        snprintf(why, room, "its CPUs cannot be used: %s", strerror(errno));
        return false;
    }
    long failed = prefer_memory_of(nodes, PREFERRED_MANY);
    if (failed && errno == EINVAL && nodes->count == 1)
        failed = prefer_memory_of(nodes, PREFERRED);
    if (failed)
        snprintf(why, room, "its memory cannot be preferred: %s", strerror(errno));
    return !failed;
}
