#include "unit.h"

#include "base/core_set.h"
#include "region/layout.h"
#include "tool/tool.h"

#include <getopt.h>

static const struct command *const commands[] = {
    &load_command, &pick_command,  &regions_command, &top_command,
    &wake_command, &clock_command, &doctor_command,
};
#define COMMANDS (sizeof(commands) / sizeof(commands[0]))

struct options {
  bool flag;
  const char *text;
  double number;
  uint64_t whole;
  struct core_set cores;
};

static const char *choice(int i) {
  static const char *const names[] = {"one", "two", NULL};
  return names[i];
}

static const struct argument arguments[] = {
    ARGUMENT(struct options, flag, 'f', "flag", ARGUMENT_FLAG, NULL, "a flag"),
    ARGUMENT(struct options, text, 't', "text", ARGUMENT_TEXT, "TEXT", "a text",
             .choice = choice),
    ARGUMENT(struct options, number, 'n', "number", ARGUMENT_NUMBER, "N",
             "a number", .min = 0.5, .max = 10),
    ARGUMENT(struct options, whole, 'w', "whole", ARGUMENT_WHOLE, "N",
             "a whole number", .min = 1, .max = 1e15),
    ARGUMENT(struct options, cores, 'c', "cores", ARGUMENT_CORES, "LIST",
             "cores"),
};

static const struct command command = {.name = "test",
                                       .usage = "[OPTION]... [WORD]",
                                       .about = "About.",
                                       .arguments = ARGUMENTS(arguments),
                                       .words_max = 1};

/* Parses a command line of at most two words. Returns the status of the parser.
 */
static int status_of(const char *first, const char *second,
                     struct options *options) {
  char *argv[] = {"test", (char *)first, (char *)second, NULL};
  int argc = 1 + (first != NULL) + (second != NULL);
  *options = (struct options){0};
  optind = 0;
  return arguments_read(&command, argc, argv, options);
}

TEST(an_option_sets_its_member_and_nothing_else) {
  struct options options;
  assert_int_equal(status_of("--flag", NULL, &options), -1);
  assert_true(options.flag);
  assert_null(options.text);
  assert_int_equal(status_of("--text", "two", &options), -1);
  assert_string_equal(options.text, "two");
  assert_int_equal(status_of("-n", "0.5", &options), -1);
  assert_near(options.number, 0.5, 0);
  assert_int_equal(status_of("-w", "1000000000000000", &options), -1);
  assert_int_equal(options.whole, UINT64_C(1000000000000000));
  assert_int_equal(status_of("-c", "0-1,8", &options), -1);
  assert_int_equal(core_set_count(&options.cores), 3);
}

TEST(invalid_values_of_options_are_refused) {
  static const char *const wrong[][2] = {
      {"--text", "three"}, {"-n", "0.4"},   {"-n", "1s"},
      {"-n", "nan"},       {"-n", ""},      {"-w", "1.5"},
      {"-w", "0"},         {"-w", "-1"},    {"-c", ""},
      {"-c", "3-1"},       {"-c", "99999"}, {"--nonsense", NULL},
      {"-n", NULL},        {"one", "two"},
  };
  struct options options;
  for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
    assert_int_equal(status_of(wrong[i][0], wrong[i][1], &options), TOOL_USAGE);
}

TEST(no_command_has_two_options_with_the_same_name_or_letter) {
  for (size_t c = 0; c < COMMANDS; c++)
    for (size_t i = 0; i < commands[c]->arguments_len; i++) {
      const struct argument *one = &commands[c]->arguments[i];
      assert_null(strchr("hV", one->letter));
      assert_true((one->type == ARGUMENT_FLAG) == (one->value == NULL));
      for (size_t j = 0; j < i; j++) {
        assert_int_not_equal(one->letter, commands[c]->arguments[j].letter);
        assert_string_not_equal(one->name, commands[c]->arguments[j].name);
      }
    }
}

static bool split(struct region_title *label, const char *text) {
  return region_title_split(label, text, strlen(text));
}

TEST(labels_are_split_as_written_and_only_if_valid) {
  struct region_title label;
  assert_true(split(&label, "gtpu"));
  assert_string_equal(label.region, "gtpu");
  assert_null(region_title_instance(&label));
  assert_true(split(&label, "gtpu@east"));
  assert_string_equal(label.region, "gtpu");
  assert_string_equal(region_title_instance(&label), "east");
  static const char *const wrong[] = {"",     "@east", "gtpu@",
                                      "GTPU", "a/b",   "gtpu@e@w"};
  for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
    assert_false(split(&label, wrong[i]));
  char longest[sizeof(label.region) + 1];
  memset(longest, 'a', sizeof(longest));
  longest[sizeof(label.region)] = '\0';
  assert_false(split(&label, longest));
}
