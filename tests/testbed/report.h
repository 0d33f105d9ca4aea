/* report: what a guest prints, for the host to read.
 *
 * "ok - sentence", "not ok - sentence", "ok - sentence # SKIP reason", and
 * lines that begin with "# " for people. A sentence is the same in every run;
 * figures go into the lines for people.
 */
#ifndef TESTBED_REPORT_H
#define TESTBED_REPORT_H

#include <stdbool.h>

void result(bool holds, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void skipped(const char *sentence, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* How many results there were; the host expects as many. */
int results(void);
int results_failed(void);

#endif
