/* prefork: a server whose workers are processes. The parent makes the region
 * and its rows; each worker attaches, and counts the datagrams that it answers.
 * A worker that dies loses no count, and another takes its place.
 *
 *   cc prefork.c $(pkg-config --cflags --libs percore) -o prefork
 *   ./prefork PORT WORKERS     # SIGHUP: new workers; SIGTERM: end
 *   percore top prefork */
#include <percore.h>

#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ANSWERED, BYTES };
static const struct percore_field fields[] = {
    [ANSWERED] = {.name = "answered", .unit = "packets"},
    [BYTES] = {.name = "bytes", .unit = "bytes"}};
static const struct percore_table tables[] = {{.name = "size",
                                               .fields = fields,
                                               .field_count = 2,
                                               .max_rows = 2,
                                               .row_name_size = 24}};
static struct percore_region *region;
static uint32_t rows[2]; /* a child cannot add rows */

static void work(int port) {
  percore_slot_t slot = percore_attach(region, "worker", PERCORE_NO_CORE);
  percore_table_t sizes = percore_table(slot, 0);
  struct sockaddr_in from;
  char buffer[2048];
  for (;;) {
    socklen_t length = sizeof(from);
    ssize_t size = recvfrom(port, buffer, sizeof(buffer), 0,
                            (struct sockaddr *)&from, &length);
    if (size < 0)
      continue;
    percore_row_t row = percore_row(sizes, rows[size > 512]);
    percore_add(row, ANSWERED, 1);
    percore_add(row, BYTES, size);
    sendto(port, buffer, (size_t)size, 0, (struct sockaddr *)&from, length);
  }
}

static pid_t start(int port) {
  pid_t pid = fork();
  if (pid != 0)
    return pid;
  signal(SIGHUP, SIG_DFL);
  signal(SIGTERM, SIG_DFL);
  work(port);
  return 0;
}

static volatile sig_atomic_t stop, again;
static void on_stop(int number) { stop = number; }
static void on_hangup(int number) { again = number; }

static void catch (int number, void (*handler)(int)) {
  struct sigaction action = {.sa_handler = handler}; /* ends wait(2) */
  sigaction(number, &action, NULL);
}

int main(int argc, char **argv) {
  enum { MOST = 64 };
  pid_t workers[MOST];
  int count = argc == 3 ? atoi(argv[2]) : 0;
  struct percore_options options = {.inherit = 1, .extra_slots = 2 * MOST};
  struct sockaddr_in at = {.sin_family = AF_INET,
                           .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  if (count < 1 || count > MOST)
    return fprintf(stderr, "usage: %s PORT WORKERS\n", argv[0]), 2;
  at.sin_port = htons((in_port_t)atoi(argv[1]));
  int port = socket(AF_INET, SOCK_DGRAM, 0);
  if (bind(port, (struct sockaddr *)&at, sizeof(at)) != 0)
    return perror(argv[1]), 1;
  region = percore_create("prefork", tables, 1, &options);
  rows[0] = percore_row_add(region, 0, "small", 0);
  rows[1] = percore_row_add(region, 0, "large", 0);
  catch (SIGHUP, on_hangup);
  catch (SIGTERM, on_stop);
  for (int i = 0; i < count; i++)
    workers[i] = start(port);
  while (!stop) {
    pid_t ended = wait(NULL);
    for (int i = 0; i < count; i++)
      if (again)
        kill(workers[i], SIGTERM);
      else if (workers[i] == ended)
        workers[i] = start(port);
    again = 0;
  }
  for (int i = 0; i < count; i++)
    kill(workers[i], SIGTERM);
  while (wait(NULL) > 0)
    ;
  return 0;
}
