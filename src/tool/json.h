/* json: documents, written through libyajl as they are made.
 *
 * One document per line. Members of an object have a key; elements of an array
 * have NULL instead. Text is cleaned (text.h). percore.schema.json describes
 * all documents. */
#ifndef PERCORE_JSON_H
#define PERCORE_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct json;

/* Begins a document, an object, on `out`, with the name of the command, the
 * version and the name of the host. NULL if out of memory. */
struct json *json_begin(FILE *out, const char *command);
/* Ends the document with a newline and frees *json. Returns 0, or -ENOMEM if
 * the document is incomplete. Errors of `out` are the caller's to check. */
int json_end(struct json *json);

void json_open_object(struct json *json, const char *key);
void json_close_object(struct json *json);
void json_open_array(struct json *json, const char *key);
void json_close_array(struct json *json);

/* Seven digits, enough for every ratio here; null if not finite. */
void json_number(struct json *json, const char *key, double value);
/* With three digits after the point, for times and frequencies. */
void json_thousandths(struct json *json, const char *key, double value);
void json_integer(struct json *json, const char *key, int64_t value);
void json_unsigned(struct json *json, const char *key, uint64_t value);
void json_bool(struct json *json, const char *key, bool value);
void json_text(struct json *json, const char *key, const char *text);

#endif
