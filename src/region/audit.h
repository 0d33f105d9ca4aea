/* audit.h: the rules of percore-region(7) for live words, for authors of
 * producers.
 *
 * Readers believe no live word, and neither refuse nor report one that breaks a
 * rule: they skip a row or slot, or show wrong values. This looks at every slot
 * and row once and reports.
 */
#ifndef PERCORE_REGION_AUDIT_H
#define PERCORE_REGION_AUDIT_H

#include "reader.h"

struct region_audit {
  /* A rule that `count` slots, rows or cells of one table break; `fault`
   * describes the first of them. REGION_NO_RULE: there was no memory to check
   * the table's values. */
  void (*report)(void *context, const struct region_fault *fault,
                 uint64_t count);
  void *context;
  /* The producer may be running, so a word in state 1 gets time to change. */
  bool running;
};

void region_audit(struct region_reader *reader,
                  const struct region_audit *audit);

#endif
