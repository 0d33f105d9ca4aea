/* module: a module of the server in server.c, as of a DNS or web server, which
 * counts the requests of each of its threads.
 *
 *   cc -fPIC -shared module.c $(pkg-config --cflags --libs percore) -o
 * module.so
 *
 * A reload loads the module again before it unloads it, and the threads of the
 * server live on, so the region belongs to the process, not to a load of the
 * module. libpercore stays in memory when the module is unloaded. */
#include <percore.h>

enum { REQUESTS, BYTES };
static const struct percore_field fields[] = {
    [REQUESTS] = {.name = "requests", .unit = "operations"},
    [BYTES] = {.name = "bytes", .unit = "bytes"}};
static const struct percore_table tables[] = {
    {.name = "request", .fields = fields, .field_count = 2}};

/* The server calls this once in each load, and passes what the load before has
 * returned, or NULL. */
void *module_load(void *before);
void *module_load(void *before) {
  return before != NULL ? before : percore_create("module", tables, 1, NULL);
}

/* Called in the threads of the server. A thread that attaches again with the
 * same name gets the slot that it has, also after a reload. */
void module_count(void *region, unsigned bytes);
void module_count(void *region, unsigned bytes) {
  static __thread percore_table_t requests;
  if (requests.rows == NULL)
    requests =
        percore_table(percore_attach(region, "server", PERCORE_THIS_CORE), 0);
  percore_row_t row = percore_row(requests, 0);
  percore_add(row, REQUESTS, 1);
  percore_add(row, BYTES, bytes);
}
