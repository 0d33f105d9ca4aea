#include "plugin_unit.h"

struct config config;

void forget_config(void) {
  static struct config forgotten[1024];
  static size_t len;
  assert_true(len < sizeof(forgotten) / sizeof(forgotten[0]));
  forgotten[len++] = config;
  config_init(&config);
}

void plugin_unit_set_up(void) {
  fake_reset();
  config_init(&config);
}

void plugin_unit_tear_down(void) {
  forget_config();
  fake_reset();
}

int read_lines(const char *lines) {
  oconfig_item_t *block = fake_config(lines);
  int status = config_read(&config, block);
  fake_config_free(block);
  return status;
}

void assert_accepted(const char *lines) {
  if (read_lines(lines) != 0)
    fail_msg("refused: %s: %s", lines,
             fake.lines_len > 0 ? fake.lines[fake.lines_len - 1].text : "");
}

void assert_refused(const char *lines, const char *option, const char *value,
                    const char *allowed) {
  fake_reset();
  if (read_lines(lines) == 0)
    fail_msg("accepted: %s", lines);
  assert_int_equal(fake_count_logged(LOG_ERR), 1);
  const char *line = fake_logged(LOG_ERR, option);
  if (line == NULL || strstr(line, value) == NULL ||
      strstr(line, allowed) == NULL)
    fail_msg("%s: says \"%s\"", lines, fake.lines[0].text);
}
