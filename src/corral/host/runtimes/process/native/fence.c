#include "fence.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cgroups.h"

enum {
    FIELDS = 3, /* of a range */
    MOST_RANGES = 1024,
    HEAD = 5,
    PER_RANGE = 5,
    TAIL = 2,
    OPENED = 1, /* what the program answers */
    CLOSED = 0,
};

/* The registers of the program. The kernel hands over the context in the second, and takes the answer from the first. */
enum { ANSWER, CONTEXT, KIND, MAJOR, MINOR };

static struct bpf_insn load(int to, size_t field) {
    return (struct bpf_insn){
        .code = BPF_LDX | BPF_MEM | BPF_W, .dst_reg = (uint8_t)to, .src_reg = CONTEXT, .off = (int16_t)field};
}

/* Skip so many instructions where the comparison holds. */
static struct bpf_insn skip_if(int compared, int what, int32_t number, int16_t skipped) {
    return (struct bpf_insn){
        .code = (uint8_t)(BPF_JMP | compared | BPF_K), .dst_reg = (uint8_t)what, .off = skipped, .imm = number};
}

static size_t answer(struct bpf_insn *code, int32_t word) {
    code[0] = (struct bpf_insn){.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = ANSWER, .imm = word};
    code[1] = (struct bpf_insn){.code = BPF_JMP | BPF_EXIT};
    return 2;
}

/* How many instructions there are; 0 where a number makes no sense. */
static size_t compile(struct bpf_insn *code, const struct json *closed) {
    size_t length = 0, left = closed->count / FIELDS * PER_RANGE;
    code[length++] = load(KIND, offsetof(struct bpf_cgroup_dev_ctx, access_type));
    code[length++] = load(MAJOR, offsetof(struct bpf_cgroup_dev_ctx, major));
    code[length++] = load(MINOR, offsetof(struct bpf_cgroup_dev_ctx, minor));
    /* The upper half says whether it is read, written or made. */
    code[length++] = (struct bpf_insn){.code = BPF_ALU64 | BPF_AND | BPF_K, .dst_reg = KIND, .imm = 0xffff};
    code[length++] = skip_if(BPF_JNE, KIND, BPF_DEVCG_DEV_CHAR, (int16_t)left);
    for (const struct json *major = closed->first; major != NULL; major = major->next->next->next) {
        const struct json *first = major->next, *last = first->next;
        if (major->whole < 0 || major->whole > INT32_MAX || first->whole < 0 || last->whole > INT32_MAX ||
            first->whole > last->whole)
            return 0;
        code[length++] = skip_if(BPF_JNE, MAJOR, (int32_t)major->whole, 4);
        code[length++] = skip_if(BPF_JLT, MINOR, (int32_t)first->whole, 3);
        code[length++] = skip_if(BPF_JGT, MINOR, (int32_t)last->whole, 2);
        length += answer(code + length, CLOSED);
    }
    return length + answer(code + length, OPENED);
}

static int load_program(const struct json *closed) {
    static struct bpf_insn code[HEAD + MOST_RANGES * PER_RANGE + TAIL];
    errno = EINVAL;
    if (closed->count % FIELDS != 0 || closed->count / FIELDS > MOST_RANGES)
        return -1;
    union bpf_attr wanted = {
        .prog_type = BPF_PROG_TYPE_CGROUP_DEVICE,
        .expected_attach_type = BPF_CGROUP_DEVICE,
        .insns = (uint64_t)(uintptr_t)code,
        .insn_cnt = (uint32_t)compile(code, closed),
        .license = (uint64_t)(uintptr_t)"",
    };
    return wanted.insn_cnt == 0 ? -1 : (int)syscall(SYS_bpf, BPF_PROG_LOAD, &wanted, sizeof wanted);
}

bool fence_cgroup(const char *cgroup, const struct json *closed) {
    if (mkdir(cgroup, 0755) != 0 && errno != EEXIST)
        return false;
    int group = open(cgroup, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int program = group < 0 ? -1 : load_program(closed);
    bool attached = false;
    if (program >= 0) {
        /* Beside those of the groups above, which have to agree. The group keeps the program. */
        union bpf_attr wanted = {
            .target_fd = (uint32_t)group,
            .attach_bpf_fd = (uint32_t)program,
            .attach_type = BPF_CGROUP_DEVICE,
            .attach_flags = BPF_F_ALLOW_MULTI,
        };
        attached = syscall(SYS_bpf, BPF_PROG_ATTACH, &wanted, sizeof wanted) == 0;
    }
    int why = errno;
    if (program >= 0)
        close(program);
    if (group >= 0)
        close(group);
    errno = why;
    return attached;
}

int fence_one(const char *cgroup, char *closed) {
    struct arena arena = {0};
    const struct json *numbers = json_read(&arena, closed);
    errno = EINVAL;
    if (numbers != NULL && numbers->kind == JSON_LIST && fence_cgroup(cgroup, numbers))
        return 0;
    int why = errno;
    rmdir(cgroup);
    dprintf(2, "%s\n", strerror(why));
    return 1;
}

static _Noreturn void open_inside(const char *cgroup) {
    if (!cgroup_join(cgroup))
        _exit(2);
    _exit(open("/dev/null", O_RDONLY | O_CLOEXEC) < 0 && errno == EPERM ? 0 : 1);
}

int try_fence(const char *cgroup) {
    char text[] = "[1, 3, 3]"; /* /dev/null */
    struct arena arena = {0};
    const struct json *closed = json_read(&arena, text);
    const char *why = closed != NULL && fence_cgroup(cgroup, closed) ? NULL : strerror(errno);
    int status = 0;
    pid_t pid = why == NULL ? fork() : -1;
    if (pid == 0)
        open_inside(cgroup);
    if (why == NULL && (pid < 0 || waitpid(pid, &status, 0) < 0))
        why = strerror(errno);
    if (why == NULL && status != 0)
        why = WIFEXITED(status) && WEXITSTATUS(status) == 1 ? "what it closes can be opened" : "its cgroup cannot be entered";
    rmdir(cgroup);
    if (why != NULL)
        dprintf(2, "%s\n", why);
    return why != NULL;
}
