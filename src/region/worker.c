#include "worker.h"

bool region_worker_polls(const struct region_slot_view *slot,
                         const uint64_t *cells) {
  return slot->state == REGION_LIVE && cells[REGION_CORE_POLLS] > 0;
}

uint64_t region_worker_still_ns(struct region_pulse *pulse,
                                const struct region_slot_view *slot,
                                const uint64_t *cells, uint64_t now_ns) {
  if (!region_worker_polls(slot, cells) || slot->asleep ||
      pulse->moved_ns == 0 || pulse->owner != slot->since_boottime_ns ||
      pulse->total != cells[REGION_CORE_TOTAL])
    *pulse = (struct region_pulse){.owner = slot->since_boottime_ns,
                                   .total = cells[REGION_CORE_TOTAL],
                                   .moved_ns = now_ns};
  return now_ns - pulse->moved_ns;
}
