/* journal: the messages of cycles/ for the operator. The caller (the plugin or
 * the command) decides where they go. */
#ifndef PERCORE_JOURNAL_H
#define PERCORE_JOURNAL_H

/* The numbers are those of syslog(3). */
enum journal_level {
  JOURNAL_ERROR = 3,
  JOURNAL_WARNING,
  JOURNAL_NOTICE,
  JOURNAL_INFO,
};

#define JOURNAL_LINE 512 /* longer lines are cut */

struct journal {
  /* Receives one line without a newline. Runs in the thread that called the
   * function of cycles/ that reports the line. If NULL, all lines are
   * dropped. */
  void (*write)(void *context, enum journal_level level, const char *line);
  /* Receives each change of source, too: ERROR if cores have no source left,
   * WARNING if their new source is a worse one, NOTICE if it is a better one.
   * May be NULL. */
  void (*change)(void *context, enum journal_level level, const char *line);
  void *context;
};

void journal_say(const struct journal *journal, enum journal_level level,
                 const char *format, ...) __attribute__((format(printf, 3, 4)));
void journal_change(const struct journal *journal, enum journal_level level,
                    const char *line);

#endif
