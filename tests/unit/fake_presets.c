/* Ready-made parts of a fake machine, and the journal of tests. */
#include "fake_machine.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void fake_machine_load(struct fake_machine *fake, double load) {
  for (int i = 0; i < fake->cores_len; i++)
    fake->cores[i].load = load;
}

void fake_machine_msr(struct fake_machine *fake, double tsc_hz, bool mperf) {
#define MSR "/sys/bus/event_source/devices/msr"
  fake_machine_file(fake, MSR "/type", "14\n");
  fake_machine_file(fake, MSR "/format/event", "config:0-63\n");
  fake_machine_file(fake, MSR "/events/tsc", "event=0x00\n");
  fake_machine_counter(fake, FAKE_MSR_TYPE, FAKE_MSR_TSC, FAKE_PER_WALL,
                       tsc_hz);
  if (!mperf)
    return;
  fake_machine_file(fake, MSR "/events/aperf", "event=0x01\n");
  fake_machine_file(fake, MSR "/events/mperf", "event=0x02\n");
  fake_machine_counter(fake, FAKE_MSR_TYPE, FAKE_MSR_APERF, FAKE_PER_UNHALTED,
                       tsc_hz * 1.25);
  fake_machine_counter(fake, FAKE_MSR_TYPE, FAKE_MSR_MPERF, FAKE_PER_UNHALTED,
                       tsc_hz);
#undef MSR
}

void fake_machine_ref_cycles(struct fake_machine *fake, double hz) {
  fake_machine_counter(fake, PERF_TYPE_HARDWARE, PERF_COUNT_HW_REF_CPU_CYCLES,
                       FAKE_PER_UNHALTED, hz);
}

void fake_machine_btf(struct fake_machine *fake, const char *members) {
  /* Magic, version, flags, header_len, types (offset 0, 0 bytes), strings. */
  uint32_t header[6] = {0x0001eb9f, sizeof header, 0, 0, 0, 0};
  char btf[1024] = {0};
  size_t length = strlen(members) + 2; /* strings begin with the empty string */
  header[5] = (uint32_t)length;
  memcpy(btf, header, sizeof header);
  char *strings = btf + sizeof header;
  snprintf(strings + 1, sizeof btf - sizeof header - 1, "%s", members);
  for (char *p = strings + 1; *p != 0; p++)
    if (*p == ' ')
      *p = 0;
  fake_machine_bytes(fake, "/sys/kernel/btf/vmlinux", btf,
                     sizeof header + length);
}

static void write_cpuinfo(struct fake_machine *fake, const char *more) {
  char text[512];
  snprintf(text, sizeof text,
           "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: "
           "Memory Lane\nflags\t\t: fpu tsc msr aperfmperf constant_tsc "
           "nonstop_tsc%s%s\n\n",
           *more != 0 ? " " : "", more);
  fake_machine_file(fake, "/proc/cpuinfo", text);
}

void fake_machine_hypervisor(struct fake_machine *fake) {
  write_cpuinfo(fake, "hypervisor");
}

void fake_machine_plain_server(struct fake_machine *fake) {
  int cores = fake->cores_len;
  char list[32], text[64];
  snprintf(list, sizeof list, cores > 1 ? "0-%d\n" : "%d\n", cores - 1);
  fake_machine_file(fake, CPU_FOLDER "/possible", list);
  fake_machine_file(fake, CPU_FOLDER "/present", list);
  fake_machine_file(fake, CPU_FOLDER "/isolated", "\n");
  fake_machine_file(fake, CPU_FOLDER "/nohz_full", "  (null)\n");
  fake_machine_file(fake, "/sys/devices/system/node/online", "0\n");
  fake_machine_file(fake, "/sys/devices/system/node/possible", "0\n");
  fake_machine_file(fake, "/sys/devices/system/node/node0/cpulist", list);
  fake_machine_file(
      fake, "/sys/devices/system/clocksource/clocksource0/current_clocksource",
      "tsc\n");
  for (int i = 0; i < cores; i++) {
    snprintf(text, sizeof text, "%d\n", i);
    fake_machine_filef(fake, text, CPU_FOLDER "/cpu%d/topology/core_id", i);
    fake_machine_filef(fake, text,
                       CPU_FOLDER "/cpu%d/topology/thread_siblings_list", i);
    fake_machine_filef(fake, text, CPU_FOLDER "/cpu%d/topology/core_cpus_list",
                       i);
  }
  write_cpuinfo(fake, "");
}

/* ---------------------------------------------------------------------------
 * Journal
 */

static void remember(void *context, enum journal_level level,
                     const char *line) {
  struct fake_journal *journal = context;
  if (journal->lines_len == sizeof journal->line / sizeof journal->line[0])
    abort(); /* too many lines for an operator to read */
  journal->line[journal->lines_len].level = level;
  snprintf(journal->line[journal->lines_len].text, sizeof journal->line[0].text,
           "%s", line);
  journal->lines_len++;
}

void fake_journal_open(struct fake_journal *journal) {
  memset(journal, 0, sizeof *journal);
  journal->journal = (struct journal){.write = remember, .context = journal};
}

int fake_journal_count(const struct fake_journal *journal, ...) {
  int count = 0;
  for (size_t i = 0; i < journal->lines_len; i++) {
    bool all = true;
    va_list words;
    va_start(words, journal);
    for (const char *word; (word = va_arg(words, const char *)) != NULL;)
      all = all && strstr(journal->line[i].text, word) != NULL;
    va_end(words);
    count += all;
  }
  return count;
}
