#include "names.h"

#include "base/array.h"
#include "region/reader.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool label_split(struct label *label, const char *text) {
  size_t length = strlen(text);
  if (length >= sizeof(label->region))
    return false;
  memcpy(label->region, text, length + 1);
  label->instance = strchr(label->region, '@');
  if (label->instance != NULL)
    *label->instance++ = '\0';
  return region_name_is_valid(label->region, false) &&
         (label->instance == NULL || region_instance_is_valid(label->instance));
}

static int add(struct names *names, const char *file) {
  static const char suffix[] = ".sock";
  size_t length = strlen(file), suffix_length = strlen(suffix);
  if (length <= suffix_length ||
      strcmp(file + length - suffix_length, suffix) != 0)
    return 0;
  length -= suffix_length;
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
  struct label label;
  names_read(&names);
  for (size_t i = 0; i < names.len; i++)
    if (label_split(&label, names.name[i]))
      puts(names.name[i]);
  names_free(&names);
}
