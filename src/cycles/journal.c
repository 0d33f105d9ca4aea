#include "journal.h"

#include <stdarg.h>
#include <stdio.h>

void journal_say(const struct journal *journal, enum journal_level level,
                 const char *format, ...) {
  if (journal->write == NULL)
    return;
  char line[JOURNAL_LINE];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(line, sizeof(line), format, arguments);
  va_end(arguments);
  journal->write(journal->context, level, line);
}

void journal_change(const struct journal *journal, enum journal_level level,
                    const char *line) {
  journal_say(journal, level, "%s", line);
  if (journal->change != NULL)
    journal->change(journal->context, level, line);
}
