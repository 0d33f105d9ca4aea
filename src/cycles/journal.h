/* journal: where cycles/ says what an operator should know. Whoever uses it
 * (the plugin, the command) decides where the lines go. */
#ifndef PERCORE_JOURNAL_H
#define PERCORE_JOURNAL_H

enum journal_level {
  JOURNAL_ERROR,
  JOURNAL_WARNING,
  JOURNAL_NOTICE,
  JOURNAL_INFO,
};

struct journal {
  /* One whole line without newline; NULL drops all. Called from whichever
   * thread samples. */
  void (*write)(void *context, enum journal_level level, const char *line);
  void *context;
};

void journal_say(const struct journal *journal, enum journal_level level,
                 const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
