/* reader.c: follows a region from file to file. */
#include "percore_config.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/param.h>
#include <unistd.h>

#include "process.h"
#include "reader.h"
#include "view.h"

#include "base/cancellation.h"

/* Opens a reader of the title at the beginning of a text. */
static int open_reader(struct region_reader **opened, const char *text,
                       size_t length,
                       const struct region_reader_options *options) {
  struct region_title title;
  *opened = NULL;
  if (!region_title_split(&title, text, length))
    return region_failed(EINVAL);
  struct region_reader *reader = calloc(1, sizeof(*reader));
  char *dir = strdup(region_runtime_dir());
  if (reader == NULL || dir == NULL) {
    free(reader);
    free(dir);
    return -1;
  }
  *reader =
      (struct region_reader){.title = title, .dir = dir, .view.file.fd = -1};
  if (options != NULL)
    reader->options = *options;
  *opened = reader;
  return 0;
}

int region_reader_open(struct region_reader **opened, const char *name,
                       const char *instance,
                       const struct region_reader_options *options) {
  char text[sizeof(struct region_title) + 2]; /* one byte too many is wrong */
  (void)snprintf(text, sizeof(text), "%s%s%s", name,
                 instance != NULL ? "@" : "", instance != NULL ? instance : "");
  return open_reader(opened, text, strlen(text), options);
}

int region_reader_open_file(struct region_reader **opened, const char *file,
                            const struct region_reader_options *options) {
  if (open_reader(opened, file, region_title_length(file), options) != 0)
    return -1;
  (*opened)->is_fixed = true;
  strcpy((*opened)->file, file);
  return 0;
}

void region_reader_close(struct region_reader *reader) {
  if (reader == NULL)
    return;
  region_view_close(&reader->view);
  free(reader->dir);
  free(reader);
}

/* ---------------------------------------------------------------------------
 * Files come and go
 */

static bool has_view(const struct region_reader *reader) {
  return reader->view.size > 0;
}

void region_reader_pause(struct region_reader *reader) {
  region_file_close(&reader->view.file);
}

void region_reader_give_back(struct region_reader *reader) {
  struct region_view *view = &reader->view;
  region_reader_pause(reader);
  if (view->map != NULL)
    (void)madvise((void *)(uintptr_t)view->map, view->size, MADV_DONTNEED);
}

/* Refuses a region whose name differs from its file's, because its values would
 * be mistaken for those of another region. */
static bool name_is_valid(const struct region_title *title,
                          const struct region_directory *directory,
                          struct region_fault *fault) {
  const char *instance = directory->instance != NULL ? directory->instance : "";
  return (strcmp(title->region, directory->name) == 0 &&
          strcmp(title->instance, instance) == 0) ||
         region_breaks(fault, REGION_RULE_FILE_NAME,
                       "the region's name differs from its file's");
}

static bool open_view(struct region_reader *reader, const char *name,
                      struct region_view *view) {
  if (region_view_open(view, reader->dir, name, reader->options.allowance,
                       &reader->fault) != 0)
    return false;
  if (name_is_valid(&reader->title, &view->directory, &reader->fault))
    return true;
  region_view_close(view);
  return false;
}

/* Opens a file in place of the one that was read before. */
static enum region_event take_file(struct region_reader *reader,
                                   const char *name) {
  struct region_view next, *view = &reader->view;
  if (!open_view(reader, name, &next))
    return REGION_AS_BEFORE;
  region_view_close(view);
  *view = next;
  if (name != reader->file)
    strcpy(reader->file, name);
  const struct region_header *header = &view->directory.header;
  reader->pid = region_process_is_here(header) ? header->pid : 0;
  reader->left = false;
  reader->fault = (struct region_fault){0};
  if (reader->options.keep_from_children && view->map != NULL)
    (void)madvise((void *)(uintptr_t)view->map, view->size, MADV_DONTFORK);
  return REGION_CAME;
}

static enum region_event leave(struct region_reader *reader, bool ended) {
  reader->left = true;
  reader->ended = ended;
  return REGION_WENT;
}

/* Looks whether the present file still has a producer. */
static enum region_event look(struct region_reader *reader) {
  struct region_view *view = &reader->view;
  if (view->is_cut) {
    region_fails(&reader->fault, EIO, "its file was truncated or removed");
    return leave(reader, false);
  }
  reader->fault = (struct region_fault){0};
  bool there = region_view_reopen(view, &reader->fault) == 0;
  if (!there && reader->fault.error != ENOENT)
    return REGION_AS_BEFORE;
  if (!there && view->map == NULL)
    return leave(reader, false);
  uint64_t ended =
      region_view_word(view, offsetof(struct region_header, ended));
  if (!there) /* what is mapped can still be read */
    return leave(reader, ended != 0);
  if (!region_file_is_over(view->file.fd, &view->directory.header, ended))
    return REGION_AS_BEFORE;
  region_fails(&reader->fault, ECONNRESET, "");
  return leave(reader, ended != 0);
}

/* Looks at a file without reading it as a region: whether its producer is
 * alive, and when it started. Returns false and sets *fault if it cannot. */
static bool look_at(int dir, const char *name, bool *alive, uint64_t *start_ns,
                    struct region_fault *fault) {
  struct region_header header;
  struct region_file file;
  if (region_file_open(&file, dir, name, fault) != 0)
    return false;
  bool whole = pread(file.fd, &header, sizeof(header), 0) == sizeof(header);
  *alive = whole && !region_file_is_over(file.fd, &header, header.ended);
  *start_ns = whole ? header.start_boottime_ns : 0;
  region_file_close(&file);
  return whole || region_fails(fault, EPROTO, "it is too short for a header");
}

static bool is_named(const struct region_reader *reader, const char *name) {
  const struct region_title *title = &reader->title;
  struct region_title of;
  return strncmp(name, title->region, strlen(title->region)) == 0 &&
         strcmp(name, reader->file) != 0 &&
         region_title_split(&of, name, region_title_length(name)) &&
         strcmp(of.region, title->region) == 0 &&
         strcmp(of.instance, title->instance) == 0;
}

/* Finds the newest file of the name whose producer is alive, or else the newest
 * of all that is newer than the one that was read last. If there is no such
 * file, returns false and sets the reader's fault. */
static bool find_file(struct region_reader *reader, char found[NAME_MAX + 1]) {
  bool found_alive = false, alive;
  uint64_t newest_ns = 0, start_ns;
  uint64_t last_ns =
      has_view(reader) ? reader->view.directory.header.start_boottime_ns : 0;
  DIR *dir = opendir(reader->dir);
  found[0] = '\0';
  if (dir == NULL)
    return region_fails(&reader->fault, errno, "");
  region_fails(&reader->fault, ENOENT, "");
  for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
    if (!is_named(reader, entry->d_name) ||
        !look_at(dirfd(dir), entry->d_name, &alive, &start_ns, &reader->fault))
      continue;
    if (alive < found_alive ||
        (alive == found_alive && start_ns <= newest_ns) ||
        (!alive && start_ns <= last_ns))
      continue;
    found_alive = alive;
    newest_ns = start_ns;
    strcpy(found, entry->d_name);
  }
  closedir(dir);
  return found[0] != '\0';
}

enum region_event region_reader_refresh(struct region_reader *reader) {
  char name[NAME_MAX + 1];
  NOT_CANCELLED;
  if (has_view(reader) && !reader->left)
    return look(reader);
  if (reader->is_fixed)
    return has_view(reader) ? REGION_AS_BEFORE
                            : take_file(reader, reader->file);
  return find_file(reader, name) ? take_file(reader, name) : REGION_AS_BEFORE;
}

bool region_reader_is_cut(const struct region_reader *reader) {
  return reader->view.is_cut;
}

/* ---------------------------------------------------------------------------
 * The producer and its region
 */

enum region_presence
region_reader_presence(const struct region_reader *reader) {
  if (has_view(reader))
    return reader->left ? REGION_LEFT : REGION_ALIVE;
  return REGION_ABSENT;
}

const struct region_fault *
region_reader_fault(const struct region_reader *reader) {
  return &reader->fault;
}

const char *region_reader_error(struct region_reader *reader) {
  const struct region_fault *fault = &reader->fault;
  char why[REGION_FAULT_LINE];
  if (fault->error == 0)
    return "";
  if (fault->error == ENOENT && reader->left) /* its file may still be there */
    snprintf(why, sizeof(why), "its producer has ended");
  else
    region_fault_text(fault, why);
  snprintf(reader->text, sizeof(reader->text), "%.60s/%.80s%s%s: %s%.400s",
           reader->dir,
           reader->file[0] != '\0' ? reader->file : reader->title.region,
           reader->file[0] == '\0' && reader->title.instance[0] ? "@" : "",
           reader->file[0] == '\0' ? reader->title.instance : "",
           fault->text[0] != '\0' ? "refused: " : "", why);
  return reader->text;
}

const char *region_reader_file(const struct region_reader *reader) {
  return reader->file;
}

const struct region_directory *
region_reader_directory(const struct region_reader *reader) {
  return has_view(reader) ? &reader->view.directory : NULL;
}

pid_t region_reader_pid(const struct region_reader *reader) {
  return reader->pid;
}

uid_t region_reader_uid(const struct region_reader *reader) {
  return has_view(reader) ? reader->view.file.owner : (uid_t)-1;
}

bool region_reader_is_stopped(const struct region_reader *reader) {
  return reader->pid > 0 && region_process_is_stopped(reader->pid);
}

bool region_reader_ended(const struct region_reader *reader) {
  return reader->ended;
}

/* The first slot is postponed_by 1; slot UINT32_MAX does not exist. */
void region_reader_refusals(struct region_reader *reader,
                            struct region_refusals *refusals) {
  struct region_view *view = &reader->view;
  const struct region_header *header = &view->directory.header;
  struct region_slot_view slot;
  *refusals = (struct region_refusals){0};
  if (!has_view(reader))
    return;
  uint64_t by =
      region_view_word(view, offsetof(struct region_header, postponed_by));
  region_reader_slot(
      reader, by <= header->slot_count ? (uint32_t)by - 1 : UINT32_MAX, &slot);
  refusals->attaches =
      region_view_word(view, offsetof(struct region_header, attach_refused));
  refusals->adds_postponed =
      region_view_word(view, offsetof(struct region_header, adds_postponed));
  refusals->adds_in_children =
      region_view_word(view, offsetof(struct region_header, adds_in_children));
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
  return rows == 0 ? 0
                   : (uint32_t)MIN(
                         rows, reader->view.directory.tables[table].max_rows);
}
