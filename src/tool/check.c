/* percore check: checks whether a region follows the rules of its format. */
#include "base/array.h"
#include "json.h"
#include "region/audit.h"
#include "region/connection.h"
#include "target.h"
#include "text.h"
#include "tool.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define COMMAND "check"

/* A fault, and the number of slots, rows or cells of a table in which it
 * occurs. */
struct found {
  struct region_fault fault;
  uint64_t count;
};

enum verdict { UNCHECKED, OK, BROKEN };
static const char *const verdicts[] = {"unchecked", "ok", "broken"};

struct check {
  const char *target;
  bool is_file;
  struct region_reader *reader; /* NULL if the region was refused */
  enum verdict verdict[REGION_RULES_GROUPS];
  struct found *found;
  size_t count;
  bool out_of_memory;
};

/* ---------------------------------------------------------------------------
 * Findings
 */

static void add_fault(void *context, const struct region_fault *fault,
                      uint64_t count) {
  struct check *check = context;
  if (fault->rule == REGION_NO_RULE || /* the audit ran out of memory */
      !array_resize(&check->found, check->count + 1, sizeof(*check->found))) {
    check->out_of_memory = true;
    return;
  }
  check->found[check->count++] = (struct found){*fault, count};
  check->verdict[region_rule_group(fault->rule)] = BROKEN;
}

/* Records the fault that made the reader refuse the region. The reader first
 * checks the group "handover", then the group "header". Each of the two is ok
 * if the fault is in a later group. The reader checks the later groups in no
 * fixed order, so they are reported as unchecked. */
static void refuse(struct check *check, const struct region_fault *fault) {
  enum region_rules broken = region_rule_group(fault->rule);
  for (int g = 0; g < REGION_RULES_STRINGS && g < (int)broken; g++)
    check->verdict[g] = OK;
  add_fault(check, fault, 1);
}

static void audit(struct check *check, bool running) {
  const struct region_audit audit = {
      .report = add_fault, .context = check, .running = running};
  for (int g = 0; g < REGION_RULES_GROUPS; g++)
    check->verdict[g] = OK;
  region_audit(check->reader, &audit);
}

static enum verdict overall(const struct check *check) {
  for (int g = 0; g < REGION_RULES_GROUPS; g++)
    if (check->verdict[g] == BROKEN)
      return BROKEN;
  return OK;
}

/* ---------------------------------------------------------------------------
 * Opening
 */

/* Checks a region that a producer serves. Returns TOOL_OK if there is a result
 * to show. Otherwise prints an error message and returns TOOL_FAILURE or
 * TOOL_USAGE. */
static int check_served(struct check *check) {
  int status = target_connect(COMMAND, check->target, &check->reader);
  if (status != TOOL_OK)
    return status;
  if (region_reader_directory(check->reader) != NULL) {
    audit(check, true);
    return TOOL_OK;
  }
  const struct region_fault *fault = region_reader_fault(check->reader);
  if (fault->rule == REGION_NO_RULE)
    return target_say_why(COMMAND, check->target, check->reader);
  refuse(check, fault);
  return TOOL_OK;
}

/* Opens a regular file and returns its descriptor. On failure, returns -1 and
 * sets errno, to EINVAL if the file is not regular. Opens without blocking,
 * because opening a FIFO for reading would wait for a writer. */
static int open_file(const char *path) {
  struct stat status;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0 || (fstat(fd, &status) == 0 && S_ISREG(status.st_mode)))
    return fd;
  close(fd);
  errno = EINVAL;
  return -1;
}

/* True if fd is a memfd: it supports seals, and no directory contains its name.
 * A file in a tmpfs also supports seals, but is in a directory. */
static bool is_memfd(int fd) {
  struct stat status;
  return fcntl(fd, F_GET_SEALS) >= 0 && fstat(fd, &status) == 0 &&
         status.st_nlink == 0;
}

static int check_file(struct check *check) {
  struct region_fault fault;
  int fd = open_file(check->target);
  if (fd < 0)
    return say_failure(COMMAND, "cannot read %s: %s", check->target,
                       errno == EINVAL ? "it is neither the name of a region "
                                         "nor a regular file"
                                       : strerror(errno));
  bool memfd = is_memfd(fd), sealed = region_is_sealed(fd);
  if (region_reader_open_file(&check->reader, fd, &fault) == 0)
    audit(check, sealed);
  else if (fault.rule != REGION_NO_RULE)
    refuse(check, &fault);
  else
    return say_failure(COMMAND, "cannot read %s: %s", check->target,
                       fault.text[0] != '\0' ? fault.text
                                             : strerror(fault.error));
  check->verdict[REGION_RULES_HANDOVER] = UNCHECKED;
  if (memfd && !sealed) {
    region_breaks(&fault, REGION_RULE_SEALS,
                  "the memfd lacks one of F_SEAL_SHRINK, F_SEAL_GROW, "
                  "F_SEAL_FUTURE_WRITE and F_SEAL_SEAL");
    add_fault(check, &fault, 1);
  }
  return TOOL_OK;
}

/* ---------------------------------------------------------------------------
 * Showing
 */

static void show_fault(const struct found *found) {
  char line[REGION_FAULT_LINE];
  region_fault_text(&found->fault, line);
  printf("          %s: %s", region_rule_name(found->fault.rule), line);
  if (found->count > 1)
    printf(" (and %" PRIu64 " more)", found->count - 1);
  putchar('\n');
}

static void show_text(const struct check *check) {
  for (int g = 0; g < REGION_RULES_GROUPS; g++) {
    printf("%-9s %-9s %s\n", verdicts[check->verdict[g]],
           region_rules_name((enum region_rules)g),
           region_rules_about((enum region_rules)g));
    for (size_t i = 0; i < check->count; i++)
      if (region_rule_group(check->found[i].fault.rule) == (enum region_rules)g)
        show_fault(&check->found[i]);
  }
  if (overall(check) == BROKEN)
    printf("RULES in percore-region(7) explains each rule by its name.\n");
}

static void put_fault(struct json *json, const struct found *found) {
  const struct region_fault *fault = &found->fault;
  json_open_object(json, NULL);
  json_text(json, "rule", region_rule_name(fault->rule));
  if (fault->table[0] != '\0')
    json_text(json, "table", fault->table);
  if (fault->field[0] != '\0')
    json_text(json, "field", fault->field);
  json_text(json, "text", fault->text);
  json_unsigned(json, "count", found->count);
  json_close_object(json);
}

static void put_group(struct json *json, const struct check *check,
                      enum region_rules group) {
  json_open_object(json, NULL);
  json_text(json, "group", region_rules_name(group));
  json_text(json, "about", region_rules_about(group));
  json_text(json, "verdict", verdicts[check->verdict[group]]);
  json_open_array(json, "faults");
  for (size_t i = 0; i < check->count; i++)
    if (region_rule_group(check->found[i].fault.rule) == group)
      put_fault(json, &check->found[i]);
  json_close_array(json);
  json_close_object(json);
}

static int show_json(const struct check *check) {
  struct json *json = json_begin(stdout, "check");
  if (json == NULL)
    return say_failure(COMMAND, "%s", strerror(ENOMEM));
  json_text(json, check->is_file ? "file" : "region", check->target);
  json_bool(json, "ok", overall(check) == OK);
  json_open_array(json, "groups");
  for (int g = 0; g < REGION_RULES_GROUPS; g++)
    put_group(json, check, (enum region_rules)g);
  json_close_array(json);
  return json_end(json) == 0 ? TOOL_OK
                             : say_failure(COMMAND, "%s", strerror(ENOMEM));
}

/* ---------------------------------------------------------------------------
 * The command
 */

static int show(const struct check *check, bool as_json) {
  if (check->out_of_memory)
    return say_failure(COMMAND, "%s", strerror(ENOMEM));
  int status = TOOL_OK;
  if (as_json)
    status = show_json(check);
  else
    show_text(check);
  int written = flush_output(COMMAND);
  if (written != 0 && written != -EPIPE)
    return TOOL_FAILURE;
  return status == TOOL_OK && overall(check) == OK ? TOOL_OK : TOOL_FAILURE;
}

static int check_main(int argc, char **argv) {
  bool json = false;
  struct region_label label;
  int status = arguments_read(&check_command, argc, argv, &json);
  if (status >= 0)
    return status;
  struct check check = {.target = argv[optind]};
  stop_catch();
  check.is_file =
      !region_label_split(&label, check.target, strlen(check.target));
  status = check.is_file ? check_file(&check) : check_served(&check);
  if (status == TOOL_OK)
    status = show(&check, json);
  region_reader_close(check.reader);
  free(check.found);
  return status;
}

const struct command check_command = {
    .name = COMMAND,
    .summary = "check whether a region follows the rules of its format",
    .usage = "NAME|FILE [OPTION]...",
    .about = "Checks whether a region follows every rule of percore-region(7), "
             "and names the rules that it breaks; for authors of producers "
             "that do not use libpercore. NAME or NAME@INSTANCE is a region "
             "that is served; anything else is a file with the bytes of a "
             "region, or a memfd (/proc/PID/fd/N). Exits 0 if no rule is "
             "broken.",
    .arguments = ARGUMENTS(argument_json),
    .words_min = 1,
    .words_max = 1,
    .words_missing = TARGET_MISSING,
    .run = check_main,
};
