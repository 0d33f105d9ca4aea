/* region_list: which instances exist: sockets in the runtime directory that a
 * process serves or served recently. For region_watch only. */
#ifndef PERCORE_PLUGIN_REGION_LIST_H
#define PERCORE_PLUGIN_REGION_LIST_H

#include <stdint.h>

struct region_watch;

/* Adds new instances, sorted by name. */
void region_list_look(struct region_watch *watch);

/* Frees instances that were not served for ten minutes. */
void region_list_forget(struct region_watch *watch, uint64_t now_ns);

void region_list_free(struct region_watch *watch);

#endif
