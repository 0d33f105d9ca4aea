/* Fuzz target: files of regions.
 *
 * The input is the start of a region. The rest is zeros or, if the last byte of
 * the input is odd, repetitions of the input. The size of the region is taken
 * from its header, up to 1 MiB, so that most inputs pass the size check. An
 * accepted region is read in every way that a reader offers; a
 * refused region must have a reason. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "region/directory.h"
#include "region/view.h"

enum { MAX_SIZE = 1 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t claimed_size(const uint8_t *data, size_t size) {
  struct region_header header;
  if (size < sizeof(header))
    return 4096;
  memcpy(&header, data, sizeof(header));
  return header.region_size <= MAX_SIZE ? header.region_size : MAX_SIZE;
}

static void read_table(struct region_reader *reader, uint32_t t) {
  struct region_tile tile;
  char name[REGION_ROW_NAME_SIZE];
  uint64_t values[PERCORE_MAX_COLUMNS];
  if (region_tile_init(&tile, reader, t, 16,
                       REGION_WANT_BIRTHS | REGION_WANT_RESETS |
                           REGION_WANT_CORES) != 0)
    return;
  region_tile_read(reader, &tile, 0);
  for (uint32_t i = 0; i < tile.rows; i++) {
    region_reader_row_name(reader, t, i, tile.generations[i], name);
    if (memchr(name, '\0', sizeof(name)) == NULL)
      abort();
    region_row_shown(region_reader_directory(reader), &tile, i,
                     tile.columns - 1);
  }
  region_reader_slot_row(reader, t, 0, 0, values);
  region_tile_free(&tile);
}

static void check_reason(const struct region_fault *fault) {
  char line[REGION_FAULT_LINE];
  region_fault_text(fault, line);
  if (line[0] == '\0')
    abort();
}

static char dir[] = "/tmp/percore-fuzz-XXXXXX";
static void remove_dir(void) { (void)rmdir(dir); }

static void read_region(const uint8_t *data, size_t size,
                        uint64_t region_size) {
  struct region_fault fault;
  struct region_reader reader = {.pid = 0};
  static bool made;
  if (!made && (mkdtemp(dir) == NULL || atexit(remove_dir) != 0))
    abort();
  made = true;
  static const char name[] = "unit.0123456789abcdef";
  char path[sizeof(dir) + 32];
  snprintf(path, sizeof(path), "%s/%s", dir, name);
  int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0 || ftruncate(fd, (off_t)region_size) != 0)
    abort();
  size_t length = size < region_size ? size : region_size;
  if (pwrite(fd, data, length, 0) != (ssize_t)length)
    abort();
  for (uint64_t at = length; (data[size - 1] & 1) && at < region_size;
       at += length)
    if (pwrite(fd, data, region_size - at < length ? region_size - at : length,
               (off_t)at) < 0)
      abort();
  close(fd);
  bool opened = region_view_open(&reader.view, dir, name, NULL, &fault) == 0;
  unlink(path);
  if (!opened)
    return;
  for (uint32_t s = 0; s < region_reader_slots(&reader) && s < 64; s++) {
    struct region_slot_view slot;
    region_reader_slot(&reader, s, &slot);
    if (memchr(slot.name, '\0', sizeof(slot.name)) == NULL)
      abort();
  }
  uint32_t tables = region_reader_directory(&reader)->table_count;
  /* A region may claim 16384 cores. Read tables only if there are few cores, so
   * that no input takes long. */
  if (region_reader_directory(&reader)->header.core_count <= 64)
    for (uint32_t t = 0; t < tables; t++)
      read_table(&reader, t);
  region_view_close(&reader.view);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct region_fault fault;
  struct region_directory directory;
  uint64_t region_size = claimed_size(data, size);
  if (size == 0)
    return 0;
  if (region_directory_parse(&directory, data, size, region_size, &fault) ==
      0) {
    region_directory_free(&directory);
    read_region(data, size, region_size);
  } else {
    check_reason(&fault);
  }
  return 0;
}
