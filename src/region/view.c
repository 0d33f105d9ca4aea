#include "percore_config.h"

#include <errno.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "memory.h"
#include "view.h"

/* Histograms with more cells are not read under the sequence counter, because a
 * writer would change them faster than they can be read. */
enum { MAX_CHECKED_CELLS = 64 };

uint64_t region_view_data(const struct region_view *view, uint64_t offset,
                          uint64_t length, uint64_t *known) {
  if (view->huge || *known >= length)
    return length;
  off_t from = (off_t)(offset + *known);
  if (lseek(view->memfd, from, SEEK_DATA) != from)
    return *known;
  off_t hole = lseek(view->memfd, from, SEEK_HOLE);
  if (hole > from)
    *known = (uint64_t)hole - offset;
  return *known < length ? *known : length;
}

uint32_t region_view_rows(const struct region_view *view, uint64_t offset,
                          uint64_t stride, uint32_t first, uint32_t count,
                          uint64_t *known) {
  uint64_t end = ((uint64_t)first + count) * stride;
  uint64_t rows = region_view_data(view, offset, end, known) / stride;
  return rows > first ? (uint32_t)(rows - first) : 0;
}

/* True if all huge pages of the region are allocated. SEEK_DATA would not find
 * holes between them. */
static bool has_all_pages(const struct region_view *view) {
  struct stat status;
  return fstat(view->memfd, &status) == 0 &&
         (uint64_t)status.st_blocks * 512 >= view->size;
}

/* If a region is backed by huge pages, allocates the missing ones, because a
 * load from a hole would take a page from the system's pool of huge pages, and
 * kill the process if that pool is empty. MAP_POPULATE fills holes without that
 * risk, but does not report failure. MADV_POPULATE_READ reports failure, but
 * needs Linux 5.14. */
static bool fill_huge_pages(struct region_view *view,
                            struct region_fault *fault) {
  struct statfs status;
  if (fstatfs(view->memfd, &status) != 0)
    return region_fails(fault, errno, "its memory cannot be examined");
  view->huge = status.f_type == HUGETLBFS_MAGIC;
  if (!view->huge || has_all_pages(view))
    return true;
  void *map = mmap(NULL, view->size, PROT_READ, MAP_SHARED | MAP_POPULATE,
                   view->memfd, 0);
  if (map != MAP_FAILED)
    munmap(map, view->size);
  return has_all_pages(view) ||
         region_fails(
             fault, ENOMEM,
             "there are too few huge pages for it; raise vm.nr_hugepages");
}

static bool take(struct region_view *view, size_t bytes,
                 struct region_fault *fault) {
  if (view->allowance == NULL)
    return true;
  if (!region_allowance_take(view->allowance, bytes))
    return region_exceeds(fault, EDQUOT, "reading it takes", bytes,
                          region_allowance_left(view->allowance));
  view->bytes += bytes;
  return true;
}

/* Returns how much memory the reader must allocate in addition to the
 * directory. Even a small region may claim 16384 slots, 256 tables, and 8096
 * fields that share 256 state names. */
static size_t size_of_claims(const struct region_directory *directory) {
  enum { TRACKED_SLOT = 64 }; /* for callers that keep a record of each slot */
  const struct region_header *header = &directory->header;
  size_t size = (size_t)header->slot_count *
                (header->table_count * sizeof(uint64_t) + TRACKED_SLOT);
  for (uint32_t f = 0; f < header->field_count; f++)
    size += directory->fields[f].state_count * sizeof(const char *);
  return size;
}

static bool parse_directory(struct region_view *view,
                            struct region_fault *fault) {
  struct region_header header;
  uint64_t known = 0;
  if (region_view_data(view, 0, sizeof(header), &known) < sizeof(header))
    return region_breaks(fault, REGION_RULE_MAGIC, "its header has holes");
  memcpy(&header, view->map, sizeof(header));
  if (!region_header_is_valid(&header, view->size, fault))
    return false;
  size_t size = header.directory_size;
  if (region_view_data(view, 0, size, &known) < size)
    return region_breaks(fault, REGION_RULE_DIRECTORY_SIZE,
                         "its directory has holes");
  if (!take(view, 2 * size, fault)) /* the copy and its parsed form */
    return false;
  unsigned char *copy = malloc(size);
  if (copy == NULL)
    return region_fails(fault, ENOMEM,
                        "there is too little memory for its directory");
  memcpy(copy, view->map, size);
  int rc =
      region_directory_parse(&view->directory, copy, size, view->size, fault);
  free(copy);
  return rc == 0;
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
  if (!take(view, size_of_claims(directory), fault))
    return false;
  view->known = calloc(directory->table_count, sizeof(*view->known));
  view->slot_known =
      calloc((size_t)directory->table_count * directory->header.slot_count,
             sizeof(*view->slot_known));
  if (!view->known || !view->slot_known)
    return region_fails(fault, ENOMEM, "there is too little memory to read it");
  for (uint32_t t = 0; t < directory->table_count; t++)
    examine_table(directory, &directory->tables[t], &view->known[t]);
  return true;
}

static bool open_view(struct region_view *view, uint64_t max_size,
                      struct region_fault *fault) {
  if (view->size < sizeof(struct region_header))
    return region_breaks(fault, REGION_RULE_REGION_SIZE,
                         "it is too short for a header");
  if (view->size > max_size)
    return region_exceeds(fault, EFBIG, "it has", view->size, max_size);
  void *map = region_memory_map(view->memfd, view->size, PROT_READ);
  if (map == NULL)
    return region_fails(fault, errno, "its memory cannot be mapped");
  view->map = map;
  return fill_huge_pages(view, fault) && parse_directory(view, fault) &&
         make_room(view, fault);
}

int region_view_open(struct region_view *view, int memfd, uint64_t size,
                     uint64_t max_size, struct region_allowance *allowance,
                     struct region_fault *fault) {
  *view = (struct region_view){
      .memfd = memfd, .size = size, .allowance = allowance};
  if (open_view(view, max_size, fault))
    return 0;
  region_view_close(view);
  return -1;
}

size_t region_view_lend(struct region_view *view) {
  size_t bytes = view->bytes;
  if (bytes > 0)
    region_allowance_give(view->allowance, bytes);
  view->bytes = 0;
  return bytes;
}

void region_view_take_back(struct region_view *view, size_t bytes) {
  struct region_fault ignored;
  if (bytes > 0)
    (void)take(view, bytes, &ignored);
}

void region_view_close(struct region_view *view) {
  if (view->map != NULL)
    munmap((void *)(uintptr_t)view->map, view->size);
  if (view->memfd >= 0)
    close(view->memfd);
  region_directory_free(&view->directory);
  free(view->known);
  free(view->slot_known);
  (void)region_view_lend(view);
  *view = (struct region_view){.memfd = -1};
}

/* ---------------------------------------------------------------------------
 * Live words
 */

const struct region_table_live *region_view_live(struct region_view *view,
                                                 uint32_t t) {
  uint64_t offset = view->directory.tables[t].live_offset;
  uint64_t size = sizeof(struct region_table_live);
  if (region_view_data(view, offset, size, &view->known[t].live) < size)
    return NULL;
  return (const void *)(view->map + offset);
}

uint32_t region_view_generation_rows(struct region_view *view, uint32_t t,
                                     uint32_t rows) {
  return region_view_rows(view, view->directory.tables[t].generations_offset, 8,
                          0, rows, &view->known[t].generations);
}

bool region_view_label(struct region_view *view, uint32_t t, uint32_t row,
                       uint64_t words[REGION_LABEL_WORDS]) {
  const struct region_table *table = &view->directory.tables[t];
  uint64_t end = ((uint64_t)row + 1) * table->label_stride;
  const uint64_t *label =
      region_view_words(view, table->labels_offset + end - table->label_stride);
  bool has_memory = region_view_data(view, table->labels_offset, end,
                                     &view->known[t].labels) == end;
  memset(words, 0, REGION_ROW_NAME_SIZE);
  for (uint32_t w = 0; has_memory && w < region_label_size(table) / 8; w++)
    words[w] = region_load(&label[w]);
  /* Pairs with the release fence after the generation word became CHANGING. */
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
  return has_memory;
}

const struct region_slot *region_view_slot(struct region_view *view,
                                           uint32_t s) {
  const struct region_header *header = &view->directory.header;
  uint64_t end = ((uint64_t)s + 1) * header->slot_size;
  if (region_view_data(view, header->slots_offset, end, &view->slots_known) <
      end)
    return NULL;
  return (const void *)(view->map + header->slots_offset + end -
                        header->slot_size);
}

bool region_view_copy_slot(const struct region_slot *slot,
                           struct region_slot *copy) {
  enum { WORDS = sizeof(*slot) / sizeof(uint64_t) };
  const uint64_t *from = (const void *)slot;
  uint64_t words[WORDS];
  bool whole = false;
  for (int i = 0; i < REGION_TRIES && !whole; i++) {
    /* Pairs with the store-release that ends a change. */
    uint64_t before = region_load_acquire(&slot->generation);
    for (int w = 0; w < WORDS; w++)
      words[w] = region_load(&from[w]);
    /* Pairs with the release fence that begins a change. */
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    whole = region_state(before) != REGION_CHANGING &&
            region_load(&slot->generation) == before;
  }
  memcpy(copy, words, sizeof(*copy));
  return whole;
}
