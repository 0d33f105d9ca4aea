/* temp_tree: a folder of real files that exists during one test. */
#ifndef PERCORE_TEMP_TREE_H
#define PERCORE_TEMP_TREE_H

struct temp_tree {
  char root[64];
};

void temp_tree_make(struct temp_tree *tree);
/* Writes a file below the root of the tree and creates its parent folders.
 * `path` begins with '/'. */
void temp_tree_write(const struct temp_tree *tree, const char *path,
                     const char *text);
void temp_tree_remove(struct temp_tree *tree);

#endif
