/* reader.c: follows a region from producer to producer. */
#include "percore_config.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "reader.h"
#include "receive.h"
#include "view.h"

static struct region_reader *allocate(void) {
  struct region_reader *reader = calloc(1, sizeof(*reader));
  if (reader == NULL)
    return NULL;
  region_connection_init(&reader->connection);
  region_connection_init(&reader->coming);
  reader->view.memfd = -1;
  return reader;
}

int region_reader_open(struct region_reader **opened, const char *name,
                       const char *instance,
                       const struct region_reader_options *options) {
  struct region_reader *reader = allocate();
  *opened = NULL;
  if (reader == NULL)
    return -1;
  if (options != NULL)
    reader->options = *options;
  if (region_path(reader->path, sizeof(reader->path),
                  reader->options.runtime_dir, name, instance, "sock") != 0) {
    free(reader);
    return -1;
  }
  reader->options.runtime_dir = NULL; /* the caller owns it and may free it */
  *opened = reader;
  return 0;
}

void region_reader_use_allowance(struct region_reader *reader,
                                 struct region_allowance *allowance) {
  reader->allowance = allowance;
}

void region_reader_find(struct region_reader *reader, bool found) {
  reader->is_absent = !found;
}

/* Drops a connection that was not received from. A child takes along what has
 * arrived, if it may. */
static void drop_coming(struct region_reader *reader) {
  struct region_connection *coming = &reader->coming;
  struct region_fault ignored;
  if (coming->socket >= 0 && coming->memfd < 0 &&
      region_receive_may(coming->owner, &ignored))
    (void)region_receive_hello(coming, &ignored);
  region_connection_close(coming);
}

void region_reader_close(struct region_reader *reader) {
  if (reader == NULL)
    return;
  region_connection_close(&reader->connection);
  drop_coming(reader);
  region_view_close(&reader->view);
  free(reader);
}

/* ---------------------------------------------------------------------------
 * Producers come and go
 */

static bool has_view(const struct region_reader *reader) {
  return reader->view.map != NULL;
}

void region_reader_give_back(struct region_reader *reader) {
  const struct region_view *view = &reader->view;
  if (view->map != NULL)
    (void)madvise((void *)(uintptr_t)view->map, view->size, MADV_DONTNEED);
}

/* Refuses a region whose name differs from its socket's, because its values
 * would be mistaken for those of another region. */
static bool name_is_valid(const struct region_reader *reader,
                          const struct region_directory *directory,
                          struct region_fault *fault) {
  char file[sizeof(reader->path)];
  return (region_path(file, sizeof(file), "", directory->name,
                      directory->instance, "sock") == 0 &&
          strcmp(strrchr(reader->path, '/'), file) == 0) ||
         region_breaks(fault, REGION_RULE_SOCKET_NAME,
                       "the region's name differs from its socket's");
}

/* Opens the region that was received. Returns false and sets the reader's fault
 * if the region is refused. */
static bool open_received(struct region_reader *reader,
                          struct region_view *view) {
  struct region_connection *coming = &reader->coming;
  int memfd = coming->memfd;
  coming->memfd = -1;
  if (region_view_open(view, memfd, reader->allowance, &reader->fault) != 0)
    return false;
  if (name_is_valid(reader, &view->directory, &reader->fault))
    return true;
  region_view_close(view);
  return false;
}

static void take_connection(struct region_reader *reader) {
  region_connection_close(&reader->connection);
  reader->connection = reader->coming;
  region_connection_init(&reader->coming);
  reader->left = false;
  reader->fault = (struct region_fault){0};
}

/* Opens the region that was received in place of the previous region, which is
 * gone but can be read until then. The allowance may not suffice for both, so
 * the previous region's bytes are given back meanwhile. */
static enum region_event take_region(struct region_reader *reader) {
  struct region_view next, *view = &reader->view;
  size_t held = view->bytes;
  if (held > 0)
    region_allowance_give(view->allowance, held);
  if (!open_received(reader, &next)) {
    if (held > 0)
      (void)region_allowance_take(view->allowance, held);
    region_connection_close(&reader->coming);
    return REGION_AS_BEFORE;
  }
  view->bytes = 0;
  region_view_close(view);
  *view = next;
  take_connection(reader);
  if (reader->options.keep_from_children)
    (void)madvise((void *)(uintptr_t)view->map, view->size, MADV_DONTFORK);
  reader->producer++;
  return REGION_CAME;
}

/* Returns the header in the region itself; its live words may change at any
 * time. */
static const struct region_header *
live_header(const struct region_reader *reader) {
  return (const void *)reader->view.map;
}

static enum region_event leave(struct region_reader *reader) {
  region_connection_close(&reader->connection);
  reader->left = true;
  reader->ended = region_load(&live_header(reader)->ended) != 0;
  region_fails(&reader->fault, ECONNRESET, "");
  return REGION_WENT;
}

static bool may_read(struct region_reader *reader, uid_t uid) {
  const struct region_reader_options *options = &reader->options;
  return options->may_read == NULL ||
         options->may_read(uid, options->argument) ||
         region_fails(&reader->fault, EACCES,
                      "its producer runs as a user that is not allowed; "
                      "AllowUser names those that are");
}

/* The owner of the socket, which is known before there is a connection, is
 * almost always the user of the process that listens. */
static bool connects(struct region_reader *reader) {
  struct region_connection *coming = &reader->coming;
  if (reader->is_absent)
    return region_fails(&reader->fault, ENOENT, "");
  if (region_connection_find(coming, reader->path) != 0)
    return region_fails(&reader->fault, errno, "");
  if (!may_read(reader, coming->owner) ||
      !region_receive_may(coming->owner, &reader->fault))
    return false;
  if (region_connection_open(coming) != 0) /* EAGAIN: its queue is full */
    return region_fails(&reader->fault, errno == EAGAIN ? ETIMEDOUT : errno,
                        "");
  return may_read(reader, coming->uid);
}

int region_reader_connect(struct region_reader *reader) {
  if (reader->coming.socket >= 0 || connects(reader))
    return 0;
  drop_coming(reader);
  return region_failed(reader->fault.error);
}

uid_t region_reader_listener(const struct region_reader *reader) {
  return reader->coming.uid;
}

/* Waits for HELLO, but not after a producer that was waited for in vain.
 * Returns false and sets the reader's fault if it has not arrived; the
 * connection is kept, because it may still arrive. */
static bool await_hello(struct region_reader *reader) {
  struct region_connection *coming = &reader->coming;
  if (region_reader_connect(reader) != 0)
    return false;
  if (coming->memfd >= 0)
    return true;
  int wait_ms = reader->silent ? 0 : reader->options.hello_wait_ms;
  reader->silent = region_poll(coming->socket, POLLIN, wait_ms) == 0;
  if (reader->silent) {
    bool lost = region_connection_lost_process(coming);
    region_fails(&reader->fault, lost ? ECONNRESET : ETIMEDOUT, "");
    if (lost)
      drop_coming(reader);
    return false;
  }
  if (!region_receive_may(coming->owner, &reader->fault))
    return false;
  if (region_receive_hello(coming, &reader->fault) == 0)
    return true;
  region_connection_close(coming);
  return false;
}

/* True if the reader has reconnected to the same region, whose counts must not
 * be added a second time. */
static bool is_same_region(const struct region_reader *reader) {
  const struct region_header *header = &reader->view.directory.header;
  uint8_t id[sizeof(header->region_id)];
  return has_view(reader) &&
         pread(reader->coming.memfd, id, sizeof(id),
               offsetof(struct region_header, region_id)) == sizeof(id) &&
         memcmp(id, header->region_id, sizeof(id)) == 0;
}

/* True if a connection error means that no process serves the region. Other
 * errors mean that the producer has too many connections, or that this process
 * has reached a limit. */
static bool means_no_producer(int error) {
  return error == ENOENT || error == ECONNREFUSED || error == ENOTSOCK ||
         error == EACCES || error == EPROTO;
}

enum region_event region_reader_refresh(struct region_reader *reader) {
  if (has_view(reader))
    region_view_forget(&reader->view);
  bool alive = has_view(reader) && !reader->left;
  if (alive && region_connection_lost_process(&reader->connection))
    return leave(reader);
  if (alive && region_connection_is_open(&reader->connection))
    return REGION_AS_BEFORE;
  if (!await_hello(reader))
    return alive && means_no_producer(reader->fault.error) ? leave(reader)
                                                           : REGION_AS_BEFORE;
  if (is_same_region(reader)) {
    region_close_fd(&reader->coming.memfd);
    take_connection(reader);
    return REGION_AS_BEFORE;
  }
  /* The next call opens the new region. */
  return alive ? leave(reader) : take_region(reader);
}

/* ---------------------------------------------------------------------------
 * The producer and its region
 */

enum region_presence
region_reader_presence(const struct region_reader *reader) {
  if (has_view(reader))
    return reader->left ? REGION_LEFT : REGION_ALIVE;
  return reader->coming.socket >= 0 ? REGION_SILENT : REGION_ABSENT;
}

const struct region_fault *
region_reader_fault(const struct region_reader *reader) {
  return &reader->fault;
}

int region_reader_errno(const struct region_reader *reader) {
  return reader->fault.error;
}

const char *region_reader_error(struct region_reader *reader) {
  const struct region_fault *fault = &reader->fault;
  char why[REGION_FAULT_LINE];
  if (fault->error == 0)
    return "";
  region_fault_text(fault, why);
  snprintf(reader->text, sizeof(reader->text), "%s: %s%s", reader->path,
           fault->text[0] != '\0' ? "refused: " : "", why);
  return reader->text;
}

const char *region_reader_path(const struct region_reader *reader) {
  return reader->path;
}

const struct region_directory *
region_reader_directory(const struct region_reader *reader) {
  return has_view(reader) ? &reader->view.directory : NULL;
}

uint64_t region_reader_producer(const struct region_reader *reader) {
  return has_view(reader) ? reader->producer : 0;
}

pid_t region_reader_pid(const struct region_reader *reader) {
  return reader->connection.pid;
}

uid_t region_reader_uid(const struct region_reader *reader) {
  return reader->connection.uid;
}

bool region_reader_is_stopped(const struct region_reader *reader) {
  char path[32], text[256] = "";
  if (reader->connection.pid <= 0)
    return false;
  snprintf(path, sizeof(path), "/proc/%d/stat", (int)reader->connection.pid);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return false;
  ssize_t len = read(fd, text, sizeof(text) - 1);
  close(fd);
  const char *state = len > 0 ? strrchr(text, ')') : NULL; /* ends the name */
  return state != NULL && (state[2] == 'T' || state[2] == 't');
}

bool region_reader_may_return(const struct region_reader *reader) {
  bool closed = reader->left && reader->ended;
  return has_view(reader) && !closed &&
         !region_connection_lost_process(&reader->connection);
}

void region_reader_forget(struct region_reader *reader) {
  if (reader->left && !region_reader_may_return(reader))
    region_view_close(&reader->view);
}

bool region_reader_ended(const struct region_reader *reader) {
  return reader->ended;
}

int region_reader_reset(struct region_reader *reader, uint32_t table,
                        uint32_t row, int wait_ms) {
  struct region_message question = {
      .type = REGION_RESET, .request = 1, .table = table, .row = row};
  struct region_connection connection;
  if (!has_view(reader) || reader->left)
    return region_failed(ENODEV);
  if (region_connection_find(&connection, reader->path) != 0 ||
      region_connection_open(&connection) != 0)
    return -1;
  int status = connection.uid == reader->connection.uid
                   ? region_message_ask(connection.socket, &question, wait_ms)
                   : region_failed(ECONNRESET);
  region_connection_close(&connection);
  return status;
}

uint64_t region_reader_attach_refused(const struct region_reader *reader) {
  return has_view(reader) ? region_load(&live_header(reader)->attach_refused)
                          : 0;
}

/* The first slot is postponed_by 1; slot UINT32_MAX does not exist. */
void region_reader_refusals(struct region_reader *reader,
                            struct region_refusals *refusals) {
  const struct region_header *live = live_header(reader),
                             *header = &reader->view.directory.header;
  struct region_slot_view slot;
  *refusals = (struct region_refusals){0};
  if (!has_view(reader))
    return;
  uint64_t by = region_load(&live->postponed_by);
  region_reader_slot(
      reader, by <= header->slot_count ? (uint32_t)by - 1 : UINT32_MAX, &slot);
  refusals->attaches = region_load(&live->attach_refused);
  refusals->adds_postponed = region_load(&live->adds_postponed);
  refusals->extra_slots = header->slot_count - header->core_count;
  refusals->tid = slot.tid;
  memcpy(refusals->name, slot.name, sizeof(refusals->name));
}

/* Loads a live word of a table; 0 if there is no such table. Pairs with the
 * store-release of rows_in_use. */
static uint64_t live_word(struct region_reader *reader, uint32_t t,
                          size_t word) {
  const struct region_directory *directory = &reader->view.directory;
  return has_view(reader) && t < directory->table_count
             ? region_view_word(&reader->view,
                                directory->tables[t].live_offset + word)
             : 0;
}

uint64_t region_reader_adds_refused(struct region_reader *reader,
                                    uint32_t table) {
  return live_word(reader, table,
                   offsetof(struct region_table_live, adds_refused));
}

uint32_t region_reader_rows(struct region_reader *reader, uint32_t table) {
  uint64_t rows =
      live_word(reader, table, offsetof(struct region_table_live, rows_in_use));
  if (rows == 0)
    return 0;
  uint32_t most = reader->view.directory.tables[table].max_rows;
  return rows < most ? (uint32_t)rows : most;
}
