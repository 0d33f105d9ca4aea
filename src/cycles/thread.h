/* thread: threads of our own, which take no signals of their host's. */
#ifndef PERCORE_THREAD_H
#define PERCORE_THREAD_H

#include <pthread.h>

/* As pthread_create, with all signals blocked. Returns 0 or -errno. */
int thread_start(pthread_t *thread, void *(*run)(void *), void *argument);

#endif
