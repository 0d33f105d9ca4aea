#include "core_set.h"

#include "base/number.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

/* ---------------------------------------------------------------------------
 * Reading
 */

static const char *skip_blanks(const char *text) {
  while (isspace((unsigned char)*text))
    text++;
  return text;
}

/* Reads a decimal number, and moves *text past the number and the blanks around
 * it. A number that is too large, however long, is read as CORES_MAX. Returns
 * false if no number follows. */
static bool parse_number(const char **text, int *number) {
  uint64_t value;
  *text = skip_blanks(*text);
  if (!isdigit((unsigned char)**text))
    return false;
  bool fits = number_next(text, &value) && value < CORES_MAX;
  *number = fits ? (int)value : CORES_MAX;
  *text = skip_blanks(*text + strspn(*text, "0123456789"));
  return true;
}

/* If the next character is `mark`, moves *text past it and returns true.
 * Otherwise returns false. */
static bool parse_mark(const char **text, char mark) {
  if (**text != mark)
    return false;
  (*text)++;
  return true;
}

/* Parses one range, first[-last[:used/stride]], and adds its cores to the set.
 * Returns 0, -EINVAL or -ERANGE. */
static int parse_range(const char **text, struct core_set *set) {
  int first, last, used = 1, stride = 1;
  if (!parse_number(text, &first))
    return -EINVAL;
  bool is_range = parse_mark(text, '-');
  last = first;
  if (is_range && !parse_number(text, &last))
    return -EINVAL;
  if (is_range && parse_mark(text, ':') &&
      !(parse_number(text, &used) && parse_mark(text, '/') &&
        parse_number(text, &stride) && stride >= 1 && used <= stride))
    return -EINVAL;
  if (first >= CORES_MAX || last >= CORES_MAX)
    return -ERANGE;
  if (last < first)
    return -EINVAL;
  for (int core = first; core <= last; core++)
    if ((core - first) % stride < used)
      core_set_add(set, core);
  return 0;
}

int core_set_parse(struct core_set *set, const char *list) {
  core_set_clear(set);
  list = skip_blanks(list);
  if (*list == '\0')
    return 0;
  for (;;) {
    int status = parse_range(&list, set);
    if (status != 0)
      return status;
    if (*list == '\0')
      return 0;
    if (!parse_mark(&list, ','))
      return -EINVAL;
  }
}

/* ---------------------------------------------------------------------------
 * Writing
 */

size_t core_set_format(const struct core_set *set, char *buffer, size_t size) {
  if (size == 0)
    return 0;
  size_t length = 0;
  buffer[0] = '\0';
  for (int first = core_set_next(set, -1); first >= 0;) {
    int last = first;
    while (core_set_has(set, last + 1))
      last++;
    char range[32];
    const char *comma = length > 0 ? "," : "";
    int written =
        first == last
            ? snprintf(range, sizeof(range), "%s%d", comma, first)
            : snprintf(range, sizeof(range), "%s%d-%d", comma, first, last);
    if (length + (size_t)written >= size)
      break;
    memcpy(buffer + length, range, (size_t)written + 1);
    length += (size_t)written;
    first = core_set_next(set, last);
  }
  return length;
}

/* ---------------------------------------------------------------------------
 * Members
 */

static bool in_range(int core) { return core >= 0 && core < CORES_MAX; }

void core_set_clear(struct core_set *set) { memset(set, 0, sizeof(*set)); }

void core_set_fill(struct core_set *set) { memset(set, 0xff, sizeof(*set)); }

void core_set_add(struct core_set *set, int core) {
  if (in_range(core))
    set->word[core / 64] |= UINT64_C(1) << (core % 64);
}

bool core_set_has(const struct core_set *set, int core) {
  return in_range(core) && (set->word[core / 64] >> (core % 64) & 1);
}

bool core_set_equal(const struct core_set *a, const struct core_set *b) {
  return memcmp(a, b, sizeof(*a)) == 0;
}

int core_set_count(const struct core_set *set) {
  int count = 0;
  for (size_t i = 0; i < CORES_MAX / 64; i++)
    count += __builtin_popcountll(set->word[i]);
  return count;
}

void core_set_union(struct core_set *into, const struct core_set *from) {
  for (size_t i = 0; i < CORES_MAX / 64; i++)
    into->word[i] |= from->word[i];
}

void core_set_intersect(struct core_set *into, const struct core_set *from) {
  for (size_t i = 0; i < CORES_MAX / 64; i++)
    into->word[i] &= from->word[i];
}

void core_set_subtract(struct core_set *into, const struct core_set *from) {
  for (size_t i = 0; i < CORES_MAX / 64; i++)
    into->word[i] &= ~from->word[i];
}

int core_set_next(const struct core_set *set, int after) {
  int core = after + 1;
  if (!in_range(core))
    return -1;
  size_t i = (size_t)core / 64;
  uint64_t word = set->word[i] & (~UINT64_C(0) << (core % 64));
  while (word == 0) {
    if (++i == CORES_MAX / 64)
      return -1;
    word = set->word[i];
  }
  return (int)(i * 64) + __builtin_ctzll(word);
}
