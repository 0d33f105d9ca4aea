/* region_config: the options in <Region> and <Table>, which select the regions
 * to read and the values to report. */
#ifndef PERCORE_PLUGIN_REGION_CONFIG_H
#define PERCORE_PLUGIN_REGION_CONFIG_H

#include "config_option.h"

#include <regex.h>

/* A wanted row: a plain name or, if it is NULL, a regular expression. */
struct region_row_match {
  char *name;
  regex_t regex;
};

#define REGION_MOST_BOUNDS 20

/* The option Buckets: the upper bounds to report of a histogram. */
struct region_bounds {
  char *field;
  uint32_t len;
  uint64_t at[REGION_MOST_BOUNDS]; /* ascending, in the reported unit */
};

/* The options of one <Table> block. */
struct region_table_config {
  char *name;
  struct names fields;           /* the fields to report; empty: all */
  struct region_row_match *rows; /* the rows to report; empty: all */
  size_t rows_len;
  uint32_t top; /* how many rows Top shows in addition to `other`; 0: the option
                   Top is not set */
  char *top_field;
  struct region_bounds *buckets;
  size_t buckets_len;
};

enum region_per_core {
  REGION_PER_CORE_FEW = 0, /* default: only tables of at most 16 rows */
  REGION_PER_CORE_ALL,
  REGION_PER_CORE_NONE,
};

#define REGION_PER_CORE_ROWS 16

/* The options of one <Region> block. Blocks with the same name are merged. */
struct region_config {
  char *name; /* NULL: the block "*", for all regions without their own block */
  enum region_per_core report_per_core;
  bool report_host;
  bool report_per_instance;
  int max_new_rows; /* in an hour */
  bool users_given; /* if false, producers of every user are read */
  uid_t *users;
  size_t users_len;
  struct region_table_config *tables;
  size_t tables_len;
};

struct region_configs {
  struct region_config *list;
  size_t len;
  struct names published; /* the regions that this plugin itself makes from BPF
                             maps */
};

/* True if the plugin reads regions of this name: not the board, whose figures
 * <Load> reports. */
bool region_config_is_readable(const char *name);

/* Reads one <Region> block into the struct region_configs at the option's
 * offset. Unknown options are ignored with a warning. Returns
 * 0, or -1 after logging an error that names the option, its value and the
 * allowed values. */
int region_config_read(void *into, const struct config_option *option,
                       const oconfig_item_t *block);

/* Adds the name of a region that this plugin publishes, so that the region is
 * read even if only other regions have a block. Returns 0 or -1. */
int region_config_publish(struct region_configs *configs, const char *region);

/* Returns the options for a region: those of its own block or, if it has none,
 * those of the block "*". If neither block exists, returns the defaults if
 * there are no blocks at all or if this plugin publishes the region, and
 * otherwise NULL: the region must not be read. */
const struct region_config *
region_config_of(const struct region_configs *configs, const char *region);

/* Returns the options for a table, or NULL if it has no block. */
const struct region_table_config *
region_config_table(const struct region_config *config, const char *table);

bool region_config_wants_field(const struct region_table_config *config,
                               const char *field);
/* Returns the bounds to report of this field, or NULL. */
const struct region_bounds *
region_config_bounds(const struct region_table_config *config,
                     const char *field);
bool region_config_wants_row(const struct region_table_config *config,
                             const char *row);

/* True if regions of this user's producers may be read. */
bool region_config_may_read(const struct region_config *config, uid_t uid);

#endif
