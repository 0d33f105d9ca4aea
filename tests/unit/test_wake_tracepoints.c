/* Tests how streams of perf records become datapoints. */
#include "wake/tracepoints.h"

#include "unit.h"

#include <stdio.h>
#include <string.h>

#define DATA_OFFSET 4096
#define DATA_SIZE 2048 /* small, so that the streams wrap around */
#define THREAD 77
#define TIMER 0xffff0000feed
#define OTHER 0xffff0000beef

static union {
  struct perf_event_mmap_page page;
  unsigned char bytes[DATA_OFFSET + DATA_SIZE];
} ring;
static struct wake_tracepoints tracepoints;
static struct wake_probe probe;

/* The format files of Linux 6.18, reduced to what percore reads. */
static const char *const formats[WAKE_TRACEPOINTS] = {
    [WAKE_ON_IDLE] =
        "name: cpu_idle\nID: 568\nformat:\n"
        "\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n"
        "\tfield:u32 state;\toffset:8;\tsize:4;\tsigned:0;\n"
        "\tfield:u32 cpu_id;\toffset:12;\tsize:4;\tsigned:0;\n",
    [WAKE_ON_START] =
        "name: hrtimer_start\nID: 460\nformat:\n"
        "\tfield:void * hrtimer;\toffset:8;\tsize:8;\tsigned:0;\n"
        "\tfield:void * function;\toffset:16;\tsize:8;\tsigned:0;\n"
        "\tfield:s64 expires;\toffset:24;\tsize:8;\tsigned:1;\n"
        "\tfield:s64 softexpires;\toffset:32;\tsize:8;\tsigned:1;\n"
        "\tfield:enum hrtimer_mode mode;\toffset:40;\tsize:4;\tsigned:0;\n",
    [WAKE_ON_EXPIRE] =
        "name: hrtimer_expire_entry\nID: 459\nformat:\n"
        "\tfield:void * hrtimer;\toffset:8;\tsize:8;\tsigned:0;\n",
    [WAKE_ON_INTERRUPT] = "name: irq_handler_entry\nID: 225\nformat:\n",
    [WAKE_ON_LOCAL_TIMER] = "name: local_timer_entry\nID: 165\nformat:\n",
};

static int begin(void **state) {
  (void)state;
  memset(&ring, 0, sizeof(ring));
  ring.page.data_offset = DATA_OFFSET;
  ring.page.data_size = DATA_SIZE;
  tracepoints = (struct wake_tracepoints){.ring = &ring.page};
  for (int i = 0; i < WAKE_TRACEPOINTS; i++)
    if (!wake_format_parse(&tracepoints.formats[i], (enum wake_tracepoint)i,
                           formats[i]))
      return -1;
  probe = (struct wake_probe){.thread = THREAD};
  return 0;
}

/* ---------------------------------------------------------------------------
 * The kernel
 */

static void write_record(const void *record, size_t size) {
  for (size_t i = 0; i < size; i++)
    ring.bytes[DATA_OFFSET + (ring.page.data_head + i) % DATA_SIZE] =
        ((const unsigned char *)record)[i];
  ring.page.data_head += size;
}

struct raw {
  uint16_t id;
  unsigned char unused[6];
  union {
    uint32_t state;
    struct {
      uint64_t timer, function, expires, softexpires;
      uint32_t mode;
    };
  };
};

static void happens(uint64_t time, enum wake_tracepoint what, struct raw raw) {
  struct {
    struct perf_event_header header;
    uint32_t process, thread;
    uint64_t time;
    uint32_t raw_size;
    unsigned char raw[sizeof(raw) + 4];
  } __attribute__((packed))
  record = {.header = {PERF_RECORD_SAMPLE, 0, sizeof(record)},
            .thread = what == WAKE_ON_START ? THREAD : 0,
            .time = time,
            .raw_size = sizeof(record.raw)};
  raw.id = tracepoints.formats[what].id;
  memcpy(record.raw, &raw, sizeof(raw));
  write_record(&record, sizeof(record));
}

static void idle(uint64_t time, uint32_t state) {
  happens(time, WAKE_ON_IDLE, (struct raw){.state = state});
}
static void wake(uint64_t time) { idle(time, UINT32_MAX); }
static void interrupt(uint64_t time) {
  happens(time, WAKE_ON_LOCAL_TIMER, (struct raw){.id = 0});
}
static void starts(uint64_t time, uint64_t timer, uint64_t expires,
                   uint32_t mode) {
  happens(time, WAKE_ON_START,
          (struct raw){.timer = timer, .expires = expires, .mode = mode});
}
static void expires(uint64_t time, uint64_t timer) {
  happens(time, WAKE_ON_EXPIRE, (struct raw){.timer = timer});
}
static void loses(uint64_t records) {
  struct {
    struct perf_event_header header;
    uint64_t id, lost;
  } record = {.header = {PERF_RECORD_LOST, 0, sizeof(record)}, .lost = records};
  write_record(&record, sizeof(record));
}

static void read_all(void) {
  wake_tracepoints_read(&tracepoints, &probe);
  assert_int_equal(ring.page.data_tail, ring.page.data_head);
}

/* ---------------------------------------------------------------------------
 * The tests
 */

static void a_timer_of_the_thread_becomes_a_datapoint(void **state) {
  (void)state;
  starts(900, TIMER, 5000, 0);
  idle(1000, 2);
  wake(5100);
  interrupt(5200);
  expires(5300, TIMER);
  read_all();
  assert_int_equal(probe.head, 1);
  const struct wake_event *event = &probe.events[0];
  assert_int_equal(event->tbi, 1000);
  assert_int_equal(event->ltime, 5000);
  assert_int_equal(event->tai, 5100);
  assert_int_equal(event->tintr, 5200);
  assert_int_equal(event->distance, 4100);
  assert_int_equal(event->state, 2);
  assert_true(event->interrupts_off);
  assert_int_equal(probe.steps.idles, 1);
}

static void a_stream_wraps_around_in_the_ring(void **state) {
  (void)state;
  for (uint64_t i = 1; i <= 100; i++) {
    uint64_t at = 10000 * i;
    starts(at, TIMER, at + 5000, 0);
    idle(at + 100, 1);
    read_all(); /* reads the first part of the stream */
    interrupt(at + 5100);
    expires(at + 5200, TIMER);
    wake(at + 5300);
    read_all();
    assert_int_equal(probe.head, i);
    assert_false(probe.events[i - 1].interrupts_off);
    assert_int_equal(probe.events[i - 1].ltime, at + 5000);
  }
}

static void a_pause_and_the_timers_of_others_are_no_datapoints(void **state) {
  (void)state;
  starts(900, TIMER, 5000, 1); /* relative: a pause */
  starts(910, OTHER, 5000, 0);
  probe.thread = THREAD + 1;
  starts(920, OTHER, 5000, 0);
  idle(1000, 2);
  wake(5100);
  interrupt(5200);
  expires(5300, OTHER);
  expires(5300, TIMER);
  read_all();
  assert_int_equal(probe.head, 0);
  for (int i = 0; i < WAKE_DROPS_BY_STEPS; i++)
    assert_int_equal(probe.steps.drops[i], 0);
}

static void an_unknown_timer_does_not_disturb_that_of_the_thread(void **state) {
  (void)state;
  starts(900, TIMER, 5000, 0);
  idle(1000, 2);
  wake(5100);
  interrupt(5200);
  expires(5300, OTHER); /* this timer was started on another core */
  expires(5310, TIMER);
  read_all();
  assert_int_equal(probe.head, 1);
}

static void the_datapoint_of_lost_records_is_dropped(void **state) {
  (void)state;
  starts(900, TIMER, 5000, 0);
  idle(1000, 2);
  loses(3);
  wake(5100);
  interrupt(5200);
  expires(5300, TIMER);
  read_all();
  assert_int_equal(probe.head, 0);
  assert_int_equal(tracepoints.lost, 3);
  assert_int_equal(probe.steps.drops[WAKE_DROP_LOST], 1);
  /* The lost records do not affect the next datapoint. */
  starts(6000, TIMER, 9000, 0);
  idle(6100, 2);
  wake(9100);
  interrupt(9200);
  expires(9300, TIMER);
  read_all();
  assert_int_equal(probe.head, 1);
  assert_int_equal(probe.steps.drops[WAKE_DROP_LOST], 1);
}

static void passive_takes_any_timer_whose_start_was_seen(void **state) {
  (void)state;
  probe.thread = 0;
  probe.steps.is_passive = 1;
  starts(800, OTHER, 5020, 0);
  starts(900, TIMER, 5000, 1);
  idle(1000, 2);
  wake(5100);
  interrupt(5200);
  expires(5300, OTHER);
  expires(5310, TIMER);
  idle(6000, 2);
  read_all();
  assert_int_equal(probe.head, 1);
  assert_int_equal(probe.events[0].ltime, 5000);
}

static void passive_drops_an_interrupt_with_an_unknown_timer(void **state) {
  (void)state;
  probe.thread = 0;
  probe.steps.is_passive = 1;
  for (uint64_t at = 0; at < 20000; at += 10000) {
    starts(at + 900, TIMER, at + 5000, 0);
    idle(at + 1000, 2);
    wake(at + 5100);
    interrupt(at + 5200);
    expires(at + 5300, at == 0 ? OTHER : TIMER);
    expires(at + 5310, at == 0 ? TIMER : OTHER);
  }
  idle(30000, 2);
  read_all();
  assert_int_equal(probe.head, 0);
}

static void records_of_other_sizes_are_skipped(void **state) {
  (void)state;
  struct {
    struct perf_event_header header;
    unsigned char bytes[512];
  } large = {.header = {PERF_RECORD_SAMPLE, 0, sizeof(large)}};
  struct {
    struct perf_event_header header;
    unsigned char bytes[24];
  } small = {.header = {PERF_RECORD_SAMPLE, 0, sizeof(small)}};
  starts(900, TIMER, 5000, 0);
  write_record(&large, sizeof(large));
  idle(1000, 2);
  write_record(&small, sizeof(small));
  wake(5100);
  interrupt(5200);
  expires(5300, TIMER);
  read_all();
  assert_int_equal(probe.head, 1);
}

static void bytes_that_are_no_record_end_the_stream(void **state) {
  (void)state;
  static const unsigned char zeros[64];
  starts(900, TIMER, 5000, 0);
  idle(1000, 2);
  write_record(zeros, sizeof(zeros));
  wake(5100);
  read_all();
  assert_int_equal(tracepoints.lost, 1);
  assert_int_equal(probe.steps.drops[WAKE_DROP_LOST], 1);
}

static void formats_without_a_field_are_refused(void **state) {
  (void)state;
  static const char *const bad[] = {
      "",
      "ID: 5\n",
      "name: x\nID: 5\nformat:\n",
      "name: x\nID: five\n\tfield:u32 state;\toffset:8;\tsize:4;\n",
      "name: x\nID: 5\n\tfield:u32 state;\toffset:8;\tsize:2;\n",
      "name: x\nID: 5\n\tfield:u32 state;\toffset:9999;\tsize:4;\n",
      "name: x\nID: 5\n\tfield:u32 laststate;\toffset:8;\tsize:4;\n"};
  struct wake_format format;
  for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
    assert_false(wake_format_parse(&format, WAKE_ON_IDLE, bad[i]));
  assert_true(wake_format_parse(&format, WAKE_ON_IDLE, formats[WAKE_ON_IDLE]));
  assert_int_equal(format.id, 568);
  assert_int_equal(format.fields[0].offset, 8);
}

#define TEST(name) cmocka_unit_test_setup(name, begin)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(a_timer_of_the_thread_becomes_a_datapoint),
      TEST(a_stream_wraps_around_in_the_ring),
      TEST(a_pause_and_the_timers_of_others_are_no_datapoints),
      TEST(an_unknown_timer_does_not_disturb_that_of_the_thread),
      TEST(the_datapoint_of_lost_records_is_dropped),
      TEST(passive_takes_any_timer_whose_start_was_seen),
      TEST(passive_drops_an_interrupt_with_an_unknown_timer),
      TEST(records_of_other_sizes_are_skipped),
      TEST(bytes_that_are_no_record_end_the_stream),
      TEST(formats_without_a_field_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
