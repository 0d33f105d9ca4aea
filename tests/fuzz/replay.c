/* Runs a fuzz target on its seed corpus without a fuzzer (the program
 * replay_NAME reads the folder corpus_NAME): on each seed, on prefixes of it,
 * and on copies of it with one byte changed. tests/fuzz/run searches for new
 * inputs. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Runs the target on a copy in memory of exactly this size, so that a sanitizer
 * detects reads beyond the copy. */
static void try_input(const uint8_t *data, size_t size) {
  uint8_t *exact = malloc(size > 0 ? size : 1);
  if (exact == NULL)
    abort();
  memcpy(exact, data, size);
  LLVMFuzzerTestOneInput(exact, size);
  free(exact);
}

static unsigned replay(uint8_t *data, size_t size) {
  unsigned inputs = 1;
  try_input(data, size);
  for (size_t length = 0; length < size; length += 7, inputs++)
    try_input(data, length);
  for (size_t at = 0; at < size; at++, inputs++) {
    uint8_t was = data[at];
    data[at] = (uint8_t)(was + 1 + at % 255);
    try_input(data, size);
    data[at] = was;
  }
  return inputs;
}

int main(void) {
  static uint8_t data[1 << 20];
  unsigned seeds = 0, inputs = 0;
  char folder[PATH_MAX / 2];
  const char *target = strchr(program_invocation_short_name, '_');
  snprintf(folder, sizeof(folder), FUZZ_FOLDER "/corpus%s",
           target != NULL ? target : "");
  DIR *directory = opendir(folder);
  if (directory == NULL) {
    perror(folder);
    return 1;
  }
  for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
    char path[PATH_MAX];
    if (entry->d_name[0] == '.')
      continue;
    snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
      perror(path);
      return 1;
    }
    inputs += replay(data, fread(data, 1, sizeof(data), file));
    fclose(file);
    seeds++;
  }
  closedir(directory);
  if (seeds == 0) {
    printf("not ok - %s contains no seeds\n", folder);
    return 1;
  }
  printf("ok - no failure with %u inputs from %u seeds\n", inputs, seeds);
  return 0;
}
