/* chapters: the tests of a guest, named on its command line. */
#ifndef TESTBED_CHAPTERS_H
#define TESTBED_CHAPTERS_H

/* Chapters for arm64, where INSTRUCTIONS is an exact clock of unhalted time. */
void chapter_duty(void);
void chapter_tsc(void); /* at one instruction per nanosecond */
void chapter_ipc(void);
void chapter_refusal(void);
void chapter_sharing(void);
/* With one core, so that only that core advances the clock. */
void chapter_clock(void);
/* Chapter for arm64, also booted with isolcpus=1. */
void chapter_isolated(void);
/* Chapters for both machines. */
void chapter_hotplug(void);
void chapter_library(void);
/* Chapters for amd64. */
void chapter_suspend(void);
void chapter_tick(void);

#endif
