/* chapters: groups of tests. The command line of a guest names those to run. */
#ifndef TESTBED_CHAPTERS_H
#define TESTBED_CHAPTERS_H

/* Chapters for arm64, where INSTRUCTIONS is an exact clock of unhalted time. */
void chapter_duty(void);
void chapter_tsc(void); /* at one instruction per nanosecond */
void chapter_ipc(void);
void chapter_refusal(void);
void chapter_sharing(void);
/* With one core, because all cores would share the clock INSTRUCTIONS. Without
 * a cpuidle driver, interrupts are on in the only idle state; in the idle
 * states of idle.dts they are off. */
void chapter_clock(void);
void chapter_wake_on(void);
void chapter_wake_off(void);
/* Booted with isolcpus=1 and nohz_full=1. */
void chapter_isolated(void);
void chapter_wake_taken(void);
void chapter_hotplug_clock(void); /* with source bpf */

/* Chapters for arm64 and amd64. */
void chapter_hotplug(void);
void chapter_library(void);

/* Chapters for amd64. */
void chapter_suspend(void);
void chapter_tick(void);

#endif
