/* report: prints the results of a guest for the host.
 *
 * "ok - sentence", "not ok - sentence", "ok - sentence # SKIP reason", and
 * lines that begin with "# " for people. Sentences are the same in every run;
 * figures are in the lines for people.
 */
#ifndef TESTBED_REPORT_H
#define TESTBED_REPORT_H

#include <stdbool.h>

void result(bool holds, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void skipped(const char *sentence, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Returns the number of results so far; the host expects the same number. */
int results(void);
int results_failed(void);

#endif
