/* server: loads module.so, and reloads it on SIGHUP while its threads go on.
 *
 *   cc server.c -o server -ldl -pthread
 *   ./server ./module.so 4      # 4 threads; SIGHUP: reload; SIGTERM: end
 *   percore top module */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct module {
  void *handle, *data;
  void (*count)(void *data, unsigned bytes);
};
static struct module loaded;
static pthread_rwlock_t reloading = PTHREAD_RWLOCK_INITIALIZER;
static atomic_ulong requests;
static atomic_int stop;

static int load(const char *path) {
  struct module next = {.handle = dlopen(path, RTLD_NOW | RTLD_LOCAL)};
  void *(*begin)(void *) = NULL;
  if (next.handle != NULL) {
    *(void **)&begin = dlsym(next.handle, "module_load");
    *(void **)&next.count = dlsym(next.handle, "module_count");
  }
  if (begin == NULL || next.count == NULL)
    return fprintf(stderr, "%s\n", dlerror()), 1;
  next.data = begin(loaded.data);
  pthread_rwlock_wrlock(&reloading);
  void *before = loaded.handle;
  loaded = next;
  pthread_rwlock_unlock(&reloading);
  if (before != NULL)
    dlclose(before);
  return 0;
}

static void *serve(void *argument) {
  while (!stop) {
    pthread_rwlock_rdlock(&reloading);
    loaded.count(loaded.data, 100);
    pthread_rwlock_unlock(&reloading);
    requests++;
    usleep(1000);
  }
  return argument;
}

int main(int argc, char **argv) {
  enum { MOST = 64 };
  pthread_t threads[MOST];
  int count = argc == 3 ? atoi(argv[2]) : 0, number;
  sigset_t set;
  if (count < 1 || count > MOST)
    return fprintf(stderr, "usage: %s MODULE THREADS\n", argv[0]), 2;
  sigemptyset(&set);
  sigaddset(&set, SIGHUP);
  sigaddset(&set, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  if (load(argv[1]) != 0)
    return 1;
  for (int i = 0; i < count; i++)
    pthread_create(&threads[i], NULL, serve, NULL);
  while (sigwait(&set, &number) == 0 && number == SIGHUP)
    load(argv[1]);
  stop = 1;
  for (int i = 0; i < count; i++)
    pthread_join(threads[i], NULL);
  printf("requests %lu\n", (unsigned long)requests);
  return 0;
}
