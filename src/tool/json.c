#include "percore_config.h"

#include "json.h"

#include "text.h"
#include "tool.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <yajl/yajl_gen.h>

struct json {
  FILE *out;
  yajl_gen generator;
};

static void print(void *context, const char *text, size_t length) {
  fwrite(text, 1, length, context);
}

/* An incomplete document is useless, so the command ends. */
static void need(bool is_done) {
  if (is_done)
    return;
  say_failure(NULL, "cannot write JSON: %s", strerror(ENOMEM));
  exit(TOOL_FAILURE);
}

static void check(yajl_gen_status status) {
  need(status == yajl_gen_status_ok);
}

/* Makes a text safe and writes it. */
static void put_text(struct json *json, const char *text) {
  size_t length = strlen(text), size = length * TEXT_GROWTH + 1;
  char *clean = malloc(size);
  need(clean != NULL);
  size_t clean_length = text_clean(clean, size, text, length);
  check(yajl_gen_string(json->generator, (const unsigned char *)clean,
                        clean_length));
  free(clean);
}

static void put_key(struct json *json, const char *key) {
  if (key != NULL)
    put_text(json, key);
}

struct json *json_begin(FILE *out, const char *command) {
  char host[256] = "";
  struct json *json = calloc(1, sizeof(*json));
  need(json != NULL);
  json->out = out;
  json->generator = yajl_gen_alloc(NULL);
  need(json->generator != NULL);
  yajl_gen_config(json->generator, yajl_gen_print_callback, print, out);
  check(yajl_gen_map_open(json->generator));
  gethostname(host, sizeof(host) - 1);
  json_text(json, "command", command);
  json_text(json, "version", PACKAGE_VERSION);
  json_text(json, "hostname", host);
  return json;
}

void json_end(struct json *json) {
  check(yajl_gen_map_close(json->generator));
  fputc('\n', json->out);
  yajl_gen_free(json->generator);
  free(json);
}

void json_open_object(struct json *json, const char *key) {
  put_key(json, key);
  check(yajl_gen_map_open(json->generator));
}

void json_close_object(struct json *json) {
  check(yajl_gen_map_close(json->generator));
}

void json_open_array(struct json *json, const char *key) {
  put_key(json, key);
  check(yajl_gen_array_open(json->generator));
}

void json_close_array(struct json *json) {
  check(yajl_gen_array_close(json->generator));
}

static void put_number(struct json *json, const char *key, double value,
                       const char *format) {
  put_key(json, key);
  if (!isfinite(value)) {
    check(yajl_gen_null(json->generator));
    return;
  }
  char digits[512]; /* "%.3f" prints the largest double as 313 bytes */
  int length = snprintf(digits, sizeof(digits), format, value + 0.0);
  check(yajl_gen_number(json->generator, digits, (size_t)length));
}

void json_number(struct json *json, const char *key, double value) {
  put_number(json, key, value, "%.7g");
}

void json_percent(struct json *json, const char *key, double share) {
  json_number(json, key, 100 * share);
}

void json_thousandths(struct json *json, const char *key, double value) {
  put_number(json, key, value, "%.3f");
}

void json_integer(struct json *json, const char *key, int64_t value) {
  put_key(json, key);
  check(yajl_gen_integer(json->generator, value));
}

/* yajl_gen_integer accepts only signed numbers, so unsigned numbers are
 * formatted here. */
void json_unsigned(struct json *json, const char *key, uint64_t value) {
  char digits[24];
  int length = snprintf(digits, sizeof(digits), "%" PRIu64, value);
  put_key(json, key);
  check(yajl_gen_number(json->generator, digits, (size_t)length));
}

void json_bool(struct json *json, const char *key, bool value) {
  put_key(json, key);
  check(yajl_gen_bool(json->generator, value));
}

void json_text(struct json *json, const char *key, const char *text) {
  put_key(json, key);
  put_text(json, text);
}
