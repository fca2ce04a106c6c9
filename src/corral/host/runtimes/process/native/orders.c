#include "orders.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files.h"

/* Far more than the kernel hands over to a program, escaped as JSON may have to be. */
static const off_t MOST_BYTES = 64 * 1024 * 1024;

/* The members of a list, one after the other, each of the kind that it must be. */
struct fields {
    const struct json *next;
    bool wrong;
};

static const struct json *next_field(struct fields *fields) {
    const struct json *field = fields->next;
    if (field != NULL)
        fields->next = field->next;
    return field != NULL && field->kind != JSON_NULL ? field : NULL;
}

static const char *text_or_none(struct fields *fields) {
    const struct json *field = next_field(fields);
    if (field == NULL)
        return NULL;
    fields->wrong |= field->kind != JSON_TEXT;
    return field->kind == JSON_TEXT ? field->text : NULL;
}

static const char *text(struct fields *fields) {
    const char *found = text_or_none(fields);
    fields->wrong |= found == NULL;
    return found;
}

static long long whole_or(struct fields *fields, long long missing, long long least, long long most) {
    const struct json *field = next_field(fields);
    if (field == NULL)
        return missing;
    if (field->kind == JSON_WHOLE && field->whole >= least && field->whole <= most)
        return field->whole;
    fields->wrong = true;
    return missing;
}

static bool number(struct fields *fields, double *found) {
    const struct json *field = next_field(fields);
    if (field == NULL)
        return false;
    bool valid = (field->kind == JSON_NUMBER || field->kind == JSON_WHOLE) && field->number > -1e15 && field->number < 1e15;
    fields->wrong |= !valid;
    *found = valid ? field->number : 0;
    return valid;
}

static bool flag(struct fields *fields) {
    const struct json *field = next_field(fields);
    fields->wrong |= field != NULL && field->kind != JSON_TRUE && field->kind != JSON_FALSE;
    return field != NULL && field->kind == JSON_TRUE;
}

/* A list whose members are all of one kind; NULL for none. */
static const struct json *list_of(struct fields *fields, enum json_kind kind) {
    const struct json *list = next_field(fields);
    if (list == NULL)
        return NULL;
    fields->wrong |= list->kind != JSON_LIST;
    for (const struct json *member = list->first; member != NULL; member = member->next)
        fields->wrong |= member->kind != kind;
    return fields->wrong ? NULL : list;
}

static bool read_kept(const struct json *line, struct orders *orders) {
    if (line == NULL || line->kind != JSON_LIST)
        return false;
    struct fields fields = {line->first, false};
    orders->launch_id = text(&fields);
    orders->log_path = text(&fields);
    orders->scratch_path = text(&fields);
    orders->uid = (long)whole_or(&fields, -1, -1, UINT_MAX - 1);
    orders->gid = (long)whole_or(&fields, -1, -1, UINT_MAX - 1);
    orders->has_time_limit = number(&fields, &orders->time_limit_s);
    fields.wrong |= !number(&fields, &orders->kill_grace_s);
    orders->log_max_bytes = whole_or(&fields, 0, 0, LLONG_MAX);
    orders->notes = list_of(&fields, JSON_TEXT);
    orders->cgroup = text_or_none(&fields);
    orders->limits = list_of(&fields, JSON_TEXT);
    orders->notify_path = text_or_none(&fields);
    orders->checkpoint_signal = (int)whole_or(&fields, 0, 0, 64);
    number(&fields, &orders->checkpoint_grace_s);
    orders->has_boot_at = number(&fields, &orders->boot_at);
    orders->numa_nodes = list_of(&fields, JSON_WHOLE);
    orders->numa_cpus = list_of(&fields, JSON_WHOLE);
    orders->stdin_comes = flag(&fields);
    const struct json *terminal = list_of(&fields, JSON_WHOLE);
    orders->has_terminal = terminal != NULL;
    if (terminal != NULL) {
        struct fields size = {terminal->first, terminal->count != 2};
        orders->rows = (int)whole_or(&size, 0, 0, USHRT_MAX);
        orders->columns = (int)whole_or(&size, 0, 0, USHRT_MAX);
        fields.wrong |= size.wrong;
    }
    const char *target = text_or_none(&fields);
    orders->checkpoint_target = target == NULL ? '\0' : target[0];
    orders->wrapped = flag(&fields);
    number(&fields, &orders->spare_s);
    const char *log_of = text_or_none(&fields);
    orders->log_of = log_of == NULL ? "" : log_of;
    orders->closed = list_of(&fields, JSON_WHOLE);
    fields.wrong |= orders->closed != NULL && orders->cgroup == NULL;
    return !fields.wrong && fields.next == NULL;
}

static char **texts_of(struct arena *arena, const struct json *list) {
    char **texts = arena_take(arena, (list->count + 1) * sizeof *texts);
    if (texts == NULL)
        return NULL;
    char **next = texts;
    for (const struct json *member = list->first; member != NULL; member = member->next)
        *next++ = member->text;
    *next = NULL;
    return texts;
}

static char **environment_of(struct arena *arena, const struct json *object) {
    char **env = arena_take(arena, (object->count + 1) * sizeof *env);
    char **next = env;
    for (const struct json *member = object->first; env != NULL && member != NULL; member = member->next) {
        if (member->kind != JSON_TEXT)
            return NULL;
        size_t name = strlen(member->key), value = strlen(member->text);
        char *entry = arena_take(arena, name + value + 2);
        if (entry == NULL)
            return NULL;
        memcpy(entry, member->key, name);
        entry[name] = '=';
        memcpy(entry + name + 1, member->text, value + 1);
        *next++ = entry;
    }
    if (env != NULL)
        *next = NULL;
    return env;
}

static bool read_used(const struct json *line, struct arena *arena, struct command *command) {
    if (line == NULL || line->kind != JSON_LIST)
        return false;
    struct fields fields = {line->first, false};
    const struct json *argv = list_of(&fields, JSON_TEXT), *env = next_field(&fields);
    if (argv == NULL || argv->count == 0 || env == NULL || env->kind != JSON_OBJECT)
        return false;
    command->argv = texts_of(arena, argv);
    command->env = environment_of(arena, env);
    if (command->argv == NULL || command->env == NULL)
        return false;
    command->workdir = text(&fields);
    command->umask = (mode_t)whole_or(&fields, 022, 0, 0777);
    command->uid = (long)whole_or(&fields, -1, 0, UINT_MAX - 1);
    command->gid = (long)whole_or(&fields, -1, 0, UINT_MAX - 1);
    const struct json *groups = list_of(&fields, JSON_WHOLE);
    command->becomes_user = command->uid != -1;
    /* With one of them missing the job would keep root's. */
    if (command->becomes_user != (command->gid != -1) || command->becomes_user != (groups != NULL))
        return false;
    if (groups != NULL) {
        command->groups = arena_take(arena, (groups->count + 1) * sizeof *command->groups);
        if (command->groups == NULL)
            return false;
        for (const struct json *group = groups->first; group != NULL; group = group->next) {
            if (group->whole < 0 || group->whole >= UINT_MAX)
                return false;
            command->groups[command->group_count++] = (gid_t)group->whole;
        }
    }
    command->rlimits = next_field(&fields);
    if (command->rlimits == NULL || command->rlimits->kind != JSON_OBJECT)
        return false;
    command->output = text_or_none(&fields);
    command->error = text_or_none(&fields);
    command->append = flag(&fields);
    command->input = text_or_none(&fields);
    return !fields.wrong && fields.next == NULL;
}

/* The whole file with a NUL after it, in memory of `arena`. NULL with errno. */
static char *read_file(const char *path, struct arena *arena) {
    int fd = open_regular(path, O_RDONLY);
    struct stat found;
    if (fd < 0)
        return NULL;
    char *data = NULL;
    errno = EFBIG;
    if (fstat(fd, &found) == 0 && found.st_size <= MOST_BYTES)
        data = arena_take(arena, (size_t)found.st_size + 1);
    ssize_t got = 1;
    size_t length = 0;
    while (data != NULL && length < (size_t)found.st_size && got > 0) {
        got = read(fd, data + length, (size_t)found.st_size - length);
        length += got > 0 ? (size_t)got : 0;
    }
    int why = errno;
    close(fd);
    errno = why;
    if (data == NULL || got < 0)
        return NULL;
    data[length] = '\0';
    return data;
}

const char *read_orders(const char *path, struct arena *kept, struct orders *orders, struct arena *used,
                        struct command *command) {
    char *data = read_file(path, used);
    if (data == NULL)
        return strerror(errno);
    char *end = strchr(data, '\n');
    if (end == NULL)
        return "it has no second line";
    *end = '\0';
    char *first = arena_take(kept, (size_t)(end - data) + 1);
    if (first == NULL)
        return strerror(ENOMEM);
    memcpy(first, data, (size_t)(end - data) + 1);
    *orders = (struct orders){0};
    *command = (struct command){0};
    if (!read_kept(json_read(kept, first), orders))
        return "its first line makes no sense";
    if (!read_used(json_read(used, end + 1), used, command))
        return "its second line makes no sense";
    return NULL;
}
