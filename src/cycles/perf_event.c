#include "perf_event.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_MAX 512

/* ---------------------------------------------------------------------------
 * Events by name
 *
 * "cpu/event=0x3c,umask=1/" is a PMU and a list of terms. If a file in the
 * PMU's folder `format` is named like a term, the term sets a bit field of
 * perf_event_attr. If a file in the folder `events` is named like the term, the
 * term stands for the list of terms in that file. */

struct event_parser {
  struct perf_event *event;
  const struct machine *machine;
  char pmu[64];
  char *why;
};

/* True if the name can be part of a path without leaving the folder. */
static bool is_plain_name(const char *name) {
  if (*name == '\0' || *name == '.')
    return false;
  for (; *name != '\0'; name++)
    if (!isalnum((unsigned char)*name) && strchr("_-.", *name) == NULL)
      return false;
  return true;
}

static ssize_t read_pmu_file(struct event_parser *parser, const char *folder,
                             const char *name, char text[TEXT_MAX]) {
  ssize_t got = machine_read(parser->machine, text, TEXT_MAX,
                             PMU_FOLDER "/%s/%s%s", parser->pmu, folder, name);
  if (got > 0)
    text[strcspn(text, "\n")] = '\0';
  return got;
}

static int parse_u64(const char *text, int base, uint64_t *value) {
  char *end;
  if (!isxdigit((unsigned char)*text))
    return -EINVAL;
  errno = 0;
  *value = strtoull(text, &end, base);
  return errno == 0 && *end == '\0' ? 0 : -EINVAL;
}

/* Returns the member of *event whose name is the first `length` bytes of
 * `name`, or NULL if no member has that name. */
static uint64_t *config_word(struct perf_event *event, const char *name,
                             size_t length) {
  static const char *const names[] = {"config", "config1", "config2"};
  uint64_t *const words[] = {&event->config, &event->config1, &event->config2};
  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
    if (strlen(names[i]) == length && memcmp(names[i], name, length) == 0)
      return words[i];
  return NULL;
}

/* Distributes the bits of `value` over the bits that `format` lists, such as
 * "config:0-7,32-35", lowest first. Its set would take stack from the calls
 * that read files. */
static __attribute__((noinline)) int
set_bits(struct perf_event *event, const char *format, uint64_t value) {
  size_t length = strcspn(format, ":");
  uint64_t *word = config_word(event, format, length);
  struct core_set bits; /* bit lists have the same syntax as core lists */
  if (word == NULL || format[length] != ':' ||
      core_set_parse(&bits, format + length + 1) != 0 ||
      core_set_next(&bits, 63) >= 0 || core_set_next(&bits, -1) < 0)
    return -EINVAL;
  core_set_for_each(bit, &bits) {
    *word &= ~(UINT64_C(1) << bit);
    *word |= (value & 1) << bit;
    value >>= 1;
  }
  return value == 0 ? 0 : -ERANGE;
}

static int parse_terms(struct event_parser *parser, char *terms, bool nested);

static int parse_term(struct event_parser *parser, char *term, bool nested) {
  char text[TEXT_MAX];
  char *number = strchr(term, '=');
  uint64_t value = 1;
  if (number != NULL) {
    *number++ = '\0';
    if (parse_u64(number, 0, &value) != 0)
      return why_fails(parser->why, -EINVAL, "%s/%s= needs a number, not '%s'",
                       parser->pmu, term, number);
  }
  if (!is_plain_name(term))
    return why_fails(parser->why, -EINVAL, "'%s' is not the name of an event",
                     term);
  if (number == NULL && !nested &&
      read_pmu_file(parser, "events/", term, text) > 0)
    return parse_terms(parser, text, true);
  if (read_pmu_file(parser, "format/", term, text) > 0) {
    int status = set_bits(parser->event, text, value);
    return status == 0
               ? 0
               : why_fails(parser->why, status,
                           "%s/%s=%#llx/ does not fit in %s", parser->pmu, term,
                           (unsigned long long)value, text);
  }
  uint64_t *word = config_word(parser->event, term, strlen(term));
  if (number != NULL && word != NULL) {
    *word = value;
    return 0;
  }
  return why_fails(parser->why, -ENOENT, "the PMU %s has no event or term %s",
                   parser->pmu, term);
}

static int parse_terms(struct event_parser *parser, char *terms, bool nested) {
  char *rest = terms;
  for (char *term; (term = strsep(&rest, ",")) != NULL;) {
    int status = parse_term(parser, term, nested);
    if (status != 0)
      return status;
  }
  return 0;
}

static int parse_pmu_event(struct event_parser *parser, const char *text,
                           const char *slash) {
  char terms[TEXT_MAX];
  size_t pmu_length = (size_t)(slash - text);
  size_t terms_length = strlen(slash + 1);
  if (pmu_length >= sizeof(parser->pmu) || terms_length >= sizeof(terms))
    return why_fails(parser->why, -EINVAL,
                     "'%.64s...' is too long for an event", text);
  memcpy(parser->pmu, text, pmu_length); /* the rest of it is 0 */
  memcpy(terms, slash + 1, terms_length + 1);
  if (terms_length > 0 && terms[terms_length - 1] == '/')
    terms[terms_length - 1] = '\0';
  if (!is_plain_name(parser->pmu) || terms[0] == '\0' || strchr(terms, '/'))
    return why_fails(parser->why, -EINVAL, "'%s' is not of the form pmu/event/",
                     text);
  char type[TEXT_MAX];
  uint64_t number;
  if (read_pmu_file(parser, "", "type", type) <= 0)
    return why_fails(parser->why, -ENOENT,
                     "this machine has no PMU %s (see " PMU_FOLDER ")",
                     parser->pmu);
  if (parse_u64(type, 10, &number) != 0 || number > UINT32_MAX)
    return why_fails(parser->why, -EINVAL, "the PMU %s has no valid type",
                     parser->pmu);
  parser->event->type = (uint32_t)number;
  return parse_terms(parser, terms, false);
}

int perf_event_parse(struct perf_event *event, const char *text,
                     const struct machine *machine, char why[WHY_SIZE]) {
  struct event_parser parser = {.event = event, .machine = machine, .why = why};
  *event = (struct perf_event){0};
  const char *slash = strchr(text, '/');
  if (slash != NULL)
    return parse_pmu_event(&parser, text, slash);
  event->type = PERF_TYPE_RAW;
  if (*text == 'r' && parse_u64(text + 1, 16, &event->config) == 0)
    return 0;
  if (strncmp(text, "0x", 2) == 0 && parse_u64(text, 16, &event->config) == 0)
    return 0;
  return why_fails(
      why, -EINVAL,
      "'%s' is not an event: write pmu/event/ as perf list shows it, "
      "or a raw number such as r1a8",
      text);
}

/* ---------------------------------------------------------------------------
 * Groups
 */

int perf_group_open(struct perf_group *group, const struct machine *machine,
                    int core, const struct perf_event *events, int events_len,
                    bool pinned) {
  *group = (struct perf_group){.machine = machine, .pinned = pinned};
  for (int i = 0; i < events_len; i++) {
    struct perf_event_attr attr = {
        .size = sizeof(attr),
        .type = events[i].type,
        .config = events[i].config,
        .config1 = events[i].config1,
        .config2 = events[i].config2,
        .read_format = PERF_FORMAT_GROUP | PERF_FORMAT_TOTAL_TIME_ENABLED |
                       PERF_FORMAT_TOTAL_TIME_RUNNING,
        .pinned = pinned && i == 0, /* only a leader may be pinned */
        .exclude_guest = events[i].exclude_guest,
    };
    int fd = machine->perf_open(machine->context, &attr, core,
                                i == 0 ? -1 : group->fd[0]);
    if (fd < 0) {
      perf_group_close(group);
      return fd;
    }
    group->fd[group->events_len++] = fd;
  }
  return 0;
}

void perf_explain(char *text, size_t size, int status) {
  const char *remedy = "";
  if (status == -EACCES || status == -EPERM)
    remedy = " (grant CAP_PERFMON, or lower kernel.perf_event_paranoid)";
  else if (status == -ENOENT)
    remedy = " (this processor, or the hypervisor, does not offer it)";
  else if (status == -EOPNOTSUPP)
    remedy =
        " (this machine does not offer it, or not while a guest uses the PMU)";
  else if (status == -ENODEV)
    remedy = " (the core is offline)";
  else if (status == -EMFILE)
    remedy = " (raise the limit on open files, LimitNOFILE= under systemd)";
  snprintf(text, size, "it cannot be opened: %s%s", strerror(-status), remedy);
}

void perf_group_close(struct perf_group *group) {
  while (group->events_len > 0)
    group->machine->perf_close(group->machine->context,
                               group->fd[--group->events_len]);
}

int perf_group_read(const struct perf_group *group,
                    struct perf_reading *reading) {
  const struct machine *machine = group->machine;
  size_t events_len = (size_t)group->events_len;
  size_t size = sizeof(*reading) -
                (PERF_GROUP_EVENTS_MAX - events_len) * sizeof(uint64_t);
  ssize_t length = machine->perf_read(machine->context, group->fd[0], reading,
                                      sizeof(*reading));
  if (length < 0)
    return (int)length;
  if (length == 0)
    return -EBUSY; /* end of file: a pinned group that lost its counters */
  bool complete = (size_t)length == size && reading->events_len == events_len;
  return complete ? 0 : -ESTALE;
}
