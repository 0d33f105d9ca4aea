#include "report.h"

#include <stdarg.h>
#include <stdio.h>

static int results_len, failed_len;

void result(bool holds, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  printf("%s - ", holds ? "ok" : "not ok");
  vprintf(format, arguments);
  putchar('\n');
  fflush(stdout);
  va_end(arguments);
  results_len++;
  failed_len += !holds;
}

void skipped(const char *sentence, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  printf("ok - %s # SKIP ", sentence);
  vprintf(format, arguments);
  putchar('\n');
  fflush(stdout);
  va_end(arguments);
  results_len++;
}

void note(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fputs("# ", stdout);
  vprintf(format, arguments);
  putchar('\n');
  fflush(stdout);
  va_end(arguments);
}

int results(void) { return results_len; }

int results_failed(void) { return failed_len; }
