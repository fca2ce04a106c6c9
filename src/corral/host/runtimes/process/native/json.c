#include "json.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { MOST_DEPTH = 16, PART_BYTES = 64 * 1024 };

struct arena_part {
    struct arena_part *next;
    size_t used, size;
};

void *arena_take(struct arena *arena, size_t bytes) {
    bytes = (bytes + 15) & ~(size_t)15;
    struct arena_part *part = arena->parts;
    if (part == NULL || part->size - part->used < bytes) {
        size_t header = (sizeof *part + 15) & ~(size_t)15;
        size_t size = bytes + header > PART_BYTES ? bytes + header : PART_BYTES;
        part = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (part == MAP_FAILED)
            return NULL;
        *part = (struct arena_part){arena->parts, header, size};
        arena->parts = part;
    }
    void *taken = (char *)part + part->used;
    part->used += bytes;
    return taken;
}

void arena_free(struct arena *arena) {
    while (arena->parts != NULL) {
        struct arena_part *part = arena->parts;
        arena->parts = part->next;
        munmap(part, part->size);
    }
}

struct reader {
    struct arena *arena;
    char *at;
};

static struct json *read_value(struct reader *reader, int depth);

static void skip_space(struct reader *reader) {
    while (*reader->at == ' ' || *reader->at == '\t' || *reader->at == '\n' || *reader->at == '\r')
        reader->at++;
}

static bool read_word(struct reader *reader, const char *word) {
    size_t length = strlen(word);
    if (strncmp(reader->at, word, length) != 0)
        return false;
    reader->at += length;
    return true;
}

static int hex_digits(const char *text) {
    int value = 0;
    for (int i = 0; i < 4; i++) {
        char c = text[i];
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0)
            return -1;
        value = value * 16 + digit;
    }
    return value;
}

static char *put_utf8(char *to, unsigned code) {
    if (code < 0x80) {
        *to++ = (char)code;
    } else if (code < 0x800) {
        *to++ = (char)(0xC0 | code >> 6);
        *to++ = (char)(0x80 | (code & 0x3F));
    } else if (code < 0x10000) {
        *to++ = (char)(0xE0 | code >> 12);
        *to++ = (char)(0x80 | (code >> 6 & 0x3F));
        *to++ = (char)(0x80 | (code & 0x3F));
    } else {
        *to++ = (char)(0xF0 | code >> 18);
        *to++ = (char)(0x80 | (code >> 12 & 0x3F));
        *to++ = (char)(0x80 | (code >> 6 & 0x3F));
        *to++ = (char)(0x80 | (code & 0x3F));
    }
    return to;
}

/* What follows a backslash and a `u`, written to `to`; NULL for what stands for no bytes. */
static char *read_escaped_code(struct reader *reader, char *to) {
    int code = hex_digits(reader->at);
    if (code <= 0) /* NUL would end the text before its end */
        return NULL;
    reader->at += 4;
    if (code >= 0xDC80 && code <= 0xDCFF) { /* a byte that is no UTF-8 */
        *to++ = (char)(code - 0xDC00);
        return to;
    }
    if (code >= 0xDC00 && code <= 0xDFFF)
        return NULL;
    if (code >= 0xD800 && code <= 0xDBFF) {
        int low = reader->at[0] == '\\' && reader->at[1] == 'u' ? hex_digits(reader->at + 2) : -1;
        if (low < 0xDC00 || low > 0xDFFF)
            return NULL;
        reader->at += 6;
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
    return put_utf8(to, (unsigned)code);
}

/* A string is decoded in place, for no escape is shorter than what it stands for. */
static char *read_text(struct reader *reader) {
    static const char plain[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    if (*reader->at != '"')
        return NULL;
    char *text = ++reader->at, *to = text;
    while (*reader->at != '"') {
        if ((unsigned char)*reader->at < ' ') /* the end, too */
            return NULL;
        if (*reader->at != '\\') {
            *to++ = *reader->at++;
            continue;
        }
        char escape = *++reader->at;
        const char *found = escape == '\0' ? NULL : strchr(plain, escape);
        if (found != NULL) {
            *to++ = meant[found - plain];
            reader->at++;
        } else if (escape == 'u') {
            reader->at++;
            to = read_escaped_code(reader, to);
            if (to == NULL)
                return NULL;
        } else {
            return NULL;
        }
    }
    reader->at++;
    *to = '\0';
    return text;
}

static const char *skip_digits(const char *at) {
    while (*at >= '0' && *at <= '9')
        at++;
    return at;
}

static bool read_number(struct reader *reader, struct json *value) {
    const char *begin = reader->at, *at = begin + (*begin == '-');
    const char *digits = at;
    at = skip_digits(at);
    if (at == digits || (*digits == '0' && at > digits + 1))
        return false;
    value->kind = JSON_WHOLE;
    if (*at == '.') {
        value->kind = JSON_NUMBER;
        const char *fraction = ++at;
        at = skip_digits(at);
        if (at == fraction)
            return false;
    }
    if (*at == 'e' || *at == 'E') {
        value->kind = JSON_NUMBER;
        at++;
        at += *at == '+' || *at == '-';
        const char *exponent = at;
        at = skip_digits(at);
        if (at == exponent)
            return false;
    }
    value->number = strtod(begin, NULL);
    if (value->kind == JSON_WHOLE) {
        errno = 0;
        value->whole = strtoll(begin, NULL, 10);
        if (errno == ERANGE)
            return false;
    }
    reader->at += at - begin;
    return true;
}

/* The members of a list or an object, up to its closing bracket. */
static bool read_members(struct reader *reader, struct json *value, char closing, int depth) {
    struct json **last = &value->first;
    reader->at++;
    skip_space(reader);
    if (*reader->at == closing) {
        reader->at++;
        return true;
    }
    for (;;) {
        char *key = NULL;
        skip_space(reader);
        if (value->kind == JSON_OBJECT) {
            key = read_text(reader);
            skip_space(reader);
            if (key == NULL || *reader->at != ':')
                return false;
            reader->at++;
        }
        struct json *member = read_value(reader, depth + 1);
        if (member == NULL)
            return false;
        member->key = key;
        *last = member;
        last = &member->next;
        value->count++;
        skip_space(reader);
        if (*reader->at == closing) {
            reader->at++;
            return true;
        }
        if (*reader->at++ != ',')
            return false;
    }
}

static struct json *read_value(struct reader *reader, int depth) {
    struct json *value = depth > MOST_DEPTH ? NULL : arena_take(reader->arena, sizeof *value);
    if (value == NULL)
        return NULL;
    *value = (struct json){.kind = JSON_NULL};
    skip_space(reader);
    switch (*reader->at) {
    case 'n':
        return read_word(reader, "null") ? value : NULL;
    case 't':
        value->kind = JSON_TRUE;
        return read_word(reader, "true") ? value : NULL;
    case 'f':
        value->kind = JSON_FALSE;
        return read_word(reader, "false") ? value : NULL;
    case '"':
        value->kind = JSON_TEXT;
        value->text = read_text(reader);
        return value->text == NULL ? NULL : value;
    case '[':
        value->kind = JSON_LIST;
        return read_members(reader, value, ']', depth) ? value : NULL;
    case '{':
        value->kind = JSON_OBJECT;
        return read_members(reader, value, '}', depth) ? value : NULL;
    default:
        return read_number(reader, value) ? value : NULL;
    }
}

struct json *json_read(struct arena *arena, char *text) {
    struct reader reader = {arena, text};
    struct json *value = read_value(&reader, 0);
    if (value == NULL)
        return NULL;
    skip_space(&reader);
    return *reader.at == '\0' ? value : NULL;
}

const struct json *json_member(const struct json *object, const char *key) {
    if (object == NULL || object->kind != JSON_OBJECT)
        return NULL;
    const struct json *found = NULL;
    for (const struct json *member = object->first; member != NULL; member = member->next)
        if (strcmp(member->key, key) == 0)
            found = member; /* as in Python, the last one counts */
    return found;
}

unsigned utf8_decode(const char *text, size_t *length) {
    const unsigned char *at = (const unsigned char *)text;
    static const unsigned least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t bytes = *at < 0x80 ? 1 : *at >= 0xC2 && *at < 0xE0 ? 2 : *at >= 0xE0 && *at < 0xF0 ? 3 : *at >= 0xF0 && *at < 0xF5 ? 4 : 0;
    unsigned code = bytes < 2 ? *at : *at & (0x7Fu >> bytes);
    bool valid = bytes > 0;
    for (size_t i = 1; valid && i < bytes; i++) {
        valid = (at[i] & 0xC0) == 0x80;
        code = code << 6 | (at[i] & 0x3F);
    }
    valid = valid && code >= least[bytes] && code <= 0x10FFFF && !(code >= 0xD800 && code <= 0xDFFF);
    *length = valid ? bytes : 1;
    return valid ? code : 0xDC00u + *at;
}

/* One character as JSON in ASCII. */
static int escape_code(char escaped[16], unsigned code) {
    switch (code) {
    case '"':
        return snprintf(escaped, 16, "\\\"");
    case '\\':
        return snprintf(escaped, 16, "\\\\");
    case '\n':
        return snprintf(escaped, 16, "\\n");
    case '\t':
        return snprintf(escaped, 16, "\\t");
    default:
        if (code >= ' ' && code < 0x7F)
            return snprintf(escaped, 16, "%c", (int)code);
        if (code < 0x10000)
            return snprintf(escaped, 16, "\\u%04x", code);
        code -= 0x10000;
        return snprintf(escaped, 16, "\\u%04x\\u%04x", 0xD800 + (code >> 10), 0xDC00 + (code & 0x3FF));
    }
}

void json_escape(char *escaped, size_t room, const char *text, size_t most) {
    while (*text != '\0' && most-- > 0) {
        size_t length;
        char one[16];
        size_t needed = (size_t)escape_code(one, utf8_decode(text, &length));
        if (needed >= room)
            break;
        memcpy(escaped, one, needed);
        escaped += needed;
        room -= needed;
        text += length;
    }
    *escaped = '\0';
}
