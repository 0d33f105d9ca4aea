#include "names.h"

#include "base/array.h"
#include "region/layout.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int add(struct names *names, const char *file) {
  size_t length = region_label_length(file);
  if (length == 0)
    return 0;
  if (!array_resize(&names->name, names->len + 1, sizeof(char *)))
    return -ENOMEM;
  names->name[names->len] = strndup(file, length);
  return names->name[names->len] != NULL ? (names->len++, 0) : -ENOMEM;
}

static int by_name(const void *left, const void *right) {
  return strcmp(*(char *const *)left, *(char *const *)right);
}

int names_read(struct names *names) {
  *names = (struct names){0};
  DIR *dir = opendir(region_runtime_dir());
  if (dir == NULL)
    return -errno;
  int status = 0;
  for (struct dirent *entry; status == 0 && (entry = readdir(dir)) != NULL;)
    status = add(names, entry->d_name);
  closedir(dir);
  if (names->len > 0)
    qsort(names->name, names->len, sizeof(*names->name), by_name);
  return status;
}

void names_free(struct names *names) {
  for (size_t i = 0; i < names->len; i++)
    free(names->name[i]);
  free(names->name);
}

void names_print(void) {
  struct names names;
  struct region_label label;
  names_read(&names);
  for (size_t i = 0; i < names.len; i++)
    if (region_label_split(&label, names.name[i], strlen(names.name[i])))
      puts(names.name[i]);
  names_free(&names);
}
