/* Tests percore load --compare on a simulated machine. */
#include "unit.h"

#include "cycles/figures.h"
#include "fake_machine.h"
#include "tool/load.h"

#include <yajl/yajl_tree.h>

struct comparison {
  struct fake_machine *fake;
  struct engine *engine;
  struct figures *figures;
  struct snapshot *snapshot;
};

/* Takes the snapshot of a second. */
static void run_second(struct comparison *it) {
  fake_machine_run(it->fake, FAKE_SECOND);
  assert_int_equal(engine_sample(it->engine, false), 0);
  snapshot_free(it->snapshot);
  it->snapshot = figures_interval(it->figures);
  assert_non_null(it->snapshot);
  it->snapshot->covered_ns = FAKE_SECOND;
}

/* Compares the methods over a second on a machine without hardware counters.
 * Its cores are busy for 75 % of the time, of which the busy columns of
 * /proc/stat see a fifth. */
static struct comparison compare(int cores) {
  const struct figures_options figures = {.cstates = true};
  struct comparison it = {.fake = fake_machine_new(cores)};
  fake_machine_load(it.fake, 0.75);
  for (int core = 0; core < cores; core++)
    it.fake->cores[core].seen = 0.15;
  struct engine_options options = {.machine = &it.fake->machine,
                                   .source = SOURCE_IDLE};
  assert_int_equal(engine_open(&it.engine, &options), 0);
  engine_prove(it.engine);
  it.figures = figures_open(&figures, it.engine);
  assert_non_null(it.figures);
  for (int i = 0; i < 3; i++)
    run_second(&it);
  return it;
}

static void end(struct comparison *it) {
  snapshot_free(it->snapshot);
  figures_close(it->figures);
  engine_close(it->engine);
  fake_machine_free(it->fake);
}

static char *table_of(const struct comparison *it, struct screen screen) {
  const struct load_page page = {.snapshot = it->snapshot};
  FILE *file = unit_open();
  assert_int_equal(screen_write(file, screen, compare_table_write, &page), 0);
  return unit_close();
}

TEST(methods_are_side_by_side_and_an_unavailable_one_says_why) {
  struct comparison it = compare(2);
  char *out = table_of(&it, (struct screen){0});
  const char *rest = strchr(out, '\n');
  assert_non_null(rest);
  assert_string_equal(
      rest, "\n"
            "A  /proc/stat busy columns / wall\n"
            "B  /proc/stat busy / sum (as top does)\n"
            "C  1 - (idle+iowait) / wall\n"
            "D  1 - cpuidle time: this machine has no cpuidle driver\n"
            "E  percore, source idle\n"
            "load %       A      B      C      D      E\n"
            "      0   15.0   37.5   75.0      -   75.0\n"
            "      1   15.0   37.5   75.0      -   75.0\n");
  end(&it);
}

TEST(without_a_window_all_of_256_cores_are_shown) {
  struct comparison it = compare(256);
  char *out = table_of(&it, (struct screen){0});
  assert_non_null(strstr(out, "\n    255   15.0"));
  end(&it);
}

TEST(the_comparison_fits_any_window) {
  struct comparison it = compare(64);
  for (int width = 1; width < 200; width += 7)
    for (int height = 1; height < 60; height += 3) {
      char *out =
          table_of(&it, (struct screen){.width = width, .height = height});
      int lines = 0;
      for (const char *line = out; *line != '\0'; lines++) {
        size_t length = strcspn(line, "\n");
        assert_true(length <= (size_t)width);
        line += length + 1;
      }
      assert_true(lines <= height);
    }
  end(&it);
}

TEST(a_core_that_goes_offline_is_not_shown) {
  struct comparison it = compare(2);
  fake_machine_online(it.fake, 1, false);
  run_second(&it);
  char *out = table_of(&it, (struct screen){0});
  assert_non_null(strstr(out, "\n      0   15.0"));
  assert_null(strstr(out, "\n      1 "));
  end(&it);
}

TEST(the_json_comparison_names_the_missing_method_and_its_reason) {
  struct comparison it = compare(2);
  char error[128] = "";
  FILE *file = unit_open();
  assert_int_equal(
      compare_json_write(file, &(struct load_page){.snapshot = it.snapshot}),
      0);
  char *out = unit_close();
  yajl_val tree = yajl_tree_parse(out, error, sizeof(error));
  assert_string_equal(error, "");
  yajl_val methods =
      yajl_tree_get(tree, (const char *[]){"methods", NULL}, yajl_t_array);
  yajl_val why =
      yajl_tree_get(methods->u.array.values[3],
                    (const char *[]){"unavailable", NULL}, yajl_t_string);
  assert_non_null(why);
  assert_non_null(strstr(why->u.string, "no cpuidle driver"));
  yajl_val cores =
      yajl_tree_get(tree, (const char *[]){"cores", NULL}, yajl_t_array);
  const char *missing[] = {"load", "cpuidle", NULL};
  assert_true(YAJL_IS_NULL(
      yajl_tree_get(cores->u.array.values[1], missing, yajl_t_any)));
  const char *busy[] = {"load", "stat_busy", NULL};
  assert_near(YAJL_GET_DOUBLE(
                  yajl_tree_get(cores->u.array.values[1], busy, yajl_t_number)),
              15, 1e-4);
  yajl_tree_free(tree);
  end(&it);
}
