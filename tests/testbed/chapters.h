/* chapters: the tests of a guest, named on its command line. */
#ifndef TESTBED_CHAPTERS_H
#define TESTBED_CHAPTERS_H

/* Chapters for arm64, where INSTRUCTIONS is an exact clock of unhalted time. */
void chapter_duty(void);
void chapter_tsc(void); /* at one instruction per nanosecond */
void chapter_ipc(void);
void chapter_refusal(void);
void chapter_sharing(void);
void chapter_clock(void); /* with one core, so that it is its clock alone */
/* arm64 with one core: interrupts are on in its only idle state */
void chapter_wake_on(void);
/* and off in those of cpuidle, see idle.dts */
void chapter_wake_off(void);
/* arm64, also booted with isolcpus=1 */
void chapter_isolated(void);
void chapter_wake_taken(void);
void chapter_hotplug_clock(void); /* with source bpf */
/* either */
void chapter_hotplug(void);
void chapter_library(void);
/* Chapters for amd64. */
void chapter_suspend(void);
void chapter_tick(void);

#endif
