/* Runs a fuzz target on its seed corpus once, so that every build tries what
 * was found before; the search itself is tests/fuzz/run. */
#include <dirent.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay(const char *path) {
  FILE *file = fopen(path, "rb");
  if (file == NULL)
    return -1;
  size_t capacity = 1 << 20;
  uint8_t *data = malloc(capacity);
  size_t size = data != NULL ? fread(data, 1, capacity, file) : 0;
  fclose(file);
  /* A copy of just that length: a sanitizer sees a step beyond its end. */
  uint8_t *exact = malloc(size > 0 ? size : 1);
  for (size_t i = 0; exact != NULL && i < size; i++)
    exact[i] = data[i];
  if (exact != NULL)
    LLVMFuzzerTestOneInput(exact, size);
  free(exact);
  free(data);
  return 0;
}

int main(void) {
  DIR *directory = opendir(FUZZ_CORPUS);
  int count = 0;
  if (directory == NULL) {
    perror(FUZZ_CORPUS);
    return 1;
  }
  for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
    char path[PATH_MAX];
    if (entry->d_name[0] == '.')
      continue;
    snprintf(path, sizeof(path), "%s/%s", FUZZ_CORPUS, entry->d_name);
    if (replay(path) != 0) {
      perror(path);
      return 1;
    }
    count++;
  }
  closedir(directory);
  printf("%d inputs of %s\n", count, FUZZ_CORPUS);
  return count > 0 ? 0 : 1;
}
