/* file: reads small files. */
#ifndef PERCORE_BASE_FILE_H
#define PERCORE_BASE_FILE_H

#include <stdarg.h>
#include <stdio.h>

/* Reads at most size - 1 bytes of a file, whose path is formatted as by
 * printf(3), and appends a NUL. Returns the number of bytes read, which is 0 if
 * the file cannot be opened. */
__attribute__((format(printf, 3, 4))) static inline size_t
file_read(char *text, size_t size, const char *format, ...) {
  char path[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(path, sizeof(path), format, arguments);
  va_end(arguments);
  FILE *file = fopen(path, "re");
  size_t length = file != NULL ? fread(text, 1, size - 1, file) : 0;
  text[length] = '\0';
  if (file != NULL)
    fclose(file);
  return length;
}

#endif
