/* json: writes JSON documents through libyajl, piece by piece, one document per
 * line. `key` is the name of a member of an object, or NULL for an element of
 * an array. Text is made safe (text.h). percore.schema.json describes all
 * documents. */
#ifndef PERCORE_JSON_H
#define PERCORE_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct json;

/* Begins a document: opens its object, and writes the name of the command,
 * percore's version and the hostname. Out of memory, each function ends the
 * process with a message. */
struct json *json_begin(FILE *out, const char *command);
/* Ends the document with a newline and frees *json. The caller must check `out`
 * for errors. */
void json_end(struct json *json);

void json_open_object(struct json *json, const char *key);
void json_close_object(struct json *json);
void json_open_array(struct json *json, const char *key);
void json_close_array(struct json *json);

/* Writes a number with seven significant digits, which is precise enough for
 * loads and rates. Writes null if the number is not finite. */
void json_number(struct json *json, const char *key, double value);
/* Writes a share of 0 to 1 in percent. */
void json_percent(struct json *json, const char *key, double share);
/* Writes a number with three decimals, which suits the seconds since 1970.
 * Writes null if the number is not finite. */
void json_thousandths(struct json *json, const char *key, double value);
void json_integer(struct json *json, const char *key, int64_t value);
void json_unsigned(struct json *json, const char *key, uint64_t value);
void json_bool(struct json *json, const char *key, bool value);
void json_text(struct json *json, const char *key, const char *text);

#endif
