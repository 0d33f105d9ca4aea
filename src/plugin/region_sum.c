#include "region_sum.h"

#include "region_name.h"

#include "utils/common/common.h"

#define PLUGIN_SIZE 128
#define FIRST_CHAINS 64

/* ---------------------------------------------------------------------------
 * A table
 */

static char *name_of(const char *format, const char *a, const char *b,
                     const char *c) {
  char text[3 * PLUGIN_SIZE];
  snprintf(text, sizeof(text), format, a, b, c);
  return strdup(text);
}

static bool describe_field(struct region_sum *sum,
                           const struct region_directory *directory, uint32_t t,
                           uint32_t f) {
  const struct percore_table *table = &directory->described[t];
  const struct percore_field *described = &table->fields[f];
  const struct region_field *record =
      &directory->fields[directory->tables[t].first_field + f];
  struct region_sum_field *field = &sum->fields[f];
  const char *unit = described->unit != NULL ? described->unit : "";
  *field = (struct region_sum_field){
      .name = strdup(described->name),
      .plugin_core = name_of("percore_%s_%s_%s", directory->name, table->name,
                             described->name),
      .plugin_host = name_of("percore_host_%s_%s_%s", directory->name,
                             table->name, described->name),
      .kind = record->kind,
      .aggregation = record->aggregation,
      .column = record->column,
      .cells = record->cells,
      .sub_bits = record->sub_bits,
      .wanted = region_config_wants_field(sum->config, described->name),
      .cycles = strcmp(unit, "cycles") == 0,
  };
  for (uint32_t c = 0; c < record->cells; c++) {
    sum->kinds[record->column + c] = record->kind;
    sum->aggregations[record->column + c] = record->aggregation;
  }
  return field->name != NULL && field->plugin_core != NULL &&
         field->plugin_host != NULL;
}

/* Cores and `all`; those of an instance that is told apart bear its name. */
static bool make_labels(struct region_sum *sum, const char *instance) {
  for (uint32_t copy = 0; copy < sum->copies; copy++) {
    char number[16];
    snprintf(number, sizeof(number), "%u", copy - 1);
    sum->labels[copy] =
        name_of("%s%s%s", copy == 0 ? "all" : number,
                instance != NULL ? "@" : "", instance != NULL ? instance : "");
    if (sum->labels[copy] == NULL)
      return false;
  }
  return true;
}

static bool reports_cores(const struct region_sum *sum) {
  switch (sum->region_config->report_per_core) {
  case REGION_PER_CORE_ALL:
    return sum->per_core;
  case REGION_PER_CORE_NONE:
    return false;
  default:
    return sum->per_core && sum->max_rows <= REGION_PER_CORE_ROWS;
  }
}

static struct region_sum_row *new_row(const struct region_sum *sum,
                                      const char *name) {
  size_t cells = (size_t)sum->copies * sum->columns;
  char clean[DATA_MAX_NAME_LEN - 8]; /* `_p50` follows */
  region_name_clean(clean, sizeof(clean), sum->single ? "all" : name);
  struct region_sum_row *row = calloc(1, sizeof(*row));
  if (row == NULL)
    return NULL;
  row->name = strdup(name);
  row->clean = strdup(clean);
  row->now = calloc(2 * cells, sizeof(*row->now));
  if (row->name == NULL || row->clean == NULL || row->now == NULL) {
    free(row->name);
    free(row->clean);
    free(row->now);
    free(row);
    return NULL;
  }
  row->delta = row->now + cells;
  row->wanted = sum->single || region_config_wants_row(sum->config, name);
  return row;
}

/* The field that Top ranks by: one that is a single number. */
static int find_top_field(const struct region_sum *sum) {
  if (sum->config == NULL || sum->config->top == 0 || sum->single)
    return -1;
  for (uint32_t f = 0; f < sum->field_count; f++)
    if (strcmp(sum->fields[f].name, sum->config->top_field) == 0 &&
        sum->fields[f].kind != PERCORE_HISTOGRAM &&
        sum->fields[f].kind != PERCORE_STATE)
      return (int)f;
  WARNING("percore: Top %u \"%s\": table %s has no such field, or none that "
          "rows can be ranked by; all rows are reported.",
          sum->config->top, sum->config->top_field, sum->table);
  return -1;
}

static void warn_of_unknown_fields(const struct region_sum *sum) {
  for (size_t i = 0; sum->config != NULL && i < sum->config->fields_len; i++) {
    uint32_t f = 0;
    while (f < sum->field_count &&
           strcmp(sum->fields[f].name, sum->config->fields[i]) != 0)
      f++;
    if (f == sum->field_count)
      WARNING("percore: Field \"%s\": table %s has no such field.",
              sum->config->fields[i], sum->table);
  }
}

struct region_sum *region_sum_new(const struct region_config *config,
                                  const struct region_directory *directory,
                                  uint32_t t, const char *instance,
                                  uint64_t tsc_hz) {
  const struct region_table *table = &directory->tables[t];
  const char *name = directory->described[t].name;
  struct region_sum *sum = calloc(1, sizeof(*sum));
  if (sum == NULL)
    return NULL;
  sum->region_config = config;
  sum->config = region_config_table(config, name);
  sum->tsc_hz = tsc_hz;
  sum->field_count = table->field_count;
  sum->columns = table->columns;
  sum->core_count = directory->header.core_count;
  sum->max_rows = table->max_rows;
  sum->single = (table->flags & REGION_TABLE_SINGLE) != 0;
  sum->per_core = table->storage == PERCORE_PER_CORE;
  sum->is_core = t == 0;
  sum->copies = reports_cores(sum) ? 1 + sum->core_count : 1;
  sum->chains = FIRST_CHAINS;
  sum->table = strdup(name);
  sum->fields = calloc(sum->field_count, sizeof(*sum->fields));
  sum->kinds = calloc(sum->columns, sizeof(*sum->kinds));
  sum->aggregations = calloc(sum->columns, sizeof(*sum->aggregations));
  sum->labels = calloc(sum->copies, sizeof(*sum->labels));
  sum->core_used = calloc(sum->core_count, 1);
  sum->by_name = calloc(sum->chains, sizeof(*sum->by_name));
  sum->by_clean = calloc(sum->chains, sizeof(*sum->by_clean));
  bool complete = sum->table && sum->fields && sum->kinds &&
                  sum->aggregations && sum->labels && sum->core_used &&
                  sum->by_name && sum->by_clean && make_labels(sum, instance);
  for (uint32_t f = 0; complete && f < sum->field_count; f++)
    complete = describe_field(sum, directory, t, f);
  if (complete) {
    sum->top_field = find_top_field(sum);
    warn_of_unknown_fields(sum);
    if (sum->top_field >= 0)
      complete = (sum->other = new_row(sum, "other")) != NULL;
  }
  if (complete)
    return sum;
  region_sum_free(sum);
  return NULL;
}

static void free_row(struct region_sum_row *row) {
  if (row == NULL)
    return;
  while (row->parts != NULL) {
    struct region_sum_part *part = row->parts;
    row->parts = part->next;
    free(part);
  }
  free(row->name);
  free(row->clean);
  free(row->now);
  free(row);
}

void region_sum_free(struct region_sum *sum) {
  if (sum == NULL)
    return;
  for (size_t i = 0; i < sum->rows_len; i++)
    free_row(sum->rows[i]);
  free_row(sum->other);
  for (uint32_t f = 0; sum->fields != NULL && f < sum->field_count; f++) {
    free(sum->fields[f].name);
    free(sum->fields[f].plugin_core);
    free(sum->fields[f].plugin_host);
  }
  for (uint32_t copy = 0; sum->labels != NULL && copy < sum->copies; copy++)
    free(sum->labels[copy]);
  free(sum->labels);
  free(sum->fields);
  free(sum->kinds);
  free(sum->aggregations);
  free(sum->core_used);
  free(sum->rows);
  free(sum->by_name);
  free(sum->by_clean);
  free(sum->table);
  free(sum);
}

bool region_sum_fits(const struct region_sum *sum,
                     const struct region_directory *directory, uint32_t t) {
  const struct region_table *table = &directory->tables[t];
  bool single = (table->flags & REGION_TABLE_SINGLE) != 0;
  bool per_core = table->storage == PERCORE_PER_CORE;
  bool few = table->max_rows <= REGION_PER_CORE_ROWS;
  if (table->field_count != sum->field_count ||
      table->columns != sum->columns || single != sum->single ||
      per_core != sum->per_core ||
      few != (sum->max_rows <= REGION_PER_CORE_ROWS) ||
      directory->header.core_count != sum->core_count)
    return false;
  for (uint32_t f = 0; f < sum->field_count; f++) {
    const struct region_sum_field *field = &sum->fields[f];
    const struct region_field *record =
        &directory->fields[table->first_field + f];
    const struct percore_field *described = &directory->described[t].fields[f];
    bool cycles =
        described->unit != NULL && strcmp(described->unit, "cycles") == 0;
    if (strcmp(field->name, described->name) != 0 ||
        field->kind != record->kind || field->column != record->column ||
        field->cells != record->cells || field->sub_bits != record->sub_bits ||
        field->aggregation != record->aggregation || field->cycles != cycles)
      return false;
  }
  return true;
}

uint32_t region_sum_want(const struct region_sum *sum) {
  return sum->copies > 1 ? REGION_WANT_CORES : 0;
}

/* ---------------------------------------------------------------------------
 * Rows by name
 */

static size_t hash(const char *name) {
  uint64_t h = 0xcbf29ce484222325u;
  for (; *name != '\0'; name++)
    h = (h ^ (unsigned char)*name) * 0x100000001b3u;
  return (size_t)(h ^ h >> 32);
}

static void link_row(struct region_sum *sum, struct region_sum_row *row) {
  struct region_sum_row **chain =
      &sum->by_name[hash(row->name) & (sum->chains - 1)];
  row->next_by_name = *chain;
  *chain = row;
  chain = &sum->by_clean[hash(row->clean) & (sum->chains - 1)];
  row->next_by_clean = *chain;
  *chain = row;
}

/* Rows that were told apart by bytes that an identifier cannot have cannot be
 * told apart any more: neither is reported. */
static void mark_clashes(struct region_sum *sum, struct region_sum_row *row) {
  struct region_sum_row *other =
      sum->by_clean[hash(row->clean) & (sum->chains - 1)];
  row->clashes = sum->other != NULL && strcmp(row->clean, "other") == 0;
  for (; other != NULL; other = other->next_by_clean)
    if (other != row && other->wanted &&
        strcmp(other->clean, row->clean) == 0) {
      row->clashes = other->clashes = true;
      if (!sum->clash_told)
        WARNING("percore: two rows of table %s would both be called \"%s\"; "
                "neither is reported. Further ones are not logged.",
                sum->table, row->clean);
      sum->clash_told = true;
    }
}

static void relink(struct region_sum *sum) {
  memset(sum->by_name, 0, sum->chains * sizeof(*sum->by_name));
  memset(sum->by_clean, 0, sum->chains * sizeof(*sum->by_clean));
  for (size_t i = 0; i < sum->rows_len; i++)
    link_row(sum, sum->rows[i]);
}

static bool make_room(struct region_sum *sum) {
  if (sum->rows_len < sum->rows_capacity)
    return true;
  size_t capacity = sum->rows_capacity > 0 ? 2 * sum->rows_capacity : 64;
  void *rows = realloc(sum->rows, capacity * sizeof(*sum->rows));
  if (rows == NULL)
    return false;
  sum->rows = rows;
  sum->rows_capacity = capacity;
  void *by_name = calloc(capacity, sizeof(*sum->by_name));
  void *by_clean = calloc(capacity, sizeof(*sum->by_clean));
  if (by_name == NULL || by_clean == NULL) {
    free(by_name);
    free(by_clean);
    return true; /* longer chains */
  }
  free(sum->by_name);
  free(sum->by_clean);
  sum->by_name = by_name;
  sum->by_clean = by_clean;
  sum->chains = capacity;
  relink(sum);
  return true;
}

static struct region_sum_row *find_row(const struct region_sum *sum,
                                       const char *name) {
  struct region_sum_row *row = sum->by_name[hash(name) & (sum->chains - 1)];
  while (row != NULL && strcmp(row->name, name) != 0)
    row = row->next_by_name;
  return row;
}

static struct region_sum_row *find_or_make_row(struct region_sum *sum,
                                               const char *name) {
  struct region_sum_row *row = find_row(sum, name);
  if (row != NULL || !make_room(sum) || (row = new_row(sum, name)) == NULL)
    return row;
  sum->rows[sum->rows_len++] = row;
  link_row(sum, row);
  if (row->wanted)
    mark_clashes(sum, row);
  return row;
}

/* ---------------------------------------------------------------------------
 * Values
 */

uint64_t region_sum_combine(uint32_t kind, uint32_t aggregation,
                            uint64_t so_far, uint64_t value) {
  bool summed = kind == PERCORE_GAUGE || aggregation == PERCORE_SUM;
  if (kind == PERCORE_STATE)
    return value;
  if (summed)
    return so_far + value;
  if (aggregation == PERCORE_MIN)
    return value < so_far ? value : so_far;
  if (aggregation == PERCORE_MAX)
    return value > so_far ? value : so_far;
  return value;
}

static struct region_sum_part *find_or_make_part(const struct region_sum *sum,
                                                 struct region_sum_row *row,
                                                 const void *owner) {
  struct region_sum_part *part = row->parts;
  while (part != NULL && part->owner != owner)
    part = part->next;
  if (part != NULL)
    return part;
  size_t cells = (size_t)sum->copies * sum->columns;
  part = calloc(1, sizeof(*part) + cells * sizeof(part->seen[0]));
  if (part == NULL)
    return NULL;
  part->owner = owner;
  part->next = row->parts;
  row->parts = part;
  return part;
}

/* One copy of an account into the row: first in this round, or beside others'.
 */
static void add_copy(const struct region_sum *sum, const uint64_t *values,
                     uint64_t *seen, uint64_t *now, uint64_t *delta, bool count,
                     bool first, bool is_new) {
  for (uint32_t c = 0; c < sum->columns; c++) {
    uint64_t value = values[c];
    if (region_sum_grows(sum->kinds[c])) {
      if (count)
        delta[c] += value - seen[c];
      else if (is_new && sum->other == NULL)
        now[c] += value - seen[c];
      seen[c] = value;
    } else {
      now[c] = first ? value
                     : region_sum_combine(sum->kinds[c], sum->aggregations[c],
                                          now[c], value);
    }
  }
}

void region_sum_begin(struct region_sum *sum, uint64_t round) {
  if (sum->round == round)
    return;
  sum->round = round;
  memset(sum->core_used, 0, sum->core_count);
}

void region_sum_use_cores(struct region_sum *sum, const uint8_t *core_used) {
  for (uint32_t core = 0; core < sum->core_count; core++)
    sum->core_used[core] |= core_used[core];
}

struct region_sum_row *region_sum_add(struct region_sum *sum, const void *owner,
                                      const struct region_account *account,
                                      bool count,
                                      struct region_sum_row *cache) {
  struct region_sum_row *row = cache;
  if (row == NULL || strcmp(row->name, account->name) != 0)
    row = find_or_make_row(sum, account->name);
  if (row != NULL && !row->wanted) {
    row->round = sum->round;
    return row;
  }
  struct region_sum_part *part =
      row != NULL ? find_or_make_part(sum, row, owner) : NULL;
  if (part == NULL)
    return NULL;
  size_t cells = (size_t)sum->copies * sum->columns;
  bool first = row->round != sum->round;
  if (row->round == 0)
    row->born = sum->round;
  if (first) {
    memset(row->delta, 0, cells * sizeof(*row->delta));
    row->several = false;
  } else if (part->round == sum->round) {
    first = true; /* the same again, as a later object */
  } else {
    row->several = true;
  }
  if (part->account != account) {
    memset(part->seen, 0, cells * sizeof(*part->seen));
    part->account = account;
  }
  part->round = row->round = sum->round;
  add_copy(sum, account->totals, part->seen, row->now, row->delta, count, first,
           row->born == sum->round);
  for (uint32_t copy = 1; copy < sum->copies; copy++) {
    size_t at = (size_t)copy * sum->columns;
    add_copy(sum, account->cores + at - sum->columns, part->seen + at,
             row->now + at, row->delta + at, count, first,
             row->born == sum->round);
  }
  return row;
}

/* ---------------------------------------------------------------------------
 * Forgetting
 */

static void drop_parts(struct region_sum_row *row, const void *owner,
                       uint64_t round) {
  for (struct region_sum_part **link = &row->parts; *link != NULL;) {
    struct region_sum_part *part = *link;
    if (owner != NULL ? part->owner != owner : part->account->round >= round) {
      link = &part->next;
      continue;
    }
    *link = part->next;
    free(part);
  }
}

void region_sum_drop(struct region_sum *sum, const void *owner) {
  for (size_t i = 0; i < sum->rows_len; i++)
    drop_parts(sum->rows[i], owner, 0);
}

void region_sum_forget(struct region_sum *sum, uint64_t round) {
  size_t kept = 0;
  for (size_t i = 0; i < sum->rows_len; i++) {
    struct region_sum_row *row = sum->rows[i];
    drop_parts(row, NULL, round);
    if (row->round >= round || row->parts != NULL)
      sum->rows[kept++] = row;
    else
      free_row(row);
  }
  if (kept == sum->rows_len)
    return;
  sum->rows_len = kept;
  relink(sum);
  for (size_t i = 0; i < kept; i++)
    if (sum->rows[i]->wanted)
      mark_clashes(sum, sum->rows[i]);
}

static const struct region_sum_field *
same_field(const struct region_sum *sum, const struct region_sum_field *other) {
  for (uint32_t f = 0; f < sum->field_count; f++) {
    const struct region_sum_field *field = &sum->fields[f];
    if (strcmp(field->name, other->name) == 0 && field->kind == other->kind &&
        field->cells == other->cells && field->sub_bits == other->sub_bits)
      return field;
  }
  return NULL;
}

static void inherit_row(const struct region_sum *sum,
                        struct region_sum_row *row,
                        const struct region_sum *from,
                        const struct region_sum_row *old) {
  uint32_t copies = MIN(sum->copies, from->copies);
  row->round = old->round;
  for (uint32_t f = 0; f < sum->field_count; f++) {
    const struct region_sum_field *field = &sum->fields[f];
    const struct region_sum_field *before = same_field(from, field);
    for (uint32_t copy = 0; before != NULL && copy < copies; copy++)
      memcpy(row->now + (size_t)copy * sum->columns + field->column,
             old->now + (size_t)copy * from->columns + before->column,
             field->cells * sizeof(*row->now));
  }
}

void region_sum_inherit(struct region_sum *sum, const struct region_sum *from) {
  for (size_t i = 0; i < from->rows_len; i++) {
    struct region_sum_row *row = find_or_make_row(sum, from->rows[i]->name);
    if (row != NULL)
      inherit_row(sum, row, from, from->rows[i]);
  }
  if (sum->other != NULL && from->other != NULL)
    inherit_row(sum, sum->other, from, from->other);
}
