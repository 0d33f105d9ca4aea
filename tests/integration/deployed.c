/* deployed: a producer that sandboxes itself as services do. It takes these
 * steps, in the order of its arguments:
 *
 *   create              make the region `deployed`
 *   attach CORE         attach a slot for the core
 *   pin CORE            run on this core only
 *   drop UID GID        drop all supplementary groups, then set group and user
 *   fork                continue in a child, as after daemon(3)
 *   chroot DIR          make DIR the root directory
 *   filter              from now on every system call but clock_gettime, write
 *                       and exit_group ends the process
 *   count               use all update paths, and poll a round of 10^6 cycles
 *   rows                add, remove and reset rows
 *   status              print SERVED ERROR SLOTS_ATTACHED
 *   wait                print `ready` and wait for the end of stdin
 */
#include "percore_config.h"

#include <errno.h>
#include <grp.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../unit/calls.h"
#include "percore_tune.h"

enum { PORT, SESSION, TABLES };
static const struct percore_field fields[] = {
    {.name = "packets", .unit = "packets"},
    {.name = "latency",
     .unit = "ns",
     .kind = PERCORE_HISTOGRAM,
     .sub_bits = 2,
     .max_bits = 10},
};
static const struct percore_table tables[TABLES] = {
    [PORT] = {.name = "port",
              .fields = fields,
              .field_count = 2,
              .max_rows = 8,
              .row_name_size = 24},
    [SESSION] = {.name = "session",
                 .storage = PERCORE_OWNED,
                 .fields = fields,
                 .field_count = 1,
                 .max_rows = 8,
                 .flags = PERCORE_CONSISTENT},
};

static struct percore_region *region;
static percore_slot_t slot;
static uint32_t port, session;

static void must(int status, const char *what) {
  if (status == 0)
    return;
  perror(what);
  exit(1);
}

/* Ignores failures: if a region cannot be created, its updates go to memory
 * that no program reads. */
static void do_create(void) {
  create_region(&region, "deployed", tables, TABLES, NULL);
  make_row(region, PORT, "eth0", &port);
  make_row_key(region, SESSION, 1, &session);
}

static void do_pin(int core) {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  CPU_SET((size_t)core, &cpus);
  must(sched_setaffinity(0, sizeof(cpus), &cpus), "sched_setaffinity");
}

static void do_drop(uid_t uid, gid_t gid) {
  must(setgroups(0, NULL), "setgroups");
  must(setgid(gid), "setgid");
  must(setuid(uid), "setuid");
}

static void do_fork(void) {
  int status;
  pid_t child = fork();
  if (child == 0)
    return;
  waitpid(child, &status, 0);
  exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

#define ALLOW(number)                                                          \
  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),                           \
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static void do_filter(void) {
  struct sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      ALLOW(SYS_clock_gettime),
      ALLOW(SYS_write),
      ALLOW(SYS_exit_group),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
  };
  struct sock_fprog program = {.len = sizeof(filter) / sizeof(filter[0]),
                               .filter = filter};
  /* The first output makes system calls that the filter forbids, so print
   * before the filter is installed. */
  printf("filtered\n");
  fflush(stdout);
  must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "PR_SET_NO_NEW_PRIVS");
  must(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), "PR_SET_SECCOMP");
}

static void do_count(void) {
  uint32_t ports;
  percore_table_t sessions;
  uint32_t shared;
  ports = PORT;
  open_table(region, SESSION, &sessions);
  shared = PORT;
  percore_row_t row =
      percore_row(percore_table(percore_this_slot(region), ports), port);
  begin_section(slot);
  percore_add(row, 0, 1);
  percore_observe(row, 1, 7);
  end_section(slot);
  percore_row_t own = percore_row(sessions, session);
  percore_begin(own);
  percore_add(own, 0, 1);
  percore_end(own);
  percore_shared_add(percore_shared_row(region, shared, port), 0, 1);
  percore_poll(slot, 1, 0);
  for (uint64_t start = percore_tsc(); percore_tsc() - start < 1000000;)
    ;
  percore_poll(slot, 1, 0);
  percore_sleep(slot);
  percore_wake(slot);
}

static void do_rows(void) {
  uint32_t row;
  must(make_row(region, PORT, "eth1", &row), "percore_row_add");
  must(percore_reset(region, PORT, PERCORE_ALL_ROWS), "percore_reset");
  must(percore_row_remove(region, PORT, row, PERCORE_NO_UPDATE_IN_FLIGHT),
       "percore_row_remove");
}

static void do_status(void) {
  struct percore_region_status status;
  must(percore_status(region, &status), "percore_status");
  printf("%d %d %u\n", status.served, status.error, status.slots_attached);
  fflush(stdout);
}

static void do_wait(void) {
  printf("ready\n");
  fflush(stdout);
  while (getchar() != EOF)
    ;
}

int main(int argc, char **argv) {
  for (int i = 1; i < argc; i++) {
    const char *step = argv[i];
    int first = i + 1 < argc ? atoi(argv[i + 1]) : 0;
    if (strcmp(step, "create") == 0) {
      do_create();
    } else if (strcmp(step, "attach") == 0) {
      i++, attach_thread(region, "main", first, &slot);
    } else if (strcmp(step, "pin") == 0) {
      i++, do_pin(first);
    } else if (strcmp(step, "drop") == 0 && i + 2 < argc) {
      i += 2, do_drop((uid_t)first, (gid_t)atoi(argv[i]));
    } else if (strcmp(step, "fork") == 0) {
      do_fork();
    } else if (strcmp(step, "chroot") == 0 && i + 1 < argc) {
      must(chroot(argv[++i]), "chroot");
    } else if (strcmp(step, "filter") == 0) {
      do_filter();
    } else if (strcmp(step, "count") == 0) {
      do_count();
    } else if (strcmp(step, "rows") == 0) {
      do_rows();
    } else if (strcmp(step, "status") == 0) {
      do_status();
    } else if (strcmp(step, "wait") == 0) {
      do_wait();
    } else {
      return 2;
    }
  }
  fflush(stdout);
  _exit(0); /* calls exit_group, which the filter allows */
}
