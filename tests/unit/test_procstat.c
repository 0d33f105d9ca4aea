#include "unit.h"

#include "cycles/procstat.h"
#include "fake_machine.h"

#include <inttypes.h>

#define TICK UINT64_C(10000000)

static struct procstat proc;

static void free_stat(void) { procstat_free(&proc); }

static int parse(const char *text) { return procstat_parse(&proc, text, TICK); }

static uint64_t ticks(int core, enum procstat_column column) {
  assert_true(core_set_has(&proc.cores, core));
  return proc.rows[core].ns[column] / TICK;
}

static const char usual[] =
    "cpu  30 2 14 218 33 8 36 13 5 6\n"
    "cpu0 10 1 7 100 11 3 17 5 2 3\n"
    "cpu1 20 1 7 118 22 5 19 8 3 3\n"
    "intr 126069 0 0 9\n"
    "ctxt 250000\nbtime 1700000000\nprocesses 4711\n"
    "procs_running 3\nprocs_blocked 2\nsoftirq 77 0 1 2\n";

TEST(every_row_has_its_ten_columns) {
  assert_int_equal(parse(usual), 0);
  static const uint64_t columns[2][PROCSTAT_COLUMNS] = {
      {10, 1, 7, 100, 11, 3, 17, 5, 2, 3}, {20, 1, 7, 118, 22, 5, 19, 8, 3, 3}};
  for (int core = 0; core < 2; core++)
    for (int column = 0; column < PROCSTAT_COLUMNS; column++)
      assert_int_equal(ticks(core, column), columns[core][column]);
  assert_int_equal(core_set_count(&proc.cores), 2);
}

TEST(a_malformed_row_is_left_out) {
  assert_int_equal(parse("cpu0 1 2 3 4 5 6 7 8 0 0\n"
                         "cpu1 1 2 x 4 5 6 7 8 0 0\n"
                         "cpu3 18446744073709551615 2 3 4 5 6 7 8 0 0\n"
                         "cpu4 1 2\n"),
                   0);
  for (int core = 0; core < 5; core++)
    assert_int_equal(core_set_has(&proc.cores, core), core == 0);
}

TEST(running_and_blocked_processes_are_found) {
  assert_int_equal(parse(usual), 0);
  assert_int_equal(proc.running, 3);
  assert_int_equal(proc.blocked, 2);
  assert_int_equal(parse("cpu0 1 2 3 4 5 6 7 8 0 0\n"), 0);
  assert_int_equal(proc.running, -1);
  assert_int_equal(proc.blocked, -1);
}

TEST(busy_and_idle_are_sums_of_columns) {
  const struct procstat_row row = {
      .ns = {1, 20, 300, 4000, 50000, 600000, 7000000, 80000000, 9, 90}};
  assert_int_equal(procstat_busy_ns(&row), 7600321);
  assert_int_equal(procstat_idle_ns(&row), 54000);
}

TEST(the_sum_row_and_other_lines_are_not_cores) {
  assert_int_equal(parse("cpu  1 2 3 4 5 6 7 8 0 0\n"
                         "cpufreq 1 2 3 4 5 6 7 8 0 0\n"
                         "cpu 7 1 2 3 4 5 6 7 8\n"
                         "xcpu1 1 2 3 4 5 6 7 8 0 0\n"
                         " cpu2 1 2 3 4 5 6 7 8 0 0\n"
                         "cpu3 1 2 3 4 5 6 7 8 0 0\n"
                         "cpu-4 1 2 3 4 5 6 7 8 0 0\n"
                         "cpu5x 1 2 3 4 5 6 7 8 0 0\n"),
                   0);
  assert_int_equal(core_set_count(&proc.cores), 1);
  assert_true(core_set_has(&proc.cores, 3));
}

TEST(rows_are_identified_by_core_number_and_not_by_line) {
  assert_int_equal(parse("cpu9 9 0 0 90 0 0 0 0 0 0\nctxt 1\n"
                         "cpu2 2 0 0 20 0 0 0 0 0 0\n"
                         "cpu200 7 0 0 70 0 0 0 0 0 0\n"),
                   0);
  assert_int_equal(ticks(2, PROCSTAT_IDLE), 20);
  assert_int_equal(ticks(9, PROCSTAT_IDLE), 90);
  assert_int_equal(ticks(200, PROCSTAT_USER), 7);
  assert_false(core_set_has(&proc.cores, 0));
  assert_false(core_set_has(&proc.cores, 1));
  assert_int_equal(core_set_count(&proc.cores), 3);
}

TEST(a_core_that_has_gone_has_no_row) {
  assert_int_equal(parse(usual), 0);
  assert_int_equal(parse("cpu0 1 2 3 4 5 6 7 8 0 0\n"), 0);
  assert_true(core_set_has(&proc.cores, 0));
  assert_false(core_set_has(&proc.cores, 1));
}

TEST(columns_of_a_future_kernel_are_ignored) {
  assert_int_equal(parse("cpu0 1 2 3 4 5 6 7 8 9 10 11 12 later\n"), 0);
  assert_int_equal(ticks(0, PROCSTAT_STEAL), 8);
}

TEST(a_row_with_fewer_than_ten_columns_is_not_used) {
  assert_int_equal(parse("cpu0\ncpu1 \ncpu2 1\ncpu3 1 2 3 4\n"
                         "cpu4 1 2 3 4 5 6 7 8 9\ncpu5 1 2 3 4 5 6 7 8 9 \n"),
                   -EINVAL);
  assert_int_equal(core_set_count(&proc.cores), 0);
}

TEST(a_row_with_anything_but_numbers_is_not_used) {
  static const char *const bad[] = {
      "cpu0 1 2 x 4 5 6 7 8 0 0\n",   "cpu0 1 2 3 4 five 6 7 8 0 0\n",
      "cpu0 1 2 3 -4 5 6 7 8 0 0\n",  "cpu0 1 2 3 4 5 -6 7 8 0 0\n",
      "cpu0 1 2 3 4 5 6 7.5 8 0 0\n", "cpu0 1 2 3 4 5 6 7 8x 0 0\n",
      "cpu0,1,2,3,4,5,6,7,8\n",       "cpu0 1 2 3 0x4 5 6 7 8 0 0\n",
  };
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    if (parse(bad[i]) != -EINVAL || core_set_has(&proc.cores, 0))
      fail_msg("taken: %s", bad[i]);
    procstat_free(&proc);
  }
}

TEST(a_number_beyond_64_bits_invalidates_only_its_row) {
  static const char *const huge[] = {
      "cpu0 1 2 3 18446744073709551616 5 6 7 8 0 0\n",
      "cpu0 1 2 3 4 18446744073709551616 6 7 8 0 0\n",
      "cpu0 1 2 3 4 5 6 7 99999999999999999999999999 0 0\n",
      /* fits in 64 bits as ticks, but not as nanoseconds */
      "cpu0 1 2 3 4 5 6 7 1844674407371 0 0\n",
  };
  for (size_t i = 0; i < sizeof huge / sizeof huge[0]; i++) {
    char text[256];
    snprintf(text, sizeof text, "%scpu1 1 2 3 4 5 6 7 8 0 0\n", huge[i]);
    assert_int_equal(parse(text), 0);
    if (core_set_has(&proc.cores, 0))
      fail_msg("taken: %s", huge[i]);
    assert_true(core_set_has(&proc.cores, 1));
    procstat_free(&proc);
  }
}

TEST(the_largest_time_that_fits_is_kept) {
  assert_int_equal(parse("cpu0 1844674407370 2 3 4 5 6 7 8 9 10\n"), 0);
  assert_int_equal(proc.rows[0].ns[PROCSTAT_USER],
                   UINT64_C(18446744073700000000));
}

TEST(impossible_core_numbers_are_ignored) {
  assert_int_equal(parse("cpu8192 1 2 3 4 5 6 7 8 0 0\n"
                         "cpu4294967296 1 2 3 4 5 6 7 8 0 0\n"
                         "cpu99999999999999999999 1 2 3 4 5 6 7 8 0 0\n"
                         "cpu8191 1 2 3 4 5 6 7 8 0 0\n"),
                   0);
  assert_int_equal(core_set_count(&proc.cores), 1);
  assert_true(core_set_has(&proc.cores, 8191));
}

/* The rest of the line may be missing: "cpu1 1 2 3 48" may be the beginning of
 * "cpu1 1 2 3 4812 ...". */
TEST(a_last_line_without_newline_is_not_used) {
  assert_int_equal(parse("cpu0 1 2 3 4 5 6 7 8 0 0\n"
                         "cpu1 1 2 3 48"),
                   0);
  assert_true(core_set_has(&proc.cores, 0));
  assert_false(core_set_has(&proc.cores, 1));
}

TEST(a_file_cut_off_anywhere_yields_only_whole_rows) {
  struct procstat whole = {0};
  assert_int_equal(procstat_parse(&whole, usual, TICK), 0);
  for (size_t length = 0; length < sizeof usual; length++) {
    char text[sizeof usual];
    memcpy(text, usual, length);
    text[length] = 0;
    int status = parse(text);
    assert_int_equal(status, core_set_has(&proc.cores, 0) ? 0 : -EINVAL);
    for (int core = 0; core < 2; core++)
      if (core_set_has(&proc.cores, core))
        assert_memory_equal(proc.rows[core].ns, whole.rows[core].ns,
                            sizeof proc.rows[core].ns);
    procstat_free(&proc);
  }
  procstat_free(&whole);
}

TEST(a_file_without_any_core_is_refused) {
  static const char *const bad[] = {
      "",     "\n", "\n\n\n", "junk\n", "cpu 1 2 3 4\n", "procs_running 1\n",
      "cpu\n"};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    assert_int_equal(parse(bad[i]), -EINVAL);
    procstat_free(&proc);
  }
}

/* ---------------------------------------------------------------------------
 * Reading
 */

TEST(the_time_stamp_of_a_read_is_its_middle) {
  struct fake_machine *fake = fake_machine_new(2);
  fake->stat_read_ns = 400000;
  fake->stat_slow_reads = -1;
  uint64_t begin_ns = fake->monotonic_ns;
  assert_int_equal(procstat_read(&proc, &fake->machine), 0);
  assert_int_equal(proc.bracket_ns, 400000);
  assert_int_equal(proc.time_ns, begin_ns + 200000);
  assert_int_equal(fake->stat_reads, 1);
  fake_machine_free(fake);
}

TEST(a_read_of_more_than_2_ms_is_repeated_once) {
  struct fake_machine *fake = fake_machine_new(2);
  fake->stat_read_ns = 3 * FAKE_MS;
  fake->stat_slow_reads = 1;
  assert_int_equal(procstat_read(&proc, &fake->machine), 0);
  assert_int_equal(fake->stat_reads, 2);
  assert_int_equal(proc.bracket_ns, 0);
  assert_int_equal(proc.time_ns, fake->monotonic_ns);

  fake->stat_reads = 0;
  fake->stat_slow_reads = -1;
  assert_int_equal(procstat_read(&proc, &fake->machine), 0);
  assert_int_equal(fake->stat_reads, 2);
  assert_int_equal(proc.bracket_ns, 3 * FAKE_MS);
  fake_machine_free(fake);
}

TEST(ticks_of_the_file_are_hundredths_of_a_second) {
  struct fake_machine *fake = fake_machine_new(1);
  fake_machine_file(fake, "/proc/stat", "cpu0 1 0 0 250 0 0 0 0 0 0\n");
  assert_int_equal(procstat_read(&proc, &fake->machine), 0);
  assert_int_equal(proc.rows[0].ns[PROCSTAT_IDLE], UINT64_C(2500000000));
  fake_machine_free(fake);
}

TEST(a_missing_file_returns_its_errno_and_may_come_back) {
  struct fake_machine *fake = fake_machine_new(1);
  fake_machine_fail(fake, "/proc/stat", ENOENT);
  assert_int_equal(procstat_read(&proc, &fake->machine), -ENOENT);
  fake_machine_fail(fake, "/proc/stat", EACCES);
  assert_int_equal(procstat_read(&proc, &fake->machine), -EACCES);
  fake_machine_file(fake, "/proc/stat", "");
  assert_int_equal(procstat_read(&proc, &fake->machine), -EINVAL);
  fake_machine_remove(fake, "/proc/stat");
  assert_int_equal(procstat_read(&proc, &fake->machine), 0);
  assert_true(core_set_has(&proc.cores, 0));
  fake_machine_free(fake);
}

/* The file has rows of 256 cores, and a line of interrupt counts that is as
 * long as on a real machine with 256 cores. */
TEST(a_file_of_256_cores_and_half_a_megabyte_is_read) {
  struct fake_machine *fake = fake_machine_new(256);
  char *text = NULL;
  size_t length = 0;
  FILE *out = open_memstream(&text, &length);
  for (int core = 0; core < 256; core++)
    fprintf(out, "cpu%d %d 0 0 %d 0 0 0 0 0 0\n", core, core, 1000 + core);
  fprintf(out, "intr 1");
  for (int i = 0; i < 250000; i++)
    fprintf(out, " 0");
  fprintf(out, "\nprocs_running 17\nprocs_blocked 4\n");
  fclose(out);
  fake_machine_file(fake, "/proc/stat", text);
  free(text);

  assert_int_equal(procstat_read(&proc, &fake->machine), 0);
  assert_int_equal(core_set_count(&proc.cores), 256);
  assert_int_equal(ticks(255, PROCSTAT_IDLE), 1255);
  assert_int_equal(proc.running, 17);
  assert_int_equal(proc.blocked, 4);
  fake_machine_free(fake);
}

const struct unit_fixtures unit_fixtures = {.after_each = free_stat};
