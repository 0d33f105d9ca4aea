/* view.c: opens a region, and loads its words without touching holes. */
#include "percore_config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "memory.h"
#include "view.h"

#include "base/cancellation.h"

/* Histograms with more cells are not read under the sequence counter, because a
 * writer would change them faster than they can be read. */
enum { MAX_CHECKED_CELLS = 64 };

/* ---------------------------------------------------------------------------
 * Pages
 */

enum { WORD_PAGES = 64, BLOCK = 4096 };

static size_t bitmap_words(const struct region_view *view) {
  return (size_t)(view->size >> view->page_bits) / WORD_PAGES + 1;
}

/* Sets the bits of the resident pages among `count` pages, which share a word
 * of the bitmap. */
static void ask_kernel(struct region_view *view, uint64_t page,
                       uint64_t count) {
  unsigned char resident[WORD_PAGES];
  uint64_t pages = ((view->size - 1) >> view->page_bits) + 1;
  if (count > pages - page)
    count = pages - page;
  void *at = (void *)(uintptr_t)(view->map + (page << view->page_bits));
  if (!view->may_ask || mincore(at, count << view->page_bits, resident) != 0)
    return;
  for (uint64_t i = 0; i < count; i++)
    view->present[page / WORD_PAGES] |= (uint64_t)(resident[i] & 1)
                                        << (page + i) % WORD_PAGES;
}

static bool is_present(const struct region_view *view, uint64_t page) {
  return view->present[page / WORD_PAGES] >> page % WORD_PAGES & 1;
}

/* pread(2) returns 0s from a hole and allocates nothing, and it brings a page
 * back that was swapped out. */
static bool has_content(const struct region_view *view, uint64_t page) {
  static const char zeros[BLOCK];
  char bytes[BLOCK];
  NOT_CANCELLED;
  off_t at = (off_t)(page << view->page_bits);
  for (off_t end = at + ((off_t)1 << view->page_bits); at < end; at += BLOCK) {
    ssize_t size = pread(view->memfd, bytes, BLOCK, at);
    if (size > 0 && memcmp(bytes, zeros, (size_t)size) != 0)
      return true;
  }
  return false;
}

bool region_view_ask(struct region_view *view, uint64_t page) {
  if (page == view->absent)
    return false;
  ask_kernel(view, page, 1);
  if (is_present(view, page)) {
    ask_kernel(view, page, WORD_PAGES - page % WORD_PAGES);
    return true;
  }
  if (has_content(view, page)) {
    view->present[page / WORD_PAGES] |= UINT64_C(1) << page % WORD_PAGES;
    return true;
  }
  view->absent = page;
  return false;
}

void region_view_load(struct region_view *view, uint64_t offset, size_t count,
                      uint64_t ahead, uint64_t *values) {
  const uint64_t *end = region_view_words(view, ahead);
  if (count == 0)
    return;
  if (region_view_has(view, offset, 8 * count)) {
    region_load_cells(region_view_words(view, offset), count, end, values);
    return;
  }
  while (count > 0) {
    uint64_t page_end = ((offset >> view->page_bits) + 1) << view->page_bits;
    size_t here = (size_t)(page_end - offset) / 8;
    here = here < count ? here : count;
    if (region_view_has(view, offset, 8))
      region_load_cells(region_view_words(view, offset), here, end, values);
    else
      memset(values, 0, 8 * here);
    offset += 8 * here;
    values += here;
    count -= here;
  }
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
static size_t size_of_claims(const struct region_view *view) {
  enum { TRACKED_SLOT = 64 }; /* for callers that keep a record of each slot */
  const struct region_directory *directory = &view->directory;
  const struct region_header *header = &directory->header;
  size_t size = (size_t)header->slot_count * TRACKED_SLOT +
                bitmap_words(view) * sizeof(uint64_t);
  for (uint32_t f = 0; f < header->field_count; f++)
    size += directory->fields[f].state_count * sizeof(const char *);
  return size;
}

/* Charges the copy of the directory and its parsed form. */
static bool parse_directory(struct region_view *view,
                            struct region_fault *fault) {
  return region_directory_read(&view->directory, view->memfd, view->size,
                               fault) == 0 &&
         take(view, 2 * view->directory.header.directory_size, fault);
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

static bool make_room(struct region_view *view, struct region_fault *fault) {
  const struct region_directory *directory = &view->directory;
  if (!take(view, size_of_claims(view), fault))
    return false;
  view->known = calloc(directory->table_count, sizeof(*view->known));
  view->present = calloc(bitmap_words(view), sizeof(*view->present));
  if (!view->known || !view->present)
    return region_fails(fault, ENOMEM, "there is too little memory to read it");
  for (uint32_t t = 0; t < directory->table_count; t++)
    examine_table(directory, &directory->tables[t], &view->known[t]);
  return true;
}

/* mincore(2) answers only the user who owns the memory, and processes with
 * CAP_FOWNER; to others, it says that each page is resident. They may not open
 * the memory with O_NOATIME either, which is how to find out. The flags of the
 * given descriptor cannot tell, because its sender may change them. A seccomp
 * filter, such as systemd's @system-service, may kill a process that calls
 * mincore(2). */
static bool may_ask(int memfd) {
  char path[32];
  if (prctl(PR_GET_SECCOMP, 0, 0, 0, 0) != 0)
    return false;
  snprintf(path, sizeof(path), "/proc/self/fd/%d", memfd);
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOATIME);
  if (fd < 0)
    return false;
  close(fd);
  return true;
}

static bool open_view(struct region_view *view, struct region_fault *fault) {
  struct stat status;
  if (fstat(view->memfd, &status) != 0)
    return region_fails(fault, errno, "");
  view->size = (uint64_t)status.st_size;
  if (!parse_directory(view, fault) || !make_room(view, fault))
    return false;
  view->map = region_memory_map(view->memfd, view->size, PROT_READ);
  return view->map != NULL ||
         region_fails(fault, errno, "its memory cannot be mapped");
}

int region_view_open(struct region_view *view, int memfd,
                     struct region_allowance *allowance,
                     struct region_fault *fault) {
  *view = (struct region_view){.memfd = memfd,
                               .page_bits = (unsigned)__builtin_ctzl(
                                   (unsigned long)sysconf(_SC_PAGESIZE)),
                               .absent = UINT64_MAX,
                               .may_ask = may_ask(memfd),
                               .allowance = allowance};
  if (open_view(view, fault))
    return 0;
  region_view_close(view);
  return -1;
}

void region_view_close(struct region_view *view) {
  if (view->map != NULL)
    munmap((void *)(uintptr_t)view->map, view->size);
  if (view->memfd >= 0)
    close(view->memfd);
  region_directory_free(&view->directory);
  free(view->known);
  free(view->present);
  if (view->bytes > 0)
    region_allowance_give(view->allowance, view->bytes);
  *view = (struct region_view){.memfd = -1};
}
