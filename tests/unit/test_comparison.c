#include "unit.h"

#include "tool/compare.h"

#include <stdlib.h>
#include <string.h>
#include <yajl/yajl_tree.h>

#define CORES 256

/* Returns a comparison of three methods. The second method has measured no load
 * and gives a reason. */
static struct comparison *comparison_of(size_t cores) {
  static int numbers[CORES];
  static double load[3][CORES];
  struct comparison *comparison = calloc(1, sizeof(*comparison));
  for (int i = 0; i < CORES; i++) {
    numbers[i] = i;
    load[0][i] = 1.919;
    load[1][i] = NAN;
    load[2][i] = 0.87;
  }
  *comparison = (struct comparison){
      .time_ns = UINT64_C(1795214532000000000),
      .interval_s = 2.0004,
      .bracket_s = 0.0003,
      .cores_len = cores,
      .core = numbers,
      .methods_len = 3,
      .method = {{.name = "stat_sum", .title = "sum of columns"},
                 {.name = "schedstat",
                  .title = "schedstat",
                  .why = "/proc/schedstat is not there"},
                 {.name = "percore", .title = "percore, source idle"}}};
  for (int i = 0; i < 3; i++)
    comparison->method[i].load = load[i];
  return comparison;
}

static char *table_of(const struct comparison *comparison,
                      struct screen screen) {
  char *out = NULL;
  size_t size;
  FILE *file = open_memstream(&out, &size);
  assert_int_equal(
      screen_write(file, screen, comparison_table_write, comparison), 0);
  fclose(file);
  return out;
}

static void
methods_are_side_by_side_and_an_unavailable_one_says_why(void **state) {
  (void)state;
  struct comparison *comparison = comparison_of(2);
  char *out = table_of(comparison, (struct screen){0});
  assert_string_equal(
      out, "2026-11-20 22:42:12  over 2.000 s, all methods read within 0.3 ms\n"
           "load % by method                           cpu0    cpu1\n"
           "sum of columns                            191.9   191.9\n"
           "schedstat [1]                                 -       -\n"
           "percore, source idle                       87.0    87.0\n"
           "[1] /proc/schedstat is not there\n");
  free(out);
  free(comparison);
}

static void without_a_window_blocks_show_all_of_256_cores(void **state) {
  (void)state;
  struct comparison *comparison = comparison_of(CORES);
  char *out = table_of(comparison, (struct screen){0});
  assert_non_null(strstr(out, "  cpu255\n"));
  assert_null(strstr(out, "left out"));
  free(out);
  free(comparison);
}

static void the_comparison_fits_any_window(void **state) {
  (void)state;
  struct comparison *comparison = comparison_of(CORES);
  for (int width = 1; width < 200; width += 7)
    for (int height = 1; height < 60; height += 3) {
      char *out = table_of(comparison,
                           (struct screen){.width = width, .height = height});
      int lines = 0;
      for (const char *line = out; *line != '\0'; lines++) {
        size_t length = strcspn(line, "\n");
        assert_true(length <= (size_t)width);
        line += length + 1;
      }
      assert_true(lines <= height);
      free(out);
    }
  free(comparison);
}

static void
the_json_comparison_names_the_missing_method_and_its_reason(void **state) {
  (void)state;
  struct comparison *comparison = comparison_of(2);
  char *out = NULL, error[128] = "";
  size_t size;
  FILE *file = open_memstream(&out, &size);
  assert_int_equal(comparison_json_write(file, comparison), 0);
  fclose(file);
  yajl_val tree = yajl_tree_parse(out, error, sizeof(error));
  assert_string_equal(error, "");
  yajl_val methods =
      yajl_tree_get(tree, (const char *[]){"methods", NULL}, yajl_t_array);
  yajl_val why =
      yajl_tree_get(methods->u.array.values[1],
                    (const char *[]){"unavailable", NULL}, yajl_t_string);
  assert_string_equal(YAJL_GET_STRING(why), "/proc/schedstat is not there");
  yajl_val cores =
      yajl_tree_get(tree, (const char *[]){"cores", NULL}, yajl_t_array);
  const char *missing[] = {"load", "schedstat", NULL};
  assert_true(YAJL_IS_NULL(
      yajl_tree_get(cores->u.array.values[1], missing, yajl_t_any)));
  const char *sum[] = {"load", "stat_sum", NULL};
  assert_near(YAJL_GET_DOUBLE(
                  yajl_tree_get(cores->u.array.values[1], sum, yajl_t_number)),
              1.919, 1e-9);
  yajl_tree_free(tree);
  free(out);
  free(comparison);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(
          methods_are_side_by_side_and_an_unavailable_one_says_why),
      cmocka_unit_test(without_a_window_blocks_show_all_of_256_cores),
      cmocka_unit_test(the_comparison_fits_any_window),
      cmocka_unit_test(
          the_json_comparison_names_the_missing_method_and_its_reason),
  };
  setenv("TZ", "UTC", 1);
  return cmocka_run_group_tests_name("comparison", tests, NULL, NULL);
}
