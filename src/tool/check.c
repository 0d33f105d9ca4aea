/* percore check: says whether a reader would read a region, and if not, which
 * rule of the format the region breaks. */
#include "json.h"
#include "region/directory.h"
#include "target.h"
#include "tool.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define COMMAND "check"

static void show_json(const char *target, bool is_file,
                      const struct region_fault *fault) {
  struct json *json = json_begin(stdout, COMMAND);
  json_text(json, is_file ? "file" : "region", target);
  json_bool(json, "ok", fault->error == 0);
  if (fault->error != 0) {
    json_text(json, "rule", region_rule_name(fault->rule));
    if (fault->table[0] != '\0')
      json_text(json, "table", fault->table);
    if (fault->field[0] != '\0')
      json_text(json, "field", fault->field);
    json_text(json, "text", fault->text);
  }
  json_end(json);
}

static void show_text(const struct region_fault *fault) {
  char line[REGION_FAULT_LINE];
  region_fault_text(fault, line);
  if (fault->error == 0)
    puts("ok: the region would be read");
  else
    printf("refused: %s: %s\nRULES in percore-region(7) explains each rule by "
           "its name.\n",
           region_rule_name(fault->rule), line);
}

/* Checks a region that a producer serves. Sets *fault if it is refused; its
 * error is 0 otherwise. Prints why, unless this returns TOOL_OK. */
static int check_served(const char *target, struct region_fault *fault) {
  struct region_reader *reader;
  int status = target_connect(COMMAND, target, &reader);
  if (status != TOOL_OK)
    return status;
  if (region_reader_directory(reader) == NULL) {
    *fault = *region_reader_fault(reader);
    if (fault->rule == REGION_NO_RULE)
      status = target_say_why(COMMAND, target, reader);
  }
  region_reader_close(reader);
  return status;
}

/* Opens a regular file and returns its descriptor. On failure, returns -1 and
 * sets errno, to EINVAL if the file is not regular. Opens without blocking,
 * because opening a FIFO for reading would wait for a writer. */
static int open_file(const char *path, struct stat *status) {
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0 || (fstat(fd, status) == 0 && S_ISREG(status->st_mode)))
    return fd;
  close(fd);
  errno = EINVAL;
  return -1;
}

static int check_file(const char *path, struct region_fault *fault) {
  struct region_directory directory;
  struct stat status;
  int fd = open_file(path, &status);
  if (fd < 0)
    return say_failure(COMMAND, "cannot read %s: %s", path,
                       errno == EINVAL ? "it is neither the name of a region "
                                         "nor a regular file"
                                       : strerror(errno));
  if (region_directory_read(&directory, fd, (uint64_t)status.st_size, fault) ==
      0)
    region_directory_free(&directory);
  close(fd);
  return fault->error == 0 || fault->rule != REGION_NO_RULE
             ? TOOL_OK
             : say_failure(COMMAND, "cannot read %s: %s", path,
                           strerror(fault->error));
}

static int check_main(int argc, char **argv) {
  struct region_fault fault = {.error = 0};
  struct region_title label;
  bool json = false;
  int status = arguments_read(&check_command, argc, argv, &json);
  if (status >= 0)
    return status;
  const char *target = argv[optind];
  bool is_file = !region_title_split(&label, target, strlen(target));
  stop_catch();
  status = is_file ? check_file(target, &fault) : check_served(target, &fault);
  if (status != TOOL_OK)
    return status;
  if (json)
    show_json(target, is_file, &fault);
  else
    show_text(&fault);
  int written = end_output(COMMAND);
  return fault.error == 0 ? written : TOOL_FAILURE;
}

const struct command check_command = {
    .name = COMMAND,
    .summary = "say whether a region would be read, or why not",
    .usage = "NAME|FILE [OPTION]...",
    .about = "Says whether readers would read a region, or which rule of "
             "percore-region(7) it breaks, in which table and field; for "
             "authors of producers that do not use libpercore. NAME or "
             "NAME@INSTANCE is a region in the runtime directory; anything "
             "else is a file with the bytes of a region. "
             "Exits 0 if it would be read.",
    .arguments = ARGUMENTS(argument_json),
    .words_min = 1,
    .words_max = 1,
    .words_missing = TARGET_MISSING,
    .run = check_main,
};
