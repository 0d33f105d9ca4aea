#include "temp_tree.h"

#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void give_up(const char *what) {
  perror(what);
  abort();
}

void temp_tree_make(struct temp_tree *tree) {
  snprintf(tree->root, sizeof tree->root, "/tmp/percore-unit-XXXXXX");
  if (mkdtemp(tree->root) == NULL)
    give_up(tree->root);
}

void temp_tree_write(const struct temp_tree *tree, const char *path,
                     const char *text) {
  char full[PATH_MAX];
  snprintf(full, sizeof full, "%s%s", tree->root, path);
  for (char *slash = full + strlen(tree->root) + 1;
       (slash = strchr(slash, '/')) != NULL; slash++) {
    *slash = 0;
    if (mkdir(full, 0700) != 0 && errno != EEXIST)
      give_up(full);
    *slash = '/';
  }
  FILE *file = fopen(full, "w");
  if (file == NULL || fputs(text, file) < 0 || fclose(file) != 0)
    give_up(full);
}

static int remove_one(const char *path, const struct stat *status, int type,
                      struct FTW *where) {
  (void)status;
  (void)type;
  (void)where;
  return remove(path);
}

void temp_tree_remove(struct temp_tree *tree) {
  if (nftw(tree->root, remove_one, 16, FTW_DEPTH | FTW_PHYS) != 0)
    give_up(tree->root);
}
