#include "messages.h"

#include "text.h"
#include "tool.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* The maximum number of messages that are held back. Older messages are
 * dropped, which is rare, because cycles/ reports only changes. */
#define HELD_MAX 16
#define LINE_SIZE 512

struct messages {
  const char *command;
  bool held;
  pthread_mutex_t lock; /* protects the members below */
  /* how many lines have been written; line n is in line[n % HELD_MAX] */
  size_t lines;
  char line[HELD_MAX][LINE_SIZE];
};

struct messages *messages_open(const char *command, bool held) {
  struct messages *messages = calloc(1, sizeof(*messages));
  if (messages == NULL)
    return NULL;
  messages->command = command;
  messages->held = held;
  pthread_mutex_init(&messages->lock, NULL);
  return messages;
}

void messages_close(struct messages *messages) {
  if (messages == NULL)
    return;
  size_t first = messages->lines > HELD_MAX ? messages->lines - HELD_MAX : 0;
  for (size_t i = first; messages->held && i < messages->lines; i++)
    say_failure(messages->command, "%s", messages->line[i % HELD_MAX]);
  pthread_mutex_destroy(&messages->lock);
  free(messages);
}

static void write_message(void *context, enum journal_level level,
                          const char *line) {
  struct messages *messages = context;
  /* Notices are dropped, because they only repeat what the table shows about
   * sources. */
  if (level >= JOURNAL_NOTICE)
    return;
  if (!messages->held) {
    say_failure(messages->command, "%s", line);
    return;
  }
  pthread_mutex_lock(&messages->lock);
  text_clean_string(messages->line[messages->lines++ % HELD_MAX], LINE_SIZE,
                    line);
  pthread_mutex_unlock(&messages->lock);
}

struct journal messages_journal(struct messages *messages) {
  return (struct journal){.write = write_message, .context = messages};
}

int messages_show_last(struct messages *messages, FILE *out, int width) {
  pthread_mutex_lock(&messages->lock);
  int shown = messages->lines > 0;
  if (shown)
    fprintf(out, "%.*s\n", width,
            messages->line[(messages->lines - 1) % HELD_MAX]);
  pthread_mutex_unlock(&messages->lock);
  return shown;
}
