/* A producer that takes commands from a test.
 *
 *   producer REGION[@INSTANCE] SCHEMA
 *
 * Commands are read from standard input, one per line; each is answered by a
 * line. Tables are numbered as in the schema, and `row` answers with the number
 * of the row; rows are numbered from 0 here. Core -1 means a table with a
 * single copy.
 *
 *   core CORE                          attach a slot for the core
 *   row TABLE HEX                      add the row with this name
 *   remove TABLE ROW
 *   rows TABLE FIRST COUNT             add rows s<FIRST> ...
 *   keys TABLE FIRST COUNT             add rows with the keys FIRST ...
 *   places TABLE FIRST COUNT           add rows with the row numbers FIRST ...
 *   adds TABLE FIRST COUNT COLUMN N    add N in COUNT rows of an OWNED table
 *   add TABLE ROW COLUMN N CORE        add to a counter or up-down counter
 *   set TABLE ROW COLUMN N CORE        set a gauge
 *   hist TABLE ROW FIELD VALUE TIMES CORE
 *   poll CORE BUSY IDLE [TIMES]        poll rounds with and without work, 1 ms
 *                                      each
 *   sleep CORE | wake CORE
 *   reset                              reset all tables
 *   tally FILE                         keep in this file of 64 words how many
 *                                      packets the runner of each core has
 *                                      counted or begun to count, and in the
 *                                      last word whether a reader has connected
 *   run CORE SLEEP_US                  start a runner: a thread that counts one
 *                                      packet per round forever
 *   begin CORE                         begin a section and never end it
 *   end                                detach and destroy the region
 */
#include "../unit/calls.h"
#include "percore_tune.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define FIELDS(array) .fields = array, .field_count = COUNT_OF(array)
#define CORES 64

static const struct percore_field global_fields[] = {
    {.name = "rounds", .unit = "operations"},
    {.name = "queue",
     .unit = "1",
     .kind = PERCORE_GAUGE,
     .aggregation = PERCORE_MAX},
    {.name = "time", .unit = "cycles"},
};

static const struct percore_field port_fields[] = {
    {.name = "packets", .unit = "packets"},
    {.name = "bytes", .unit = "bytes"},
    {.name = "depth", .unit = "packets", .kind = PERCORE_UPDOWN},
    {.name = "latency",
     .unit = "ns",
     .kind = PERCORE_HISTOGRAM,
     .sub_bits = 2,
     .max_bits = 20},
};

/* Two fields of port_fields in a different order, and a new field. */
static const struct percore_field port_fields_2[] = {
    {.name = "errors", .unit = "errors"},
    {.name = "bytes", .unit = "bytes"},
    {.name = "packets", .unit = "packets"},
};

static const struct percore_field session_fields[] = {
    {.name = "packets", .unit = "packets"},
    {.name = "bytes", .unit = "bytes"},
    {.name = "drops", .unit = "packets"},
    {.name = "errors", .unit = "errors"},
};

#define GLOBALS                                                                \
  { .name = "globals", FIELDS(global_fields) }
#define PORT(fields_of, most)                                                  \
  { .name = "port", FIELDS(fields_of), .max_rows = most, .row_name_size = 24 }
#define SESSION(most)                                                          \
  {                                                                            \
    .name = "session", .storage = PERCORE_OWNED, FIELDS(session_fields),       \
    .max_rows = most, .row_name_size = 120                                     \
  }

enum { TABLES = 3 };

static const struct {
  const char *name;
  struct percore_table tables[TABLES];
} schemas[] = {
    {"1", {GLOBALS, PORT(port_fields, 4), SESSION(1000)}},
    {"2", {GLOBALS, PORT(port_fields_2, 4), SESSION(1000)}},
    {"many", {GLOBALS, PORT(port_fields, 100), SESSION(30000)}},
    {"million", {GLOBALS, PORT(port_fields, 4), SESSION(1000000)}},
    /* Many rows may be added. Memory is allocated only for added rows. */
    {"keys",
     {GLOBALS,
      PORT(port_fields, 4),
      {.name = "session",
       .storage = PERCORE_OWNED,
       FIELDS(session_fields),
       .max_rows = 20000000,
       .key = PERCORE_KEY_IPV4}}},
};

static struct percore_region *region;
static const struct percore_table *tables;
static percore_slot_t slots[CORES];
enum { MET = CORES - 1 }; /* the word of the tally for a reader's connection */
static uint64_t no_tally[CORES];
static uint64_t *tally = no_tally;

static void wait_us(long us) {
  struct timespec time = {.tv_sec = us / 1000000,
                          .tv_nsec = us % 1000000 * 1000};
  nanosleep(&time, NULL);
}

/* ---------------------------------------------------------------------------
 * Updates
 */

static percore_row_t core_row(unsigned table, unsigned row, int core) {
  uint32_t handle;
  handle = table;
  return percore_row(percore_table(slots[core], handle), row + 1);
}

static percore_row_t owned_row(unsigned table, unsigned row) {
  percore_table_t handle;
  open_table(region, table, &handle);
  return percore_row(handle, row + 1);
}

static int do_add(const char *line) {
  unsigned table, row, column;
  long long n;
  int core;
  if (sscanf(line, "%u %u %u %lld %d", &table, &row, &column, &n, &core) != 5)
    return -1;
  if (core < 0)
    percore_add(owned_row(table, row), column, n);
  else
    percore_add(core_row(table, row, core), column, n);
  return 0;
}

static int do_set(const char *line) {
  unsigned table, row, column;
  long long n;
  int core;
  if (sscanf(line, "%u %u %u %lld %d", &table, &row, &column, &n, &core) != 5)
    return -1;
  if (core < 0)
    percore_set(owned_row(table, row), column, n);
  else
    percore_set(core_row(table, row, core), column, n);
  return 0;
}

static int do_hist(const char *line) {
  unsigned table, row, field, times;
  unsigned long long value;
  int core;
  if (sscanf(line, "%u %u %u %llu %u %d", &table, &row, &field, &value, &times,
             &core) != 6)
    return -1;
  for (unsigned i = 0; i < times; i++)
    percore_observe(core_row(table, row, core), field, value);
  return 0;
}

/* Polls a round with n packets on a simulated clock, because time spent waiting
 * would not count as work. */
static void pass_round(percore_slot_t slot, uint64_t n) {
  percore_poll(slot, n, percore_polled_(slot.seat->head) + 1000);
}

static int do_poll(const char *line) {
  int core, busy, idle, times = 1;
  if (sscanf(line, "%d %d %d %d", &core, &busy, &idle, &times) < 3)
    return -1;
  for (int i = 0; i < times * (busy + idle); i++) {
    wait_us(1000);
    pass_round(slots[core], i % (busy + idle) < busy);
  }
  return 0;
}

static void note_readers(void) {
  struct percore_region_status status;
  if (percore_status(region, &status) == 0 && status.served > 0)
    __atomic_store_n(&tally[MET], 1, __ATOMIC_SEQ_CST);
}

/* A runner: counts a packet of 100 bytes per round. A section makes the updates
 * of packets and bytes appear together. */
static void *run(void *argument) {
  int core = ((int *)argument)[0], sleep_us = ((int *)argument)[1];
  percore_slot_t slot;
  uint32_t port;
  port = 1;
  attach_thread(region, "runner", core, &slot);
  uint32_t packets = strcmp(tables[1].fields[0].name, "packets") == 0 ? 0 : 2;
  for (uint64_t i = 0;; i++) {
    __atomic_store_n(&tally[core], i + 1, __ATOMIC_SEQ_CST);
    begin_section(slot);
    percore_add(percore_row(percore_table(slot, port), 1), packets, 1);
    percore_add(percore_row(percore_table(slot, port), 1), 1, 100);
    end_section(slot);
    percore_poll(slot, i & 1, 0);
    if (tally[MET] == 0)
      note_readers();
    if (sleep_us > 0)
      wait_us(sleep_us);
  }
  return NULL;
}

/* Maps the file of the tally, which survives if the producer is killed. */
static int do_tally(const char *line) {
  char path[512];
  if (sscanf(line, "%511s", path) != 1)
    return -1;
  int fd = open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0)
    return -1;
  void *map = mmap(NULL, CORES * sizeof(uint64_t), PROT_READ | PROT_WRITE,
                   MAP_SHARED, fd, 0);
  close(fd);
  if (map == MAP_FAILED)
    return -1;
  tally = map;
  return 0;
}

static int do_run(const char *line) {
  static int arguments[CORES][2];
  static unsigned started;
  pthread_t thread;
  int *mine = arguments[started++ % CORES];
  if (sscanf(line, "%d %d", &mine[0], &mine[1]) != 2)
    return -1;
  return pthread_create(&thread, NULL, run, mine);
}

/* ---------------------------------------------------------------------------
 * Rows and slots
 */

static int do_row(const char *line) {
  unsigned table, byte;
  char hex[512], name[256] = "";
  uint32_t row;
  if (sscanf(line, "%u %511s", &table, hex) != 2)
    return -1;
  for (size_t i = 0; sscanf(hex + 2 * i, "%2x", &byte) == 1; i++)
    name[i] = (char)byte;
  if (make_row(region, table, name, &row) != 0)
    return -1;
  printf("%u ", row - 1);
  return 0;
}

static int do_rows(const char *line) {
  unsigned table, first, count;
  uint32_t row;
  if (sscanf(line, "%u %u %u", &table, &first, &count) != 3)
    return -1;
  for (unsigned i = first; i < first + count; i++) {
    char name[16];
    snprintf(name, sizeof(name), "s%u", i);
    if (make_row(region, table, name, &row) != 0)
      return -1;
  }
  return 0;
}

static int do_keys(const char *line) {
  unsigned table, first, count;
  uint32_t row;
  if (sscanf(line, "%u %u %u", &table, &first, &count) != 3)
    return -1;
  for (unsigned i = first; i < first + count; i++)
    if (make_row_key(region, table, i, &row) != 0)
      return -1;
  return 0;
}

static int do_places(const char *line) {
  unsigned table, first, count;
  if (sscanf(line, "%u %u %u", &table, &first, &count) != 3)
    return -1;
  for (unsigned row = first; row < first + count; row++)
    if (percore_row_add_at(region, table, row + 1, NULL, row) != 0)
      return -1;
  return 0;
}

static int do_adds(const char *line) {
  unsigned table, first, count, column;
  unsigned long long n;
  if (sscanf(line, "%u %u %u %u %llu", &table, &first, &count, &column, &n) !=
      5)
    return -1;
  for (unsigned row = first; row < first + count; row++)
    percore_add(owned_row(table, row), column, n);
  return 0;
}

static int do_remove(const char *line) {
  unsigned table, row;
  if (sscanf(line, "%u %u", &table, &row) != 2)
    return -1;
  return percore_row_remove(region, table, row + 1,
                            PERCORE_NO_UPDATE_IN_FLIGHT);
}

static int do_core(const char *line) {
  int core = atoi(line);
  return core >= 0 && core < CORES
             ? attach_thread(region, "hand", core, &slots[core])
             : -1;
}

static int do_sleep(const char *line) {
  percore_sleep(slots[atoi(line)]);
  return 0;
}

static int do_wake(const char *line) {
  percore_wake(slots[atoi(line)]);
  return 0;
}

static int do_begin(const char *line) {
  begin_section(slots[atoi(line)]);
  return 0;
}

static int do_reset(const char *line) {
  (void)line;
  return percore_reset(region, PERCORE_ALL_TABLES, PERCORE_ALL_ROWS);
}

static int do_end(const char *line) {
  (void)line;
  for (int core = 0; core < CORES; core++)
    if (slots[core].seat != NULL && percore_detach(slots[core]) != 0)
      return -1;
  return percore_destroy(region);
}

/* ---------------------------------------------------------------------------
 */

static const struct {
  const char *name;
  int (*run)(const char *line);
} commands[] = {
    {"core", do_core},   {"row", do_row},     {"remove", do_remove},
    {"rows", do_rows},   {"keys", do_keys},   {"places", do_places},
    {"adds", do_adds},   {"add", do_add},     {"set", do_set},
    {"hist", do_hist},   {"poll", do_poll},   {"sleep", do_sleep},
    {"wake", do_wake},   {"reset", do_reset}, {"run", do_run},
    {"begin", do_begin}, {"tally", do_tally}, {"end", do_end},
};

static int obey(const char *line) {
  size_t length = strcspn(line, " \n");
  for (size_t i = 0; i < COUNT_OF(commands); i++)
    if (strlen(commands[i].name) == length &&
        strncmp(commands[i].name, line, length) == 0)
      return commands[i].run(line + length);
  errno = EINVAL;
  return -1;
}

static int create(char *name, const char *schema) {
  struct percore_options options = {0};
  char *at = strchr(name, '@');
  if (at != NULL) {
    *at = '\0';
    options.instance = at + 1;
  }
  for (size_t i = 0; i < COUNT_OF(schemas); i++)
    if (strcmp(schemas[i].name, schema) == 0) {
      tables = schemas[i].tables;
      return create_region(&region, name, tables, TABLES, &options);
    }
  errno = EINVAL;
  return -1;
}

int main(int count, char **arguments) {
  char line[1024];
  if (count < 3 || create(arguments[1], arguments[2]) != 0) {
    perror("producer");
    return 1;
  }
  puts("ok");
  fflush(stdout);
  while (fgets(line, sizeof(line), stdin) != NULL) {
    if (obey(line) == 0)
      puts("ok");
    else
      printf("error %s\n", strerror(errno));
    fflush(stdout);
  }
  return 0;
}
