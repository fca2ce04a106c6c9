#include "login.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "files.h"

/* <linux/keyctl.h>, which not every machine has */
enum {
    JOIN_SESSION_KEYRING = 1,
    SET_PERMISSIONS = 5,
    LINK = 8,
    SESSION_KEYRING = -3,
    USER_KEYRING = -4,
    VIEWED_READ_AND_SEARCHED = 0x0b000000, /* by who holds it; nothing for anybody else */
};

enum { IO_OF_PROCESS = 1, IO_BY_NICENESS = 0 }; /* <linux/ioprio.h> */

static const unsigned long TIMER_SLACK_NS = 50 * 1000; /* what init has */

static bool sealed;

static void tell_kernel(const char *path, const char *word) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    write_all(fd, word, strlen(word));
    close(fd);
}

void leave_login(void) {
    if (geteuid() != 0)
        return;
    sealed = syscall(SYS_keyctl, JOIN_SESSION_KEYRING, NULL) >= 0 &&
             syscall(SYS_keyctl, SET_PERMISSIONS, SESSION_KEYRING, VIEWED_READ_AND_SEARCHED) == 0;
    tell_kernel("/proc/self/loginuid", "4294967295");
}

void take_login_standing(void) {
    static const struct sched_param ordinary = {0};
    if (geteuid() != 0)
        return;
    tell_kernel("/proc/self/oom_score_adj", "0");
    tell_kernel("/proc/self/coredump_filter", "0x33");
    syscall(SYS_sched_setscheduler, 0, SCHED_OTHER, &ordinary);
    setpriority(PRIO_PROCESS, 0, 0);
    syscall(SYS_ioprio_set, IO_OF_PROCESS, 0, IO_BY_NICENESS);
    personality(PER_LINUX);
    prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS, 0, 0, 0);
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    prctl(PR_SET_SECUREBITS, 0, 0, 0, 0);
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct held[_LINUX_CAPABILITY_U32S_3];
    if (syscall(SYS_capget, &header, held) == 0) {
        held[0].inheritable = held[1].inheritable = 0;
        syscall(SYS_capset, &header, held);
    }
}

bool drop_capabilities(void) {
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {0};
    /* What root's memory held is not its user's to read until the program is executed. */
    return syscall(SYS_capset, &header, none) == 0 && prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0;
}

bool take_own_keyring(void) {
    if (syscall(SYS_keyctl, JOIN_SESSION_KEYRING, NULL) >= 0) {
        syscall(SYS_keyctl, LINK, USER_KEYRING, SESSION_KEYRING);
        return true;
    }
    /* Of a user that has as many keys as may be, the empty one must do. A filter is told of by `corral doctor`. */
    return sealed || errno == ENOSYS || errno == EPERM || errno == EACCES;
}
