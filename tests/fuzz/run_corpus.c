/* Runs a fuzz target over its corpus, where there is no fuzzer: every input of
 * CORPUS, each of its beginnings, and each with one byte changed. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void run(uint8_t *data, size_t size) {
  LLVMFuzzerTestOneInput(data, size);
  for (size_t length = 0; length < size; length += 7)
    LLVMFuzzerTestOneInput(data, length);
  for (size_t at = 0; at < size; at++) {
    uint8_t was = data[at];
    data[at] = (uint8_t)(was + 1 + at % 255);
    LLVMFuzzerTestOneInput(data, size);
    data[at] = was;
  }
}

int main(void) {
  static uint8_t data[1 << 20];
  char path[4096];
  unsigned inputs = 0;
  DIR *dir = opendir(CORPUS);
  if (dir == NULL) {
    perror(CORPUS);
    return 1;
  }
  for (struct dirent *entry = readdir(dir); entry != NULL;
       entry = readdir(dir)) {
    if (entry->d_name[0] == '.')
      continue;
    snprintf(path, sizeof(path), "%s/%s", CORPUS, entry->d_name);
    FILE *file = fopen(path, "r");
    if (file == NULL) {
      perror(path);
      return 1;
    }
    run(data, fread(data, 1, sizeof(data), file));
    fclose(file);
    inputs++;
  }
  closedir(dir);
  printf("%u inputs\n", inputs);
  return inputs > 0 ? 0 : 1;
}
