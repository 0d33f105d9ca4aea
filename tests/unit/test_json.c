#include "percore_config.h"

#include "unit.h"

#include "tool/json.h"

#include <yajl/yajl_tree.h>

#define HEAD                                                                   \
  "{\"command\":\"test\",\"version\":\"" PACKAGE_VERSION "\",\"hostname\":\""

/* Returns the document that `write` makes, without the members with which every
 * document begins. */
static char *written(void (*write)(struct json *json)) {
  FILE *file = unit_open();
  struct json *json = json_begin(file, "test");
  write(json);
  json_end(json);
  char *out = unit_close();
  assert_int_equal(strncmp(out, HEAD, strlen(HEAD)), 0);
  char *rest = strstr(out + strlen(HEAD), "\",");
  assert_non_null(rest);
  rest[1] = '{';
  return rest + 1;
}

static void write_all_kinds(struct json *json) {
  json_number(json, "load", 0.8734567891);
  json_thousandths(json, "time", 1795214532.0004);
  json_integer(json, "core", INT64_C(-9007199254740993));
  json_bool(json, "online", true);
  json_text(json, "name", "say \"hi\"\\");
  json_open_array(json, "list");
  json_open_object(json, NULL);
  json_close_object(json);
  json_integer(json, NULL, 1);
  json_close_array(json);
}

TEST(a_document_is_one_line) {
  char *out = written(write_all_kinds);
  assert_string_equal(out,
                      "{\"load\":0.8734568,\"time\":1795214532.000,"
                      "\"core\":-9007199254740993,\"online\":true,"
                      "\"name\":\"say \\\"hi\\\"\\\\\",\"list\":[{},1]}\n");
}

static void write_unknown(struct json *json) {
  json_number(json, "nan", NAN);
  json_number(json, "inf", INFINITY);
  json_number(json, "zero", -0.0);
  json_thousandths(json, "minus_inf", -INFINITY);
}

TEST(unknown_values_are_null_and_zero_has_no_sign) {
  char *out = written(write_unknown);
  assert_string_equal(
      out, "{\"nan\":null,\"inf\":null,\"zero\":0,\"minus_inf\":null}\n");
}

static void write_hostile(struct json *json) {
  json_text(json, "\xff\033[2J\n", "\"},\xc3\x28\x01\n");
  json_thousandths(json, "large", 1.7e308);
}

TEST(foreign_bytes_leave_a_document_that_parsers_accept) {
  char *out = written(write_hostile), error[256] = "";
  assert_int_equal(strspn(out, "\x01\033"), 0);
  yajl_val tree = yajl_tree_parse(out, error, sizeof(error));
  assert_string_equal(error, "");
  assert_non_null(tree);
  assert_int_equal(tree->u.object.len, 2);
  assert_string_equal(tree->u.object.keys[0],
                      "\xef\xbf\xbd\xef\xbf\xbd[2J\xef\xbf\xbd");
  yajl_tree_free(tree);
}
