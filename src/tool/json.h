/* json: documents, written through libyajl while they are produced.
 *
 * Each document is one line. Members of an object have a key; elements of an
 * array have NULL instead. Text is cleaned (text.h). percore.schema.json
 * describes all documents. */
#ifndef PERCORE_JSON_H
#define PERCORE_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct json;

/* Begins a document: an object with the name of the command, the version and
 * the name of the host. Returns NULL if out of memory. */
struct json *json_begin(FILE *out, const char *command);
/* Ends the document with a newline and frees *json. Returns 0, or -ENOMEM if
 * the document is incomplete. The caller must check `out` for errors. */
int json_end(struct json *json);

void json_open_object(struct json *json, const char *key);
void json_close_object(struct json *json);
void json_open_array(struct json *json, const char *key);
void json_close_array(struct json *json);

/* Writes seven digits, enough for every ratio here; null if not finite. */
void json_number(struct json *json, const char *key, double value);
/* Writes three digits after the point, for times and frequencies. */
void json_thousandths(struct json *json, const char *key, double value);
void json_integer(struct json *json, const char *key, int64_t value);
void json_unsigned(struct json *json, const char *key, uint64_t value);
void json_bool(struct json *json, const char *key, bool value);
void json_text(struct json *json, const char *key, const char *text);

#endif
