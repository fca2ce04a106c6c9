#include "processes.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "files.h"

/* Each round can only miss what was forked during the round before; what forks faster is met again by the caller. */
enum { FREEZE_ROUNDS = 10, STAT_BYTES = 1024, PORTION_BYTES = 4096 };

/* The kernel has no more: a walk ends, however fast a job forks meanwhile. */
enum { MOST_PIDS = 1 << 22 };

enum { MOST_HANDLES = 1024 };

void pids_free(struct pids *pids) {
    free(pids->of);
    *pids = (struct pids){0};
}

bool pids_have(const struct pids *pids, pid_t pid) {
    for (size_t i = 0; i < pids->count; i++)
        if (pids->of[i] == pid)
            return true;
    return false;
}

static void add(struct pids *pids, pid_t pid) {
    if (pids->count >= MOST_PIDS)
        return;
    if (pids->count == pids->room) {
        size_t room = pids->room ? 2 * pids->room : 64;
        pid_t *of = realloc(pids->of, room * sizeof *of);
        if (of == NULL)
            return; /* it is met again on the next round */
        pids->of = of;
        pids->room = room;
    }
    pids->of[pids->count++] = pid;
}

/* Field `number` (from 3) of /proc/PID/stat. */
static bool stat_field(pid_t pid, int number, char field[32]) {
    char path[64], text[STAT_BYTES];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    ssize_t length = read_some(path, text, sizeof text - 1);
    if (length <= 0)
        return false;
    text[length] = '\0';
    /* The command name is in parentheses and may hold spaces and parentheses itself. */
    char *at = strrchr(text, ')');
    for (int i = 2; at != NULL && i < number; i++)
        at = strchr(at + 1, ' ');
    return at != NULL && sscanf(at + 1, "%31s", field) == 1;
}

long long start_ticks(pid_t pid) {
    char field[32];
    return stat_field(pid, 22, field) ? atoll(field) : -1;
}

/* Add the numbers of a file such as /proc/PID/task/TID/children. */
static void add_numbers(struct pids *found, const char *path) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    char portion[PORTION_BYTES];
    ssize_t got;
    pid_t pid = 0;
    while ((got = read(fd, portion, sizeof portion)) > 0)
        for (ssize_t i = 0; i < got; i++) {
            if (isdigit((unsigned char)portion[i])) {
                pid = pid * 10 + (portion[i] - '0');
            } else if (pid > 0) {
                add(found, pid);
                pid = 0;
            }
        }
    if (pid > 0)
        add(found, pid);
    close(fd);
}

/* The children of every thread of a process. */
static void add_children(struct pids *found, pid_t pid) {
    char path[96];
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    struct stat tasks;
    if (stat(path, &tasks) != 0)
        return;
    /* Two links and one for each thread: cheaper to ask for than a listing, and nearly all have one thread. */
    if (tasks.st_nlink <= 3) {
        snprintf(path, sizeof path, "/proc/%d/task/%d/children", pid, pid);
        add_numbers(found, path);
        return;
    }
    DIR *listing = opendir(path);
    if (listing == NULL)
        return;
    for (struct dirent *entry; (entry = readdir(listing)) != NULL;)
        if (isdigit((unsigned char)entry->d_name[0])) {
            snprintf(path, sizeof path, "/proc/%d/task/%.16s/children", pid, entry->d_name);
            add_numbers(found, path);
        }
    closedir(listing);
}

static bool kernel_lists_children(void) {
    return access("/proc/thread-self/children", F_OK) == 0;
}

/* Every process of the machine and its parent, for kernels without CONFIG_PROC_CHILDREN. */
static void read_parents(struct pids *all, struct pids *parents) {
    DIR *listing = opendir("/proc");
    if (listing == NULL)
        return;
    for (struct dirent *entry; (entry = readdir(listing)) != NULL;) {
        char parent[32];
        pid_t one = (pid_t)atoi(entry->d_name);
        if (isdigit((unsigned char)entry->d_name[0]) && stat_field(one, 4, parent)) {
            add(all, one);
            add(parents, (pid_t)atoi(parent));
        }
    }
    closedir(listing);
}

static struct pids descendants_by_parent(pid_t root) {
    struct pids all = {0}, parents = {0}, found = {0};
    read_parents(&all, &parents);
    pid_t above = root;
    for (size_t i = 0;; above = found.of[i++]) {
        for (size_t one = 0; one < all.count && one < parents.count; one++)
            if (parents.of[one] == above)
                add(&found, all.of[one]);
        if (i == found.count)
            break;
    }
    pids_free(&all);
    pids_free(&parents);
    return found;
}

static int by_number(const void *left, const void *right) {
    pid_t one = *(const pid_t *)left, other = *(const pid_t *)right;
    return (one > other) - (one < other);
}

static void sort(struct pids *pids) {
    if (pids->count > 0)
        qsort(pids->of, pids->count, sizeof *pids->of, by_number);
}

/* Of numbers in order. */
static bool listed_in(const struct pids *sorted, pid_t pid) {
    return sorted->count > 0 && bsearch(&pid, sorted->of, sorted->count, sizeof *sorted->of, by_number) != NULL;
}

struct pids descendants(pid_t root) {
    if (!kernel_lists_children())
        return descendants_by_parent(root);
    struct pids found = {0};
    add_children(&found, root);
    /* One process can be listed twice, when it is given to the subreaper during the walk: a second signal harms nobody. */
    for (size_t i = 0; i < found.count; i++)
        add_children(&found, found.of[i]);
    return found;
}

/* How many processes are held at a time: half of the descriptors that there are, and not so many that memory matters. */
static size_t most_handles(void) {
    struct rlimit files;
    size_t most = getrlimit(RLIMIT_NOFILE, &files) == 0 ? (size_t)files.rlim_cur / 2 : 1;
    return most < 1 ? 1 : most > MOST_HANDLES ? MOST_HANDLES : most;
}

static void send_to(pid_t pid, int handle, int signum) {
    if (signum == 0)
        return;
    if (handle >= 0)
        syscall(SYS_pidfd_send_signal, handle, signum, NULL, 0);
    else
        kill(pid, signum);
}

/* Signal processes that were listed below this one. By now a number may mean another process, of anybody's: so each is
   held by a descriptor, and signalled if its number is then listed again. Where a descriptor cannot be had, as on a kernel
   before Linux 5.3, the second look alone must do. `second` may be 0, for none. */
static void signal_listed(const struct pids *listed, int first, int second) {
    int handles[MOST_HANDLES];
    bool gone[MOST_HANDLES];
    size_t most = most_handles();
    for (size_t from = 0, count; from < listed->count; from += count) {
        count = listed->count - from < most ? listed->count - from : most;
        const pid_t *held = listed->of + from;
        for (size_t i = 0; i < count; i++) {
            handles[i] = (int)syscall(SYS_pidfd_open, held[i], 0);
            gone[i] = handles[i] < 0 && errno == ESRCH;
        }
        struct pids now = descendants(getpid());
        sort(&now);
        for (size_t i = 0; i < count; i++) {
            if (!gone[i] && listed_in(&now, held[i])) {
                send_to(held[i], handles[i], first);
                send_to(held[i], handles[i], second);
            }
            if (handles[i] >= 0)
                close(handles[i]);
        }
        pids_free(&now);
    }
}

void tell_job(int signum, char target, pid_t main_pid, bool wrapped) {
    struct pids mains = {0}, meant = {0};
    if (target != '\0') {
        add(&mains, main_pid);
        if (wrapped) {
            struct pids below = descendants(main_pid);
            if (below.count > 0)
                add(&mains, below.of[0]);
            pids_free(&below);
        }
    }
    struct pids job = descendants(getpid());
    for (size_t i = 0; i < job.count; i++)
        if (target == '\0' || pids_have(&mains, job.of[i]) == (target == 'B'))
            add(&meant, job.of[i]);
    signal_listed(&meant, signum, 0);
    pids_free(&meant);
    pids_free(&job);
    pids_free(&mains);
}

void terminate_job(void) {
    struct pids job = descendants(getpid());
    signal_listed(&job, SIGTERM, SIGCONT);
    pids_free(&job);
}

void kill_job(void) {
    struct pids frozen = {0};
    for (int round = 0; round < FREEZE_ROUNDS; round++) {
        struct pids job = descendants(getpid()), fresh = {0};
        sort(&job);
        for (size_t i = 0; i < job.count; i++)
            if ((i == 0 || job.of[i] != job.of[i - 1]) && !listed_in(&frozen, job.of[i]))
                add(&fresh, job.of[i]);
        pids_free(&job);
        signal_listed(&fresh, SIGSTOP, 0);
        for (size_t i = 0; i < fresh.count; i++)
            add(&frozen, fresh.of[i]);
        bool all = fresh.count == 0;
        pids_free(&fresh);
        if (all)
            break;
        sort(&frozen);
    }
    signal_listed(&frozen, SIGKILL, 0);
    pids_free(&frozen);
}
