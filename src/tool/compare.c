/* percore load --compare: the loop around methods.c. */
#include "compare.h"
#include "live.h"
#include "tool.h"

#include <errno.h>
#include <string.h>

#define COMMAND "load"

static int table(FILE *out, const void *figures, struct window window) {
  return comparison_table_write(out, figures, window);
}

static int json(FILE *out, const void *figures) {
  return comparison_json_write(out, figures);
}

static const struct live_face face = {
    .command = COMMAND,
    .waiting = "Testing every method; figures come in a few seconds. Ctrl-C "
               "ends.",
    .table = table,
    .json = json,
};

/* Sleeps until the next window ends. */
static bool wait_until(struct live *live, const struct comparison *shown,
                       uint64_t time_ns) {
  while (!stop_requested()) {
    live_follow(live, shown);
    uint64_t now_ns = monotonic_ns();
    if (now_ns >= time_ns)
      return true;
    uint64_t slice_ns = live_has_page(live) ? 100000000 : UINT64_MAX;
    sleep_until_ns(time_ns - now_ns > slice_ns ? now_ns + slice_ns : time_ns);
  }
  return false;
}

static int run(const struct load_options *options, struct live *live,
               struct methods *methods) {
  uint64_t interval_ns = (uint64_t)(options->interval_s * 1e9);
  const struct comparison *comparison = NULL, *shown = NULL;
  int status = methods_sample(methods, &comparison);
  uint64_t next_ns = monotonic_ns() + interval_ns;
  for (uint64_t n = 0; options->count == 0 || n < options->count; n++) {
    if (status == 0 && !wait_until(live, shown, next_ns))
      return TOOL_OK;
    if (status == 0)
      status = methods_sample(methods, &comparison);
    if (status != 0)
      return say_failure(COMMAND, "cannot sample: %s", strerror(-status));
    shown = comparison;
    int written = live_show(live, comparison);
    if (written != 0)
      return written == -EPIPE ? TOOL_OK : TOOL_FAILURE;
    methods_prove(methods);
    next_ns += interval_ns;
    /* After Ctrl-Z, or a proof: go on from here. */
    if (monotonic_ns() > next_ns)
      next_ns = monotonic_ns() + interval_ns;
  }
  return methods_have_load(methods)
             ? TOOL_OK
             : say_failure(COMMAND, "no source of loads works here; 'percore "
                                    "doctor' says why and what would help");
}

int compare_run(const struct load_options *options, struct machine *machine) {
  struct live *live = live_open(&face, options->json);
  if (live == NULL)
    return say_failure(COMMAND, "%s", strerror(ENOMEM));
  struct engine_options engine =
      load_engine_options(options, machine, live_journal(live));
  struct methods *methods = NULL;
  int result, status = methods_open(&methods, &engine);
  if (status == 0)
    result = run(options, live, methods);
  else
    result = say_failure(COMMAND, "cannot sample: %s", strerror(-status));
  methods_close(methods);
  live_close(live);
  return result;
}
