/* plugin_unit: reads options for tests of src/plugin. */
#ifndef PERCORE_PLUGIN_UNIT_H
#define PERCORE_PLUGIN_UNIT_H

#include "fake_collectd.h"

#include "plugin/config.h"

#include <setjmp.h>

#include <cmocka.h>

extern struct config config;

/* Sets up each test: default options and an empty fake collectd. */
int plugin_unit_set_up(void **state);
int plugin_unit_tear_down(void **state);

/* Reads these lines of a <Plugin percore> block into `config`. */
int read_lines(const char *lines);
void assert_accepted(const char *lines);

/* Asserts that the lines are refused, and that the error names the option, its
 * value as written, and what is allowed. */
void assert_refused(const char *lines, const char *option, const char *value,
                    const char *allowed);

#endif
