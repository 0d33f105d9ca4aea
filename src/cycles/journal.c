#include "journal.h"

#include <stdarg.h>
#include <stdio.h>

void journal_say(const struct journal *journal, enum journal_level level,
                 const char *format, ...) {
  if (journal->write == NULL)
    return;
  char line[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(line, sizeof(line), format, arguments);
  va_end(arguments);
  journal->write(journal->context, level, line);
}
