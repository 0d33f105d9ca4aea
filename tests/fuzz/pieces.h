/* pieces.h: divides an input into several texts (pieces), which are separated
 * by lines of "--". For fuzz targets whose parsers read several files. */
#ifndef PERCORE_FUZZ_PIECES_H
#define PERCORE_FUZZ_PIECES_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#define PIECES_MAX 64

struct pieces {
  int len;
  char *text; /* owned */
  char *piece[PIECES_MAX];
};

static inline void pieces_cut(struct pieces *pieces, const uint8_t *data,
                              size_t size) {
  pieces->len = 0;
  pieces->text = malloc(size + 1);
  memcpy(pieces->text, data, size);
  pieces->text[size] = '\0';
  for (char *at = pieces->text; at != NULL && pieces->len < PIECES_MAX;) {
    char *end = strstr(at, "--\n");
    pieces->piece[pieces->len++] = at;
    if (end != NULL) {
      *end = '\0';
      end += 3;
    }
    at = end;
  }
}

/* Returns the piece with this number, or NULL if the input has fewer pieces;
 * the file is then missing. */
static inline const char *pieces_get(const struct pieces *pieces, int number) {
  return number < pieces->len ? pieces->piece[number] : NULL;
}

/* Copies a piece into the buffer, with the parameters and results of
 * machine.read_file. Returns -ENOENT if the piece is missing. */
static inline ssize_t pieces_read(const struct pieces *pieces, int number,
                                  char *buffer, size_t size) {
  const char *text = pieces_get(pieces, number);
  if (text == NULL)
    return -ENOENT;
  size_t length = strlen(text);
  if (length >= size)
    return -EFBIG;
  memcpy(buffer, text, length + 1);
  return (ssize_t)length;
}

#endif
