/* cores: sets the guest's cores online and offline, and reads their interrupts.
 */
#ifndef TESTBED_CORES_H
#define TESTBED_CORES_H

#include <stdbool.h>
#include <stdint.h>

int cores_present(void);
bool core_can_leave(int core);
/* Sets a core online or offline. If that fails, aborts the guest, because the
 * remaining tests would be meaningless. */
void core_set_online(int core, bool online);

/* Returns how many interrupts a core has handled since boot. */
uint64_t core_interrupts(int core);

/* Writes text to a file. If that fails, prints a note and returns false. */
bool write_text(const char *path, const char *text);

#endif
