#include "fields.h"

#include "base/array.h"
#include "base/utf8.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 8
/* Longer arrays are skipped, because they probably do not hold counters. */
#define ELEMENTS_MAX 256
#define BUCKETS_MAX 64
#define STEPS_MAX 65536

struct walk {
  const struct btf_types *types;
  uint32_t value_size;
  struct map_fields *fields; /* room for MAP_FIELDS_MAX */
  bool full;
  int steps; /* parts of the type visited so far; STEPS_MAX limits the cost of
                nested arrays */
};

/* A part of the value's type, such as a member or an array element: its name,
 * its offset in the value, and its tags. */
struct place {
  char name[MAP_NAME_SIZE];
  uint32_t offset;
  int depth;
  const char *gauge, *counter, *help;
  bool is_log2;             /* element i counts values from 2^i to 2^(i+1) */
  uint32_t bucket, buckets; /* of a histogram; otherwise 0 */
};

bool map_clean_name(char *name, size_t size, const char *text,
                    bool underscores) {
  size_t length = 0;
  while (*text != '\0' && !isalpha((unsigned char)*text))
    text++;
  for (; *text != '\0' && length + 1 < size; text++)
    if (isalnum((unsigned char)*text))
      name[length++] = (char)tolower((unsigned char)*text);
    else if (underscores)
      name[length++] = '_';
  name[length] = '\0';
  return length > 0;
}

uint64_t map_integer(const void *at, uint32_t size, bool is_signed) {
  uint64_t value = 0;
  uint32_t unused = 64 - 8 * size;
  if (size == 0 || size > sizeof(value))
    return 0;
  if (size == sizeof(value)) { /* the usual size, without a call of memcpy */
    memcpy(&value, at, sizeof(value));
    return value;
  }
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
  memcpy((char *)&value + sizeof(value) - size, at, size);
#else
  memcpy(&value, at, size);
#endif
  return is_signed ? (uint64_t)((int64_t)(value << unused) >> unused) : value;
}

uint64_t map_field_value(const struct map_field *field, const void *value) {
  return map_integer((const char *)value + field->offset, field->size,
                     field->is_signed);
}

/* ---------------------------------------------------------------------------
 * The walk
 */

static void take(struct walk *walk, const struct place *place,
                 const struct btf_type *type) {
  bool is_integer = btf_kind(type) == BTF_KIND_INT;
  bool is_signed = is_integer ? btf_encoding(type) & BTF_INT_SIGNED
                              : BTF_INFO_KFLAG(type->info);
  bool is_number = is_integer && (btf_encoding(type) & BTF_INT_BOOL) == 0;
  uint32_t size = type->size;
  if ((size != 1 && size != 2 && size != 4 && size != 8) ||
      size > walk->value_size || place->offset > walk->value_size - size)
    return;
  if (walk->fields->len == MAP_FIELDS_MAX) {
    walk->full = true;
    return;
  }
  struct map_field *field = &walk->fields->list[walk->fields->len];
  *field = (struct map_field){
      .offset = place->offset,
      .size = (uint8_t)size,
      .is_signed = is_signed,
      .bucket = (uint8_t)place->bucket,
      .buckets = (uint8_t)place->buckets,
      .is_gauge = place->bucket == 0 &&
                  (place->gauge != NULL ||
                   (place->counter == NULL && (is_signed || !is_number))),
      .is_tagged =
          place->gauge != NULL || place->counter != NULL || place->help != NULL,
  };
  const char *name = place->name[0] != '\0' ? place->name : "value";
  if (place->help != NULL)
    utf8_clean(field->help, sizeof(field->help), place->help,
               strlen(place->help), "_", "");
  if (map_clean_name(field->name, sizeof(field->name), name, true))
    walk->fields->len++;
}

static void walk_type(struct walk *walk, uint32_t id,
                      const struct place *place);

/* True for the member `slots` of a struct `hist`, as the tools of BCC declare a
 * histogram. */
static bool is_slots_of_hist(const struct btf *btf, uint32_t type,
                             const char *member) {
  return strcmp(member, "slots") == 0 &&
         strcmp(btf_name(btf, btf_type(btf, type)->name_off), "hist") == 0;
}

/* Walks a member, an array element or a variable. It inherits the tags of
 * `outer`. If tag_id is not 0, the tags of member tag_member of the type tag_id
 * (-1: of the type itself) take precedence. */
static void walk_into(struct walk *walk, const struct place *outer,
                      uint32_t type, const char *name, uint64_t offset,
                      uint32_t tag_id, int tag_member) {
  struct place place = *outer;
  if (place.depth++ == DEPTH_MAX || offset > walk->value_size ||
      walk->steps++ >= STEPS_MAX)
    return;
  place.offset = outer->offset + (uint32_t)offset;
  bool joined = outer->name[0] != '\0' && name[0] != '\0';
  int length = snprintf(place.name, sizeof(place.name), "%s%s%s", outer->name,
                        joined ? "_" : "", name);
  if (length >= (int)sizeof(place.name))
    return;
  if (tag_id != 0) {
    const char *gauge = btf_tag(walk->types, tag_id, tag_member, "gauge");
    const char *counter = btf_tag(walk->types, tag_id, tag_member, "counter");
    const char *help = btf_tag(walk->types, tag_id, tag_member, "help=");
    place.gauge = gauge != NULL ? gauge : place.gauge;
    place.counter = counter != NULL ? counter : place.counter;
    place.help = help != NULL ? help : place.help;
    place.is_log2 = btf_tag(walk->types, tag_id, tag_member, "log2") != NULL ||
                    is_slots_of_hist(walk->types->btf, tag_id, name);
  }
  walk_type(walk, type, &place);
}

/* Locks are objects of the kernel; the members of all others begin with '_'. */
static bool is_lock(const char *name) {
  return strcmp(name, "bpf_spin_lock") == 0 ||
         strcmp(name, "bpf_res_spin_lock") == 0;
}

/* Walks the members of a struct. Of a union, walks only the first member,
 * because all members share their memory. */
static void walk_struct(struct walk *walk, uint32_t id,
                        const struct btf_type *type,
                        const struct place *place) {
  if (is_lock(btf_name(walk->types->btf, type->name_off)))
    return;
  uint32_t len = btf_count(type);
  if (btf_kind(type) == BTF_KIND_UNION && len > 1)
    len = 1;
  for (uint32_t i = 0; i < len; i++) {
    struct btf_part member;
    if (btf_find_member(&member, walk->types->btf, type, i) && member.bits == 0)
      walk_into(walk, place, member.type, member.name, member.bit / 8, id,
                (int)i);
  }
}

static bool is_histogram(const struct btf *btf, const struct place *place,
                         const struct btf_array *array) {
  uint32_t id = array->type;
  const struct btf_type *type = btf_resolve(btf, &id);
  return place->is_log2 && array->nelems <= BUCKETS_MAX && type != NULL &&
         btf_kind(type) == BTF_KIND_INT && type->size <= 8 &&
         btf_encoding(type) == 0;
}

static void walk_array(struct walk *walk, const struct btf_type *type,
                       const struct place *place) {
  const struct btf_array *array = btf_tail(type);
  long size = btf_size(walk->types->btf, array->type);
  /* Arrays of bytes are skipped, because they hold text or data. */
  if (size <= 1 || array->nelems > ELEMENTS_MAX)
    return;
  struct place element = *place;
  for (uint32_t i = 0; i < array->nelems; i++) {
    char index[16] = "";
    if (is_histogram(walk->types->btf, place, array)) {
      element.bucket = i + 1;
      element.buckets = array->nelems;
    } else {
      snprintf(index, sizeof(index), "%u", i);
    }
    walk_into(walk, &element, array->type, index, (uint64_t)i * (uint64_t)size,
              0, 0);
  }
}

/* Walks a section of a program's global variables, such as .bss or .data. */
static void walk_section(struct walk *walk, const struct btf_type *type,
                         const struct place *place) {
  const struct btf_var_secinfo *variables = btf_tail(type);
  for (uint32_t i = 0; i < btf_count(type); i++) {
    const struct btf_type *variable =
        btf_type(walk->types->btf, variables[i].type);
    if (variable != NULL && btf_kind(variable) == BTF_KIND_VAR)
      walk_into(walk, place, variable->type,
                btf_name(walk->types->btf, variable->name_off),
                variables[i].offset, variables[i].type, -1);
  }
}

static void walk_type(struct walk *walk, uint32_t id,
                      const struct place *place) {
  if (btf_is_network_order(walk->types->btf, id))
    return; /* an address, a port or an identifier: no program counts in it */
  const struct btf_type *type = btf_resolve(walk->types->btf, &id);
  if (type == NULL)
    return;
  switch (btf_kind(type)) {
  case BTF_KIND_INT:
  case BTF_KIND_ENUM:
  case BTF_KIND_ENUM64:
    take(walk, place, type);
    break;
  case BTF_KIND_STRUCT:
  case BTF_KIND_UNION:
    walk_struct(walk, id, type, place);
    break;
  case BTF_KIND_ARRAY:
    walk_array(walk, type, place);
    break;
  case BTF_KIND_DATASEC:
    walk_section(walk, type, place);
    break;
  default:
    break;
  }
}

/* ---------------------------------------------------------------------------
 * All fields of a map
 */

/* Puts histograms after all other fields, as a region requires. */
static void put_histograms_last(struct map_fields *fields) {
  struct map_field buckets[MAP_FIELDS_MAX];
  size_t kept = 0, buckets_len = 0;
  for (size_t i = 0; i < fields->len; i++)
    if (fields->list[i].bucket > 0)
      buckets[buckets_len++] = fields->list[i];
    else
      fields->list[kept++] = fields->list[i];
  memcpy(&fields->list[kept], buckets, buckets_len * sizeof(buckets[0]));
}

/* Drops all fields whose names are not unique, and writes a warning to `why` if
 * there are any. All buckets of a histogram have its name. */
static void drop_equal_names(struct map_fields *fields, char why[WHY_SIZE]) {
  bool equal[MAP_FIELDS_MAX] = {false};
  const struct map_field *list = fields->list;
  for (size_t i = 0; i < fields->len; i++)
    for (size_t j = 0; j < fields->len; j++)
      equal[i] |= strcmp(list[i].name, list[j].name) == 0 && i != j &&
                  (list[i].bucket == list[j].bucket || list[i].bucket == 0 ||
                   list[j].bucket == 0);
  size_t kept = 0;
  for (size_t i = 0; i < fields->len; i++)
    if (!equal[i])
      fields->list[kept++] = fields->list[i];
    else
      snprintf(why, WHY_SIZE,
               "several fields would be called %s; none of them is read",
               fields->list[i].name);
  fields->len = kept;
}

int map_fields_read(struct map_fields *fields, const struct btf_types *types,
                    const struct bpf_map_info *info, char why[WHY_SIZE]) {
  why[0] = '\0';
  *fields = (struct map_fields){
      .list = calloc(MAP_FIELDS_MAX, sizeof(*fields->list))};
  if (fields->list == NULL)
    return why_fails(why, -ENOMEM, "out of memory");
  struct walk walk = {
      .types = types, .value_size = info->value_size, .fields = fields};
  walk_type(&walk, types->value, &(struct place){.depth = 0});
  if (walk.full)
    snprintf(why, WHY_SIZE, "only its first %d fields are read",
             MAP_FIELDS_MAX);
  put_histograms_last(fields);
  drop_equal_names(fields, why);
  if (fields->len > 0) {
    array_resize(&fields->list, fields->len, sizeof(*fields->list));
    return 0;
  }
  return why_fails(why, -ENOENT,
                   "its values have no integer member with a name, and no "
                   "array of at most %d integers; name what to read with "
                   "FieldAt",
                   ELEMENTS_MAX);
}

void map_fields_free(struct map_fields *fields) {
  free(fields->list);
  *fields = (struct map_fields){0};
}
