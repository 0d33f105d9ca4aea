/* cores: what the guest's kernel is told to do with its cores, and what it says
 * of them. */
#ifndef TESTBED_CORES_H
#define TESTBED_CORES_H

#include <stdbool.h>
#include <stdint.h>

int cores_present(void);
bool core_can_leave(int core);
/* Takes a core away or brings it back; aborts the guest if that fails, because
 * nothing that follows would mean anything. */
void core_set_online(int core, bool online);

/* Interrupts that a core has taken since boot, of all kinds. */
uint64_t core_interrupts(int core);

/* Writes text to a file; false with a note if it cannot be. */
bool write_text(const char *path, const char *text);

#endif
