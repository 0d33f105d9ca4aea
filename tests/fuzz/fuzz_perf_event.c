/* Fuzz target: names of perf events, and the files in sysfs that explain them.
 * The pieces (pieces.h) are the event, the PMU's type, the content of every
 * events file, and the content of every format file. */
#include "cycles/perf_event.h"

#include "pieces.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static ssize_t read_piece(void *context, const char *path, char *buffer,
                          size_t size) {
  static const char folder[] = "/sys/bus/event_source/devices/";
  if (strncmp(path, folder, strlen(folder)) != 0 || strstr(path, "/../"))
    abort(); /* the name must not lead out of the folder */
  int piece = strstr(path, "/events/") ? 2 : strstr(path, "/format/") ? 3 : 1;
  return pieces_read(context, piece, buffer, size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct pieces pieces;
  struct perf_event event;
  char why[WHY_SIZE] = "";
  pieces_cut(&pieces, data, size);
  const struct machine machine = {.context = &pieces, .read_file = read_piece};
  int status = perf_event_parse(&event, pieces.piece[0], &machine, why);
  if (status > 0 || memchr(why, '\0', sizeof(why)) == NULL ||
      (status < 0 && why[0] == '\0'))
    abort();
  free(pieces.text);
  return 0;
}
