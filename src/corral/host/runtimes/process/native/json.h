/* JSON as Python's `json` writes it: a strict reader, and the text of records. */
#ifndef CORRAL_JSON_H
#define CORRAL_JSON_H

#include <stdbool.h>
#include <stddef.h>

enum json_kind { JSON_NULL, JSON_FALSE, JSON_TRUE, JSON_WHOLE, JSON_NUMBER, JSON_TEXT, JSON_LIST, JSON_OBJECT };

/* Texts are bytes that end with a NUL: a text that holds one is refused, as is one that no bytes stand for. */
struct json {
    enum json_kind kind;
    long long whole;     /* of JSON_WHOLE */
    double number;       /* of JSON_WHOLE and JSON_NUMBER */
    char *text;          /* of JSON_TEXT */
    char *key;           /* of a member of an object */
    struct json *first;  /* of a list and an object */
    struct json *next;
    size_t count;        /* of a list and an object */
};

/* Memory that is given back at once. */
struct arena {
    struct arena_part *parts;
};

void *arena_take(struct arena *arena, size_t bytes); /* NULL where there is none */
void arena_free(struct arena *arena);

/* The value of a text that ends with a NUL; the text is changed, and lives as long as the value. NULL for what makes no
   sense. */
struct json *json_read(struct arena *arena, char *text);

/* The member of an object, NULL for none, and for what is no object. */
const struct json *json_member(const struct json *object, const char *key);

/* Write `text` as JSON without its quotes, as far as whole characters of it fit into `room` bytes with a NUL, and not
   more than `most` characters. Bytes that are no UTF-8 are written as Python's surrogateescape does. */
void json_escape(char *escaped, size_t room, const char *text, size_t most);

/* The code point at the beginning of a text and its length in bytes. 0xDC80 + and one byte where it is no UTF-8. */
unsigned utf8_decode(const char *text, size_t *length);

#endif
