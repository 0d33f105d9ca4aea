#include "percore_config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "accounts.h"

/* One allocation: the entry, bases and values of the totals and then of each
 * core, and the name. value = cell + base; the base changes when another object
 * bears the name. */
struct entry {
  struct region_account shown; /* what callers see */
  struct entry *next;          /* in the chain of its hash */
  uint64_t producer;           /* whose row, which row, which object */
  uint32_t row, incarnation;
  uint32_t place;    /* in the tile of the round */
  bool begun, ended; /* ended: was seen removed */
  uint64_t *bases, *values;
  uint64_t words[];
};

struct region_accounts {
  uint32_t want;
  uint32_t columns, core_count;
  uint32_t *kinds;   /* per column; NULL before the first tile */
  uint64_t producer; /* whose rows by_row are */
  struct entry **by_row;
  uint32_t row_count;
  struct entry **chains; /* by name */
  uint32_t chain_count, entry_count;
  uint64_t steps_back;
};

struct region_accounts *region_accounts_new(uint32_t want) {
  struct region_accounts *accounts = calloc(1, sizeof(*accounts));
  if (accounts != NULL)
    accounts->want = want & REGION_WANT_CORES;
  return accounts;
}

static void forget_all(struct region_accounts *accounts) {
  for (uint32_t c = 0; c < accounts->chain_count; c++)
    while (accounts->chains[c] != NULL) {
      struct entry *entry = accounts->chains[c];
      accounts->chains[c] = entry->next;
      free(entry);
    }
  free(accounts->chains);
  free(accounts->by_row);
  free(accounts->kinds);
  accounts->chains = accounts->by_row = NULL;
  accounts->kinds = NULL;
  accounts->chain_count = accounts->entry_count = accounts->row_count = 0;
}

void region_accounts_free(struct region_accounts *accounts) {
  if (accounts == NULL)
    return;
  forget_all(accounts);
  free(accounts);
}

uint64_t region_accounts_steps_back(const struct region_accounts *accounts) {
  return accounts->steps_back;
}

/* ---------------------------------------------------------------------------
 * Names
 */

static uint32_t hash(const char *name) {
  uint64_t h = 0xcbf29ce484222325u;
  for (; *name != '\0'; name++)
    h = (h ^ (unsigned char)*name) * 0x100000001b3u;
  return (uint32_t)(h ^ h >> 32);
}

static int grow_chains(struct region_accounts *accounts) {
  if (accounts->entry_count < accounts->chain_count)
    return 0;
  uint32_t count = accounts->chain_count ? accounts->chain_count * 2 : 64;
  struct entry **chains = calloc(count, sizeof(*chains));
  if (chains == NULL)
    return -1;
  for (uint32_t c = 0; c < accounts->chain_count; c++)
    while (accounts->chains[c] != NULL) {
      struct entry *entry = accounts->chains[c];
      struct entry **chain = &chains[hash(entry->shown.name) & (count - 1)];
      accounts->chains[c] = entry->next;
      entry->next = *chain;
      *chain = entry;
    }
  free(accounts->chains);
  accounts->chains = chains;
  accounts->chain_count = count;
  return 0;
}

static struct entry *make_entry(struct region_accounts *accounts,
                                const char *name) {
  size_t copies = accounts->want ? accounts->core_count + 1u : 1u;
  size_t cells = copies * accounts->columns;
  if (grow_chains(accounts) != 0)
    return NULL;
  size_t name_size = strlen(name) + 1;
  struct entry *entry =
      calloc(1, sizeof(*entry) + 2 * cells * sizeof(uint64_t) + name_size);
  if (entry == NULL)
    return NULL;
  entry->bases = entry->words;
  entry->values = entry->words + cells;
  char *own_name = (char *)(entry->words + 2 * cells);
  memcpy(own_name, name, name_size);
  entry->shown = (struct region_account){
      .name = own_name,
      .totals = entry->values,
      .cores = accounts->want ? entry->values + accounts->columns : NULL,
      .core_count = accounts->core_count};
  struct entry **chain =
      &accounts->chains[hash(name) & (accounts->chain_count - 1)];
  entry->next = *chain;
  *chain = entry;
  accounts->entry_count++;
  return entry;
}

static struct entry *find_entry(struct region_accounts *accounts,
                                const char *name) {
  if (accounts->chain_count > 0)
    for (struct entry *entry =
             accounts->chains[hash(name) & (accounts->chain_count - 1)];
         entry != NULL; entry = entry->next)
      if (strcmp(entry->shown.name, name) == 0)
        return entry;
  return make_entry(accounts, name);
}

/* ---------------------------------------------------------------------------
 * Tables: another producer may have another schema
 */

static bool has_same_shape(const struct region_accounts *accounts,
                           const uint32_t *kinds,
                           const struct region_tile *tile) {
  return accounts->kinds != NULL && accounts->columns == tile->columns &&
         accounts->core_count == tile->core_count &&
         memcmp(accounts->kinds, kinds, tile->columns * sizeof(*kinds)) == 0;
}

static int begin_table(struct region_accounts *accounts,
                       const struct region_directory *directory,
                       const struct region_tile *tile) {
  const struct region_table *table = &directory->tables[tile->table];
  uint32_t *kinds = calloc(tile->columns, sizeof(*kinds));
  if (kinds == NULL)
    return -1;
  for (uint32_t f = 0; f < table->field_count; f++) {
    const struct region_field *field =
        &directory->fields[table->first_field + f];
    for (uint32_t c = 0; c < field->cells; c++)
      kinds[field->column + c] = field->kind;
  }
  if (has_same_shape(accounts, kinds, tile)) {
    free(kinds);
  } else {
    forget_all(accounts);
    accounts->kinds = kinds;
    accounts->columns = tile->columns;
    accounts->core_count = tile->core_count;
  }
  if (accounts->row_count > 0)
    memset(accounts->by_row, 0, accounts->row_count * sizeof(struct entry *));
  return 0;
}

static int make_rows(struct region_accounts *accounts, uint32_t count) {
  if (count <= accounts->row_count)
    return 0;
  uint32_t larger =
      accounts->row_count * 2 > count ? accounts->row_count * 2 : count;
  struct entry **by_row = realloc(accounts->by_row, larger * sizeof(*by_row));
  if (by_row == NULL)
    return -1;
  memset(by_row + accounts->row_count, 0,
         (larger - accounts->row_count) * sizeof(*by_row));
  accounts->by_row = by_row;
  accounts->row_count = larger;
  return 0;
}

/* ---------------------------------------------------------------------------
 * Values
 */

static bool is_account(uint32_t kind) {
  return kind == PERCORE_COUNTER || kind == PERCORE_HISTOGRAM;
}

/* births: what the cells held when this object began; NULL if that is not known
 * (there is one for all cores): then it begins now. */
static void begin_cells(const struct region_accounts *accounts,
                        struct entry *entry, size_t at, const uint64_t *raw,
                        const uint64_t *births) {
  for (uint32_t c = 0; c < accounts->columns; c++) {
    uint64_t birth = births != NULL ? births[c] : raw[c];
    uint64_t before =
        is_account(accounts->kinds[c]) ? entry->values[at + c] : 0;
    entry->bases[at + c] = before - birth;
  }
}

static void follow_cells(struct region_accounts *accounts, struct entry *entry,
                         size_t at, const uint64_t *raw) {
  for (uint32_t c = 0; c < accounts->columns; c++) {
    uint32_t kind = accounts->kinds[c];
    uint64_t value = raw[c], before = entry->values[at + c];
    if (kind == PERCORE_GAUGE || is_account(kind))
      value += entry->bases[at + c];
    if (is_account(kind) && (int64_t)(value - before) < 0) {
      accounts->steps_back++;
      entry->bases[at + c] += before - value;
      value = before;
    }
    entry->values[at + c] = value;
  }
}

/* A row's first object began with cells of 0, on every core. */
static void take_row(struct region_accounts *accounts, struct entry *entry,
                     const struct region_tile *tile, uint32_t i,
                     bool is_new_object) {
  static const uint64_t zeros[PERCORE_MAX_COLUMNS];
  size_t at = (size_t)i * tile->columns, columns = accounts->columns;
  if (is_new_object)
    begin_cells(accounts, entry, 0, tile->totals + at, tile->births + at);
  follow_cells(accounts, entry, 0, tile->totals + at);
  if (!accounts->want)
    return;
  const uint64_t *births = entry->incarnation <= 1 ? zeros : NULL;
  for (uint32_t c = 0; c < accounts->core_count; c++) {
    const uint64_t *raw =
        tile->cores + at + (size_t)c * tile->capacity * columns;
    if (is_new_object)
      begin_cells(accounts, entry, (c + 1) * columns, raw, births);
    follow_cells(accounts, entry, (c + 1) * columns, raw);
  }
}

/* The account of the object in a row; another one by the same name in another
 * row counts as a new object each time it is met, from its own birth. */
static struct entry *entry_of_row(struct region_accounts *accounts,
                                  struct region_reader *reader,
                                  const struct region_tile *tile, uint32_t i,
                                  bool *is_new_object) {
  uint32_t row = tile->first_row + i;
  uint32_t incarnation = region_incarnation(tile->generations[i]);
  uint64_t producer = region_reader_producer(reader);
  struct entry *entry = accounts->by_row[row];
  *is_new_object = false;
  if (entry != NULL && entry->producer == producer && entry->row == row &&
      entry->incarnation == incarnation)
    return entry;
  char name[REGION_ROW_NAME_SIZE] = {0};
  if (!region_reader_row_name(reader, tile->table, row, tile->generations[i],
                              name))
    return NULL;
  entry = find_entry(accounts, name);
  if (entry == NULL)
    return NULL;
  bool removed = region_state(tile->generations[i]) == REGION_GONE;
  if (removed && entry->begun && entry->producer == producer)
    return NULL; /* the name has a later object, or this one was met before */
  entry->begun = true;
  entry->producer = producer;
  entry->row = row;
  entry->incarnation = incarnation;
  accounts->by_row[row] = entry;
  *is_new_object = true;
  return entry;
}

/* -1 with ENOMEM if there should be an account and is none. */
static int take_place(struct region_accounts *accounts,
                      struct region_reader *reader,
                      const struct region_tile *tile, uint32_t i,
                      uint64_t round, const struct region_account **found) {
  bool is_new_object;
  bool removed = region_state(tile->generations[i]) == REGION_GONE;
  errno = 0;
  struct entry *entry = entry_of_row(accounts, reader, tile, i, &is_new_object);
  if (entry == NULL)
    return errno == ENOMEM ? -1 : 0;
  take_row(accounts, entry, tile, i, is_new_object);
  if (!removed && entry->ended && entry->shown.round == round &&
      entry->place < tile->rows && found[entry->place] == &entry->shown)
    found[entry->place] = NULL; /* removed and added again meanwhile */
  if (!removed || !entry->ended)
    found[i] = &entry->shown;
  entry->ended = removed;
  entry->place = i;
  entry->shown.round = round;
  return 0;
}

int region_accounts_take(struct region_accounts *accounts,
                         struct region_reader *reader,
                         const struct region_tile *tile, uint64_t round,
                         const struct region_account **found) {
  uint64_t producer = region_reader_producer(reader);
  int rc = 0;
  memset(found, 0, tile->rows * sizeof(*found));
  if (accounts->kinds == NULL || accounts->producer != producer) {
    if (begin_table(accounts, region_reader_directory(reader), tile) != 0)
      return -1;
    accounts->producer = producer;
  }
  if (make_rows(accounts, tile->first_row + tile->rows) != 0)
    return -1;
  /* Removed rows first: what they counted last belongs to the account before a
   * later object of the same name goes on with it. */
  for (uint32_t i = 0; i < tile->rows; i++)
    if (region_state(tile->generations[i]) == REGION_GONE)
      rc |= take_place(accounts, reader, tile, i, round, found);
  for (uint32_t i = 0; i < tile->rows; i++)
    if (region_state(tile->generations[i]) == REGION_LIVE)
      rc |= take_place(accounts, reader, tile, i, round, found);
  return rc;
}

void region_accounts_forget(struct region_accounts *accounts, uint64_t round) {
  for (uint32_t r = 0; r < accounts->row_count; r++)
    if (accounts->by_row[r] != NULL && accounts->by_row[r]->shown.round < round)
      accounts->by_row[r] = NULL;
  for (uint32_t c = 0; c < accounts->chain_count; c++)
    for (struct entry **link = &accounts->chains[c]; *link != NULL;) {
      struct entry *entry = *link;
      if (entry->shown.round >= round) {
        link = &entry->next;
        continue;
      }
      *link = entry->next;
      free(entry);
      accounts->entry_count--;
    }
}
