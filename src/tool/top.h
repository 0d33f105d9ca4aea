/* top: what `percore top` knows of a region at one moment, and its two faces.
 */
#ifndef PERCORE_TOP_H
#define PERCORE_TOP_H

#include "rates.h"
#include "target.h"
#include "window.h"
#include "workers.h"

struct top_figures {
  char region[TARGET_NAME_SIZE];
  bool alive;           /* else waited for; no tables then */
  const char *why;      /* it is not alive */
  uint64_t realtime_ns; /* of the look */
  double interval_s;
  pid_t pid; /* 0: not to be seen */
  uid_t uid;
  uint64_t tsc_hz;
  const struct region_directory *directory;
  struct workers workers; /* count 0: table `core` not asked for */
  bool with_workers;
  struct rates *tables;
  size_t tables_len;
};

/* Awake and without a poll for so long, a worker is called stuck. */
#define TOP_STUCK_S 1.0

/* Both return 0 or -ENOMEM. */
int top_table_write(FILE *out, const struct top_figures *figures,
                    struct window window);
int top_json_write(FILE *out, const struct top_figures *figures);

/* "0.25", "12.3", "980", "12.3k", "4.56M", "-" for what is not known. */
#define SHORT_TEXT_SIZE 24
void short_text(char text[SHORT_TEXT_SIZE], double value);
/* "496ns", "12.3us", "1.50ms", "2.00s". */
void short_time_text(char text[SHORT_TEXT_SIZE], double ns);

#endif
