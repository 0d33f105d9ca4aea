/* chapters: groups of tests. The kernel's command line names the chapters that
 * a guest runs. */
#ifndef TESTBED_CHAPTERS_H
#define TESTBED_CHAPTERS_H

#include <stdbool.h>

/* Chapters for arm64, where INSTRUCTIONS is an exact clock of unhalted time. */
void chapter_duty(void);
/* These two need one instruction per nanosecond. */
void chapter_tsc(void);
void chapter_time_enabled(void);
void chapter_refusal(void);
void chapter_sharing(void);
/* These three chapters need a guest with one core, because several cores would
 * share the clock INSTRUCTIONS. Without a cpuidle driver (wake_on), interrupts
 * are on in the only idle state; in the idle states of idle.dts (wake_off),
 * they are off. */
void chapter_clock(void);
void chapter_bounds(void);      /* 12 windows of each source */
void chapter_bounds_long(void); /* 204 */
void chapter_wake_on(void);
void chapter_wake_off(void);
/* These two chapters need a guest that was booted with isolcpus=1
 * nohz_full=1. */
void chapter_isolated(void);
void chapter_wake_taken(void);
void chapter_hotplug_clock(void); /* with the source "bpf" */

/* Chapters for arm64 and amd64. */
void chapter_hotplug(void);
void chapter_library(void);

/* Chapters for amd64. */
void chapter_board(void);
void chapter_region(void);
void chapter_suspend(void);
void chapter_tick(void);

/* Suspends the guest until an alarm wakes it. Returns false if the guest cannot
 * be suspended. */
bool fall_asleep(void);

#endif
