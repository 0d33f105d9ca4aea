/* view.c: opens the file of a region, and loads its words. */
#include "percore_config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/param.h>
#include <unistd.h>

#include "memory.h"
#include "view.h"

#include "base/cancellation.h"

/* Histograms with more cells are not read under the sequence counter, because a
 * writer would change them faster than they can be read. */
enum { MAX_CHECKED_CELLS = 64 };

/* ---------------------------------------------------------------------------
 * Words
 */

/* In words. The kernel copies words whole if they lie in memory as they lie in
 * a cache line of the file. */
enum { LINE = 8, AT_ONCE = 256 };
enum { LINE_SIZE = LINE * sizeof(uint64_t) };

static void read_bytes(struct region_view *view, uint64_t offset, size_t size,
                       void *bytes) {
  size_t done = 0;
  struct region_fault fault;
  NOT_CANCELLED;
  while (done < size && region_view_reopen(view, &fault) == 0) {
    ssize_t got = pread(view->file.fd, (char *)bytes + done, size - done,
                        (off_t)(offset + done));
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0)
      break;
    done += (size_t)got;
  }
  if (done < size) {
    view->is_cut = true;
    memset((char *)bytes + done, 0, size - done);
  }
}

bool region_view_settles(const uint64_t *first, const uint64_t *second,
                         const uint64_t *third, size_t count) {
  bool settles = true;
  for (size_t i = 0; i < count; i++)
    settles &= second[i] == third[i] ||
               (first[i] <= second[i] && second[i] <= third[i]);
  return settles;
}

/* Other kernels may copy an aligned word with more than one load. */
#if defined(__x86_64__) || defined(__aarch64__)
enum { MAY_TEAR = false };
#else
enum { MAY_TEAR = true };
#endif

/* Loads words by way of a buffer in which they lie as in the file. */
static void load_buffered(struct region_view *view, uint64_t offset,
                          size_t count, uint64_t *values) {
  enum { READINGS = 3 };
  struct {
    uint64_t words[LINE + AT_ONCE];
  } __attribute__((aligned(LINE_SIZE))) all[MAY_TEAR ? READINGS : 1];
  uint64_t skipped = offset % LINE_SIZE;
  size_t at = skipped / 8, size = skipped + 8 * count;
  for (int i = 0; i < (MAY_TEAR ? READINGS : 1); i++)
    read_bytes(view, offset - skipped, size, all[i].words);
  for (int i = 0; MAY_TEAR && i < REGION_TRIES; i++) {
    if (region_view_settles(all[0].words + at, all[1].words + at,
                            all[2].words + at, count)) {
      memcpy(values, all[1].words + at, 8 * count);
      return;
    }
    memcpy(all[0].words, all[1].words, size);
    memcpy(all[1].words, all[2].words, size);
    read_bytes(view, offset - skipped, size, all[2].words);
  }
  memcpy(values, all[0].words + at, 8 * count);
}

void region_view_load(struct region_view *view, uint64_t offset, size_t count,
                      uint64_t ahead, uint64_t *values) {
  if (view->map != NULL) {
    region_load_cells(region_view_place(view, offset), count,
                      region_view_place(view, ahead), values);
    return;
  }
  if (!MAY_TEAR && ((uintptr_t)values - offset) % LINE_SIZE == 0) {
    read_bytes(view, offset, 8 * count, values);
    return;
  }
  for (size_t here; count > 0;
       offset += 8 * here, values += here, count -= here)
    load_buffered(view, offset, here = MIN(count, (size_t)AT_ONCE), values);
}

/* ---------------------------------------------------------------------------
 * Opening
 */

static bool take(struct region_view *view, size_t bytes,
                 struct region_fault *fault) {
  if (view->allowance == NULL)
    return true;
  if (!region_allowance_take(view->allowance, bytes)) {
    region_fails(fault, EDQUOT, "");
    snprintf(fault->text, sizeof(fault->text),
             "reading it takes %zu bytes, and at most %zu are allowed", bytes,
             region_allowance_left(view->allowance));
    return false;
  }
  view->bytes += bytes;
  return true;
}

/* Returns how much memory the reader must allocate in addition to the
 * directory. Even a small region may claim 16384 slots, and 8096 fields that
 * share 256 state names. */
static size_t size_of_claims(const struct region_directory *directory) {
  enum { TRACKED_SLOT = 64 }; /* for callers that keep a record of each slot */
  const struct region_header *header = &directory->header;
  size_t size = (size_t)header->slot_count * TRACKED_SLOT;
  for (uint32_t f = 0; f < header->field_count; f++)
    size += directory->fields[f].state_count * sizeof(const char *);
  return size;
}

/* Charges the copy of the directory and its parsed form. */
static bool parse_directory(struct region_view *view,
                            struct region_fault *fault) {
  return region_directory_read(&view->directory, view->file.fd, view->file.size,
                               fault) == 0 &&
         take(view,
              2 * view->directory.header.directory_size +
                  size_of_claims(&view->directory),
              fault);
}

static void examine_table(const struct region_directory *directory,
                          const struct region_table *table,
                          struct region_known *known) {
  bool small = true;
  known->all_sums = true;
  for (uint32_t f = 0; f < table->field_count; f++) {
    const struct region_field *field =
        &directory->fields[table->first_field + f];
    small &= field->cells <= MAX_CHECKED_CELLS;
    known->checked_columns += small ? field->cells : 0;
    known->all_sums &=
        field->kind != PERCORE_GAUGE && field->kind != PERCORE_STATE;
  }
}

static bool examine_tables(struct region_view *view,
                           struct region_fault *fault) {
  const struct region_directory *directory = &view->directory;
  view->known = calloc(directory->table_count, sizeof(*view->known));
  if (view->known == NULL)
    return region_fails(fault, ENOMEM, "there is too little memory to read it");
  for (uint32_t t = 0; t < directory->table_count; t++)
    examine_table(directory, &directory->tables[t], &view->known[t]);
  return true;
}

/* Others may take the memory of a mapping away, or never have given it any. */
static bool may_map(const struct region_view *view) {
  uid_t owner = view->file.owner;
  return (view->directory.header.flags & REGION_POPULATED) != 0 &&
         (owner == 0 || owner == geteuid());
}

static bool open_view(struct region_view *view, struct region_fault *fault) {
  if (!parse_directory(view, fault) || !examine_tables(view, fault))
    return false;
  if (may_map(view)) {
    view->map = region_memory_map(view->file.fd, view->file.size, PROT_READ);
    if (view->map == NULL)
      return region_fails(fault, errno, "its memory cannot be mapped");
  }
  view->size = view->file.size;
  return true;
}

static int open_file(struct region_file *file, const char *dir,
                     const char *name, struct region_fault *fault) {
  int at = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
  *file = (struct region_file){.fd = -1, .owner = (uid_t)-1};
  if (at < 0)
    return region_fails(fault, errno, "") - 1;
  int rc = region_file_open(file, at, name, fault);
  close(at);
  return rc;
}

int region_view_reopen(struct region_view *view, struct region_fault *fault) {
  struct region_file file;
  if (view->file.fd >= 0)
    return 0;
  if (open_file(&file, view->dir, view->name, fault) != 0)
    return -1;
  if (file.inode != view->file.inode) {
    region_file_close(&file);
    return region_fails(fault, ENOENT, "") - 1;
  }
  view->file.fd = file.fd;
  return 0;
}

int region_view_open(struct region_view *view, const char *dir,
                     const char *name, struct region_allowance *allowance,
                     struct region_fault *fault) {
  NOT_CANCELLED;
  *view = (struct region_view){.dir = dir, .allowance = allowance};
  snprintf(view->name, sizeof(view->name), "%s", name);
  if (open_file(&view->file, view->dir, view->name, fault) == 0 &&
      open_view(view, fault))
    return 0;
  region_view_close(view);
  return -1;
}

void region_view_close(struct region_view *view) {
  if (view->map != NULL)
    munmap((void *)(uintptr_t)view->map, view->size);
  region_file_close(&view->file);
  region_directory_free(&view->directory);
  free(view->known);
  if (view->bytes > 0)
    region_allowance_give(view->allowance, view->bytes);
  *view = (struct region_view){.file.fd = -1};
}
