/* percore reset: asks a producer to restart its counters from 0. */
#include "target.h"
#include "tool.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#define COMMAND "reset"

enum { ANSWER_WAIT_MS = 2000 };

static int say_refused(const char *region, const char *table, int error) {
  const char *why = strerror(error);
  if (error == EPERM)
    why = "only root and the user of its producer may reset it";
  if (error == ENOTSUP)
    why = "its producer made it with PERCORE_NO_RESET";
  if (error == ETIMEDOUT)
    why = target_advice(error);
  return say_failure(COMMAND, "cannot reset table %s of %s: %s", table, region,
                     why);
}

static int reset(struct region_reader *reader, char **words, int count) {
  const struct region_directory *directory = region_reader_directory(reader);
  int table = target_table(directory, words[1]);
  int64_t row = UINT32_MAX; /* all rows */
  if (table < 0)
    return target_no_table(COMMAND, directory, words[1]);
  if (count > 2)
    row = region_reader_find_row(reader, (uint32_t)table, words[2]);
  if (row < 0)
    return say_failure(COMMAND,
                       "table %s of %s has no row '%s'; 'percore dump %s "
                       "--table %s' lists them",
                       words[1], words[0], words[2], words[0], words[1]);
  if (region_reader_reset(reader, (uint32_t)table, (uint32_t)row,
                          ANSWER_WAIT_MS) == 0)
    return TOOL_OK;
  return say_refused(words[0], words[1], errno);
}

static int reset_main(int argc, char **argv) {
  struct region_reader *reader;
  int status = arguments_read(&reset_command, argc, argv, NULL);
  if (status >= 0)
    return status;
  char **words = argv + optind;
  stop_catch();
  status = target_open(COMMAND, words[0], &reader);
  if (status != TOOL_OK)
    return status;
  status = reset(reader, words, argc - optind);
  region_reader_close(reader);
  return status;
}

const struct command reset_command = {
    .name = COMMAND,
    .summary = "make counters of a region count from 0 again",
    .usage = "REGION TABLE [ROW] [OPTION]...",
    .about = "Asks the producer of a region to show counters and histograms of "
             "a table, or of one row, from 0 again. Up-down counters, gauges "
             "and states "
             "stay as they are, and no rate changes. Only root and the "
             "producer's user may reset.",
    .words_min = 2,
    .words_max = 3,
    .words_missing = "REGION or TABLE is missing: 'percore regions' lists the "
                     "regions, 'percore dump REGION' their tables",
    .run = reset_main,
};
