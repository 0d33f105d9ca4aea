#include "names.h"

#include "region/layout.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int is_socket(const struct dirent *entry) {
  return region_label_length(entry->d_name) > 0;
}

static int by_name(const void *left, const void *right) {
  const struct dirent *const *a = left, *const *b = right;
  return strcmp((*a)->d_name, (*b)->d_name);
}

int names_read(struct names *names) {
  *names = (struct names){0};
  int count = scandir(region_runtime_dir(), &names->entry, is_socket, NULL);
  if (count < 0)
    return -errno;
  names->len = (size_t)count;
  for (size_t i = 0; i < names->len; i++) {
    char *file = names->entry[i]->d_name;
    file[region_label_length(file)] = '\0';
  }
  if (names->len > 0)
    qsort(names->entry, names->len, sizeof(*names->entry), by_name);
  return 0;
}

const char *names_at(const struct names *names, size_t i) {
  return names->entry[i]->d_name;
}

void names_free(struct names *names) {
  for (size_t i = 0; i < names->len; i++)
    free(names->entry[i]);
  free(names->entry);
}

void names_print(void) {
  struct names names;
  struct region_label label;
  names_read(&names);
  for (size_t i = 0; i < names.len; i++) {
    const char *name = names_at(&names, i);
    if (region_label_split(&label, name, strlen(name)))
      puts(name);
  }
  names_free(&names);
}
