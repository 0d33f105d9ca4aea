/* The update paths of update_code.c with percore.hpp, so that a test can
 * compare the machine code of both. Also tests that descriptions are constant
 * and that objects work. */
#include <percore.hpp>
#include <percore_reader.h>

#include <thread>
#include <vector>

extern "C" {
void core_add(percore_row_t row, uint64_t n);
void core_add_one(percore_row_t row);
void core_add_four(percore_row_t row, uint64_t n);
void core_updown(percore_row_t row, int64_t n);
void core_set(percore_row_t row, uint64_t n);
void table_add(percore_table_t table, uint32_t row, uint64_t n);
void shared_add(percore_shared_row_t row, uint64_t n);
void shared_set(percore_shared_row_t row, uint64_t n);
void section(percore_row_t row, uint64_t n);
void poll_round(percore_slot_t slot, uint64_t n);
void poll_round_at(percore_slot_t slot, uint64_t tsc, uint64_t n);
void observe(percore_row_t row, uint64_t value);
int use_objects(const char *name);
}

enum class field { packets, bytes, depth, load, latency };

void core_add(percore_row_t row, uint64_t n) { percore::add(row, 3, n); }

void core_add_one(percore_row_t row) { percore::add(row, field::packets, 1); }

void core_add_four(percore_row_t row, uint64_t n) {
  percore::add(row, field::packets, n);
  percore::add(row, field::bytes, n);
  percore::add(row, field::depth, n);
  percore::add(row, field::load, n);
}

void core_updown(percore_row_t row, int64_t n) {
  percore::add(row, field::depth, n);
}

void core_set(percore_row_t row, uint64_t n) { percore::set(row, 1, n); }

void table_add(percore_table_t table, uint32_t row, uint64_t n) {
  percore::add(percore_row(table, row), field::bytes, n);
}

void shared_add(percore_shared_row_t row, uint64_t n) {
  percore::shared_add(row, field::packets, n);
}

void shared_set(percore_shared_row_t row, uint64_t n) {
  percore::set(row, field::packets, n);
}

void section(percore_row_t row, uint64_t n) {
  percore::section guard(row);
  percore::add(row, field::packets, 1);
  percore::add(row, field::bytes, n);
}

void poll_round(percore_slot_t slot, uint64_t n) { percore_poll(slot, n, 0); }

void poll_round_at(percore_slot_t slot, uint64_t tsc, uint64_t n) {
  percore_poll(slot, n, tsc);
}

void observe(percore_row_t row, uint64_t value) {
  percore::observe(row, field::latency, value);
}

/* ---------------------------------------------------------------------------
 * Descriptions and objects
 */

static constexpr const char *links[] = {"down", "up"};
static constexpr percore_field fields[] = {
    percore::counter("packets", "packets", "received"),
    percore::counter("bytes", "bytes"),
    percore::updown("depth", "packets"),
    percore::gauge("load", PERCORE_MAX),
    percore::histogram("latency", 2, 10, "ns"),
};
static constexpr percore_field few_fields[] = {percore::counter("requests"),
                                               percore::state("link", links)};

enum class tables { port, flow, slow };
static constexpr struct percore_table described[] = {
    percore::table("port", fields),
    percore::table("flow", few_fields)
        .owned()
        .rows(8)
        .keyed(PERCORE_KEY_IPV4)
        .flags(PERCORE_CONSISTENT),
    percore::table("slow", few_fields).shared().rows(2).named(24),
};
static_assert(described[1].max_rows == 8 &&
                  described[1].storage == PERCORE_OWNED &&
                  described[2].row_name_size == 24 &&
                  fields[4].kind == PERCORE_HISTOGRAM &&
                  fields[4].sub_bits == 2,
              "tables are constant");

static uint64_t count(const percore::region &region) {
  percore::slot slot;
  slot = percore::slot(region, "cc");
  percore_row_t port = percore_row(slot.table(tables::port), 0);
  percore_row_t flow =
      percore_row(slot.table(tables::flow), region.row_of_key(tables::flow, 7));
  percore_shared_row_t slow =
      region.shared_row(tables::slow, region.row(tables::slow, "cli"));
  section(port, 100);
  percore::observe(port, field::latency, 5);
  percore_prefetch(flow);
  {
    percore::section together(flow);
    percore::add(flow, 0, 3);
  }
  percore::shared_add(slow, 0, 2);
  percore::set(slow, 1, 1);
  percore_poll(slot, 1, 0);
  percore_sleep(slot);
  percore_wake(slot);
  return region.row(tables::slow, "cli") == 1 ? 3 : 0; /* it was added above */
}

/* Returns 0 if a reader of this process's own region sees the counts. */
int use_objects(const char *name) {
  const std::vector<struct percore_table> tables(std::begin(described),
                                                 std::end(described));
  percore::region region;
  region = percore::region(name, tables);
  uint64_t expected = 0, values[8] = {}, flow = 0;
  std::thread([&] { expected = count(region); }).join();
  percore_reader *reader = nullptr;
  if (region.error() != 0 || percore_open(&reader, name, nullptr) != 0 ||
      percore_refresh(reader) != 1)
    return 1;
  int status =
      percore_read_row(reader, 0, 0, PERCORE_TOTAL, nullptr, 0, values, 8) |
      percore_read_row(reader, 1, 1, PERCORE_TOTAL, nullptr, 0, &flow, 1);
  percore_close(reader);
  percore_region_status known = {};
  percore_status(region.get(), &known);
  return status == 0 && values[0] == 1 && values[1] == 100 &&
                 flow == expected && known.served == 1 &&
                 known.slots_attached == 0
             ? 0
             : 2;
}

#ifdef WITH_MAIN
/* A region with an invalid name is a sink, and its status says so. */
int main() {
  percore_options quiet = {};
  quiet.quiet = 1;
  percore::region sink("no such name", described, quiet);
  percore::slot slot(sink), no_slot;
  percore::add(percore_row(slot.table(tables::port), 0), field::packets, 1);
  percore::add(percore_row(no_slot.table(tables::port), 0), field::packets, 1);
  if (sink.error() != EINVAL || slot.error() != ENODEV ||
      no_slot.error() != ENODEV || percore::region().error() != ENODEV)
    return 3;
  return use_objects("objects");
}
#endif
