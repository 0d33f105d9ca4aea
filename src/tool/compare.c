/* percore load --compare: the main loop. methods.c reads the methods. */
#include "compare.h"
#include "live.h"
#include "load.h"
#include "tool.h"

#include <errno.h>
#include <string.h>

#define COMMAND "load"

static int fail(struct live *live, int status) {
  return live_fail(live, "cannot read loads: %s", strerror(-status));
}

static int next(struct live *live, void *context, const void **figures) {
  struct methods *methods = context;
  const struct comparison *comparison;
  methods_prove(methods);
  if (!live_wait(live))
    return TOOL_OK;
  int status = methods_sample(methods, &comparison);
  if (status != 0)
    return fail(live, status);
  *figures = comparison;
  return TOOL_OK;
}

static const struct live_face face = {
    .command = COMMAND,
    .waiting = "Testing every method; figures come in a few seconds. Ctrl-C "
               "ends.",
    .next = next,
    .table = comparison_table_write,
    .json = comparison_json_write,
};

static int run(const struct load_options *options, struct live *live,
               struct methods *methods) {
  const struct comparison *first;
  int status = methods_sample(methods, &first);
  if (status != 0)
    return fail(live, status);
  live_pace(live, options->interval_s);
  status = live_run(live, options->count, methods);
  if (status == TOOL_OK && !stop_requested() && !methods_have_load(methods))
    return live_fail(live, LOAD_NO_SOURCE);
  return status;
}

int compare_run(const struct load_options *options, struct machine *machine) {
  struct live *live = live_open(&face, options->json);
  if (live == NULL)
    return say_failure(COMMAND, "%s", strerror(ENOMEM));
  struct engine_options engine =
      load_engine_options(options, machine, live_journal(live));
  struct methods *methods = NULL;
  int status = methods_open(&methods, &engine);
  int result = status == 0 ? run(options, live, methods) : fail(live, status);
  methods_close(methods);
  live_close(live);
  return result;
}
