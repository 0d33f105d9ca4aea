/* plugin_unit: helps tests of src/plugin to read options. */
#ifndef PERCORE_PLUGIN_UNIT_H
#define PERCORE_PLUGIN_UNIT_H

#include "fake_collectd.h"

#include "plugin/config.h"

#include "unit.h"

extern struct config config;

/* Restores the default options. The memory of the others is never freed. */
void forget_config(void);

/* Set-up and tear-down of each test. The set-up restores the default options
 * and an empty fake collectd. */
void plugin_unit_set_up(void);
void plugin_unit_tear_down(void);

/* Reads these lines of a <Plugin percore> block into `config`. Returns the
 * status of config_read. */
int read_lines(const char *lines);
void assert_accepted(const char *lines);

/* Asserts that the lines are refused, and that the error names the option, the
 * value as written, and the allowed values. */
void assert_refused(const char *lines, const char *option, const char *value,
                    const char *allowed);

#endif
