/* Tests percore load --compare on a simulated machine. */
#include "unit.h"

#include "fake_machine.h"
#include "tool/compare.h"

#include <stdlib.h>
#include <string.h>
#include <yajl/yajl_tree.h>

static struct fake_machine *fake;

/* Compares the methods over a second on a machine that has neither
 * /proc/schedstat nor hardware counters. Its cores are busy for 75 % of the
 * time, of which the busy columns of /proc/stat see a fifth. */
static struct comparison *compare(int cores) {
  struct comparison *comparison;
  fake = fake_machine_new(cores);
  fake_machine_load(fake, 0.75);
  for (int core = 0; core < cores; core++)
    fake->cores[core].seen = 0.15;
  fake->cpuidle_states = 2;
  struct engine_options options = {.machine = &fake->machine,
                                   .source = SOURCE_IDLE};
  assert_int_equal(comparison_open(&comparison, &options), 0);
  for (int i = 0; i < 2; i++) {
    fake_machine_run(fake, FAKE_SECOND);
    assert_int_equal(comparison_read(comparison), 0);
  }
  return comparison;
}

static void end(struct comparison *comparison) {
  comparison_close(comparison);
  fake_machine_free(fake);
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

TEST(methods_are_side_by_side_and_an_unavailable_one_says_why) {
  struct comparison *comparison = compare(2);
  char *out = table_of(comparison, (struct screen){0});
  const char *rest = strchr(out, '\n');
  assert_non_null(rest);
  assert_string_equal(
      rest, "\n"
            "A  /proc/stat busy columns / wall\n"
            "B  /proc/stat busy / sum (as top does)\n"
            "C  1 - (idle+iowait) / wall\n"
            "D  /proc/schedstat run time: this kernel is built without "
            "CONFIG_SCHEDSTATS\n"
            "E  1 - cpuidle time\n"
            "F  percore, source idle\n"
            "load %       A      B      C      D      E      F\n"
            "      0   15.0   37.5   75.0      -   75.0   75.0\n"
            "      1   15.0   37.5   75.0      -   75.0   75.0\n");
  free(out);
  end(comparison);
}

TEST(without_a_window_all_of_256_cores_are_shown) {
  struct comparison *comparison = compare(256);
  char *out = table_of(comparison, (struct screen){0});
  assert_non_null(strstr(out, "\n    255   15.0"));
  free(out);
  end(comparison);
}

TEST(the_comparison_fits_any_window) {
  struct comparison *comparison = compare(64);
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
  end(comparison);
}

TEST(loads_are_known_from_the_first_interval_on) {
  struct comparison *comparison;
  fake = fake_machine_new(1);
  fake_machine_load(fake, 0.75);
  struct engine_options options = {.machine = &fake->machine,
                                   .source = SOURCE_IDLE};
  assert_int_equal(comparison_open(&comparison, &options), 0);
  assert_int_equal(comparison_read(comparison), 0);
  fake_machine_run(fake, FAKE_SECOND);
  assert_int_equal(comparison_read(comparison), 0);
  char *out = table_of(comparison, (struct screen){0});
  assert_non_null(strstr(out, "\n      0   75.0"));
  free(out);
  end(comparison);
}

TEST(a_core_that_goes_offline_is_not_shown) {
  struct comparison *comparison = compare(2);
  fake_machine_online(fake, 1, false);
  fake_machine_run(fake, FAKE_SECOND);
  assert_int_equal(comparison_read(comparison), 0);
  char *out = table_of(comparison, (struct screen){0});
  assert_non_null(strstr(out, "\n      0   15.0"));
  assert_null(strstr(out, "\n      1 "));
  free(out);
  end(comparison);
}

TEST(the_json_comparison_names_the_missing_method_and_its_reason) {
  struct comparison *comparison = compare(2);
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
      yajl_tree_get(methods->u.array.values[3],
                    (const char *[]){"unavailable", NULL}, yajl_t_string);
  assert_non_null(why);
  assert_non_null(strstr(why->u.string, "CONFIG_SCHEDSTATS"));
  yajl_val cores =
      yajl_tree_get(tree, (const char *[]){"cores", NULL}, yajl_t_array);
  const char *missing[] = {"load", "schedstat", NULL};
  assert_true(YAJL_IS_NULL(
      yajl_tree_get(cores->u.array.values[1], missing, yajl_t_any)));
  const char *busy[] = {"load", "stat_busy", NULL};
  assert_near(YAJL_GET_DOUBLE(
                  yajl_tree_get(cores->u.array.values[1], busy, yajl_t_number)),
              0.15, 1e-6);
  yajl_tree_free(tree);
  free(out);
  end(comparison);
}
