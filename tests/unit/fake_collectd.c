#include "fake_collectd.h"

#include <pthread.h>

#include "globals.h"
#include "utils/common/common.h"
#include "utils_complain.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static char fake_hostname[] = "host";
char *hostname_g = fake_hostname;

/* Threads of the plugin add entries while tests look at those before: they
 * never move. */
#define VALUES_MAX ((size_t)1 << 18)
#define LINES_MAX ((size_t)1 << 16)
static struct fake_value values[VALUES_MAX];
static struct fake_line lines[LINES_MAX];
static notification_t notifications[LINES_MAX];
struct fake_collectd fake = {
    .values = values, .lines = lines, .notifications = notifications};

void fake_reset(void) {
  fake.values_len = fake.lines_len = fake.notifications_len = 0;
}

/* Returns the number of the next entry. */
static size_t add(size_t *len, size_t max) {
  if (*len == max)
    abort();
  return (*len)++;
}

/* ---------------------------------------------------------------------------
 * Functions that the plugin calls
 */

/* Each thread has its own, as in collectd. */
static _Thread_local plugin_ctx_t thread_context;

plugin_ctx_t plugin_get_ctx(void) {
  return (plugin_ctx_t){.interval = fake.interval};
}

plugin_ctx_t plugin_set_ctx(plugin_ctx_t context) {
  plugin_ctx_t before = thread_context;
  thread_context = context;
  return before;
}

int plugin_dispatch_values(value_list_t const *list) {
  pthread_mutex_lock(&mutex);
  struct fake_value *value = &values[add(&fake.values_len, VALUES_MAX)];
  if (list->values_len > STATIC_ARRAY_SIZE(value->values))
    abort();
  value->list = *list;
  if (list->interval == 0)
    value->list.interval = thread_context.interval;
  memcpy(value->values, list->values,
         list->values_len * sizeof(value->values[0]));
  pthread_mutex_unlock(&mutex);
  return 0;
}

int plugin_dispatch_notification(const notification_t *notification) {
  pthread_mutex_lock(&mutex);
  notifications[add(&fake.notifications_len, LINES_MAX)] = *notification;
  pthread_mutex_unlock(&mutex);
  if (fake.notified != NULL)
    fake.notified(notification);
  return 0;
}

static void keep_line(int level, const char *format, va_list arguments) {
  pthread_mutex_lock(&mutex);
  struct fake_line *line = &lines[add(&fake.lines_len, LINES_MAX)];
  line->level = level;
  vsnprintf(line->text, sizeof(line->text), format, arguments);
  pthread_mutex_unlock(&mutex);
}

void plugin_log(int level, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  keep_line(level, format, arguments);
  va_end(arguments);
}

void c_complain_once(int level, c_complain_t *complaint, const char *format,
                     ...) {
  if (complaint->complained_once)
    return;
  complaint->complained_once = true;
  complaint->interval = 1;
  va_list arguments;
  va_start(arguments, format);
  keep_line(level, format, arguments);
  va_end(arguments);
}

void c_do_release(int level, c_complain_t *complaint, const char *format, ...) {
  *complaint = (c_complain_t)C_COMPLAIN_INIT_STATIC;
  va_list arguments;
  va_start(arguments, format);
  keep_line(level, format, arguments);
  va_end(arguments);
}

cdtime_t cdtime(void) { return fake.now; }

cdtime_t plugin_get_interval(void) { return fake.interval; }

char *sstrncpy(char *to, const char *from, size_t size) {
  snprintf(to, size, "%s", from);
  return to;
}

char *sstrerror(int number, char *text, size_t size) {
  snprintf(text, size, "%s", strerror(number));
  return text;
}

int plugin_register_complex_config(__attribute__((unused)) const char *name,
                                   int (*callback)(oconfig_item_t *)) {
  fake.config = callback;
  return 0;
}

int plugin_register_init(__attribute__((unused)) const char *name,
                         plugin_init_cb callback) {
  fake.init = callback;
  return 0;
}

int plugin_register_shutdown(__attribute__((unused)) const char *name,
                             plugin_shutdown_cb callback) {
  fake.shutdown = callback;
  return 0;
}

int plugin_register_complex_read(__attribute__((unused)) const char *group,
                                 __attribute__((unused)) const char *name,
                                 plugin_read_cb callback, cdtime_t interval,
                                 __attribute__((unused))
                                 user_data_t const *user_data) {
  fake.read_interval = interval;
  fake.read = callback;
  return 0;
}

int plugin_unregister_read(__attribute__((unused)) const char *name) {
  fake.read = NULL;
  return 0;
}

/* ---------------------------------------------------------------------------
 * Functions that tests call
 */

void fake_identifier(const struct fake_value *value, char *text, size_t size) {
  const value_list_t *list = &value->list;
  snprintf(text, size, "%s-%s/%s%s%s", list->plugin, list->plugin_instance,
           list->type, list->type_instance[0] != '\0' ? "-" : "",
           list->type_instance);
}

const struct fake_value *fake_find(const char *identifier) {
  const struct fake_value *found = NULL;
  pthread_mutex_lock(&mutex);
  for (size_t i = fake.values_len; i-- > 0 && found == NULL;) {
    char text[6 * DATA_MAX_NAME_LEN];
    fake_identifier(&values[i], text, sizeof(text));
    if (strcmp(text, identifier) == 0)
      found = &values[i];
  }
  pthread_mutex_unlock(&mutex);
  return found;
}

const char *fake_logged(int level, const char *text) {
  const char *found = NULL;
  pthread_mutex_lock(&mutex);
  for (size_t i = 0; i < fake.lines_len && found == NULL; i++)
    if (lines[i].level == level && strstr(lines[i].text, text) != NULL)
      found = lines[i].text;
  pthread_mutex_unlock(&mutex);
  return found;
}

size_t fake_count_logged(int level) {
  size_t count = 0;
  pthread_mutex_lock(&mutex);
  for (size_t i = 0; i < fake.lines_len; i++)
    count += lines[i].level == level;
  pthread_mutex_unlock(&mutex);
  return count;
}

/* ---------------------------------------------------------------------------
 * Configuration
 */

static char *copy_of(const char *text, size_t length) {
  char *copy = strndup(text, length);
  if (copy == NULL)
    abort();
  return copy;
}

static oconfig_item_t *add_child(oconfig_item_t *parent, const char *key,
                                 size_t key_length) {
  parent->children =
      realloc(parent->children,
              (size_t)(parent->children_num + 1) * sizeof(oconfig_item_t));
  if (parent->children == NULL)
    abort();
  oconfig_item_t *item = &parent->children[parent->children_num++];
  *item = (oconfig_item_t){.key = copy_of(key, key_length), .parent = parent};
  return item;
}

static void add_value(oconfig_item_t *item, oconfig_value_t value) {
  item->values = realloc(item->values, (size_t)(item->values_num + 1) *
                                           sizeof(oconfig_value_t));
  if (item->values == NULL)
    abort();
  item->values[item->values_num++] = value;
}

/* Parses one value ("text", a number, true or false) and adds it to the item.
 * Returns the rest of the line. */
static const char *read_value(oconfig_item_t *item, const char *p) {
  if (*p == '"') {
    size_t length = strcspn(p + 1, "\"");
    add_value(item, (oconfig_value_t){.type = OCONFIG_TYPE_STRING,
                                      .value.string = copy_of(p + 1, length)});
    return p + length + 2;
  }
  size_t length = strcspn(p, " \n>");
  char *end;
  double number = strtod(p, &end);
  if (end == p + length)
    add_value(item, (oconfig_value_t){.type = OCONFIG_TYPE_NUMBER,
                                      .value.number = number});
  else
    add_value(item,
              (oconfig_value_t){.type = OCONFIG_TYPE_BOOLEAN,
                                .value.boolean = strncmp(p, "true", 4) == 0});
  return p + length;
}

static const char *read_values(oconfig_item_t *item, const char *p) {
  for (;;) {
    p += strspn(p, " ");
    if (*p == '\n' || *p == '\0' || *p == '>')
      return p;
    p = read_value(item, p);
  }
}

/* Parses lines into `block` until the block ends. Returns the rest of the text.
 */
static const char *read_lines(oconfig_item_t *block, const char *p) {
  while (*(p += strspn(p, " \n")) != '\0') {
    if (strncmp(p, "</", 2) == 0)
      return p + strcspn(p, "\n");
    bool opens = *p == '<';
    p += opens;
    size_t length = strcspn(p, " \n>");
    oconfig_item_t *item = add_child(block, p, length);
    p = read_values(item, p + length);
    if (opens)
      p = read_lines(item, p + 1);
  }
  return p;
}

oconfig_item_t *fake_config(const char *lines) {
  oconfig_item_t *block = calloc(1, sizeof(*block));
  if (block == NULL)
    abort();
  block->key = copy_of("Plugin", strlen("Plugin"));
  add_value(block, (oconfig_value_t){.type = OCONFIG_TYPE_STRING,
                                     .value.string = copy_of("percore", 7)});
  read_lines(block, lines);
  return block;
}

static void free_contents(oconfig_item_t *item) {
  for (int i = 0; i < item->values_num; i++)
    if (item->values[i].type == OCONFIG_TYPE_STRING)
      free(item->values[i].value.string);
  for (int i = 0; i < item->children_num; i++)
    free_contents(&item->children[i]);
  free(item->values);
  free(item->children);
  free(item->key);
}

void fake_config_free(oconfig_item_t *item) {
  free_contents(item);
  free(item);
}
