/* audit.h: checks whether live words follow the rules of percore-region(7), to
 * help authors of producers.
 *
 * Readers do not trust live words. If a live word breaks a rule, they neither
 * refuse the region nor report the word: they skip the row or slot, or show
 * wrong values. An audit checks every slot and row once and reports broken
 * rules.
 */
#ifndef PERCORE_REGION_AUDIT_H
#define PERCORE_REGION_AUDIT_H

#include "reader.h"

struct region_audit {
  /* Called for each table once per broken rule: `count` slots, rows or cells
   * break the rule, and `fault` describes the first of them. If the rule is
   * REGION_NO_RULE, there was too little memory to check the table's values. */
  void (*report)(void *context, const struct region_fault *fault,
                 uint64_t count);
  void *context;
  /* True: the producer may be running, so the audit waits until words in state
   * CHANGING have changed. */
  bool running;
};

void region_audit(struct region_reader *reader,
                  const struct region_audit *audit);

#endif
