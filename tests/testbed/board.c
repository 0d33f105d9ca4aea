/* Tests the board while a core goes offline and comes back, and while the
 * machine is suspended: a sampler writes it, a reader without counters reads
 * it. */
#include "board/publish.h"
#include "cycles/sampler.h"
#include "percore_load.h"
#include "percore_tune.h"

#include "chapters.h"
#include "cores.h"
#include "report.h"
#include "watch.h"

#include <stdlib.h>
#include <sys/stat.h>

#define MS UINT64_C(1000000)
#define INTERVAL_NS (500 * MS)
#define DIRECTORY "/board"
#define CORE 1

static void publish(void *context, struct snapshot *snapshot,
                    const struct topology *topology) {
  board_publish(context, snapshot, topology);
}

static void say(void *context, enum journal_level level, const char *line) {
  (void)context, (void)level;
  note("%s", line);
}

/* Opens the board as soon as it is published. */
static struct percore_load *open_board(void) {
  const struct percore_load_options options = {.size = sizeof(options),
                                               .from_board = 1};
  struct percore_load *load = NULL;
  for (int i = 0; i < 200 && percore_load_open(&load, &options) != 0; i++)
    sleep_ns(100 * MS);
  return load;
}

/* True if the load is known, or unknown, within four intervals. */
static bool becomes(struct percore_load *load, int core, bool known) {
  for (uint64_t i = 0; i < 4 * INTERVAL_NS / (100 * MS); i++) {
    percore_load_update(load);
    if ((percore_load_get(load, core, NULL) >= 0) == known)
      return true;
    sleep_ns(100 * MS);
  }
  return false;
}

static void come_and_go(struct percore_load *load) {
  result(becomes(load, 0, true) && becomes(load, CORE, true),
         "the board has a load for each core");
  core_set_online(CORE, false);
  result(becomes(load, CORE, false) && becomes(load, 0, true),
         "the board has no load for a core that is offline");
  core_set_online(CORE, true);
  result(becomes(load, CORE, true),
         "the board has a load for a core that is back");
}

void chapter_board(void) {
  struct sampler *sampler = NULL;
  struct board *board =
      board_open(BOARD_GROUP, &(struct journal){.write = say});
  struct machine *machine = machine_linux(NULL);
  const struct sampler_options options = {
      .engine = {.hardware = true, .source = SOURCE_AUTO, .machine = machine},
      .interval_ns = INTERVAL_NS,
      .from_start = true,
      .publish = publish,
      .context = board};
  mkdir(DIRECTORY, 0770);
  setenv("PERCORE_RUNTIME_DIR", DIRECTORY, 1);
  struct percore_load *load =
      sampler_start(&sampler, &options) == 0 ? open_board() : NULL;
  result(load != NULL, "a board is published and read");
  if (load != NULL) {
    come_and_go(load);
    result(fall_asleep(), "the guest is suspended while it has a board");
    result(becomes(load, 0, true) && becomes(load, CORE, true),
           "the board has a load for each core after a suspend");
  }
  percore_load_close(load);
  sampler_stop(sampler);
  board_close(board);
  machine_linux_close(machine);
}
