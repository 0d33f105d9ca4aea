/* The update paths of update_code.c with percore.hpp, so that a test can
 * compare the machine code of both. Also tests that descriptions are constant
 * and that objects work. */
#include <percore.hpp>

#include <thread>
#include <vector>

extern "C" {
void core_add(percore_core_row_t row, uint64_t n);
void core_add_one(percore_core_row_t row);
void core_add_four(percore_core_row_t row, uint64_t n);
void core_updown(percore_core_row_t row, int64_t n);
void core_set(percore_core_row_t row, uint64_t n);
void owned_add(percore_owned_table_t table, uint32_t row, uint64_t n);
void shared_add(percore_shared_row_t row, uint64_t n);
void section(percore_slot_t slot, percore_core_row_t row, uint64_t n);
void poll_round(percore_slot_t slot, uint64_t n);
void poll_round_at(percore_slot_t slot, uint64_t tsc, uint64_t n);
void hist_add(percore_core_row_t row, percore_histogram_t histogram,
              uint64_t value);
int use_objects(const char *name);
}

enum class field { packets, bytes, depth, load, latency };

void core_add(percore_core_row_t row, uint64_t n) { percore::add(row, 3, n); }

void core_add_one(percore_core_row_t row) {
  percore::add(row, field::packets, 1);
}

void core_add_four(percore_core_row_t row, uint64_t n) {
  percore::add(row, field::packets, n);
  percore::add(row, field::bytes, n);
  percore::add(row, field::depth, n);
  percore::add(row, field::load, n);
}

void core_updown(percore_core_row_t row, int64_t n) {
  percore::updown_add(row, field::depth, n);
}

void core_set(percore_core_row_t row, uint64_t n) { percore::set(row, 1, n); }

void owned_add(percore_owned_table_t table, uint32_t row, uint64_t n) {
  percore::add(percore_owned_row(table, row), field::bytes, n);
}

void shared_add(percore_shared_row_t row, uint64_t n) {
  percore::shared_add(row, field::packets, n);
}

void section(percore_slot_t slot, percore_core_row_t row, uint64_t n) {
  percore::section guard(slot);
  percore::add(row, field::packets, 1);
  percore::add(row, field::bytes, n);
}

void poll_round(percore_slot_t slot, uint64_t n) { percore_poll(slot, n); }

void poll_round_at(percore_slot_t slot, uint64_t tsc, uint64_t n) {
  percore_poll_at(slot, tsc, n);
}

void hist_add(percore_core_row_t row, percore_histogram_t histogram,
              uint64_t value) {
  percore::hist_add(row, histogram, value);
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
static constexpr percore_table described[] = {
    percore::table("port", fields).help("where packets come in"),
    percore::table("flow", few_fields)
        .owned()
        .rows(8)
        .keyed(PERCORE_KEY_IPV4)
        .aligned(64)
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
  percore_core_row_t port =
      percore_core_row(slot, region.core_table(tables::port), 0);
  percore_owned_row_t flow = percore_owned_row(
      region.owned_table(tables::flow), region.row_of_key(tables::flow, 7));
  percore_shared_row_t slow = percore_shared_row(
      region.shared_table(tables::slow), region.row(tables::slow, "cli"));
  section(slot, port, 100);
  percore::hist_add(port, region.histogram(tables::port, field::latency), 5);
  percore::prefetch(flow);
  {
    std::uint64_t last = 4;
    percore::row_section together(flow);
    percore::add(flow, 0, 2);
    percore::add_growth(flow, 0, 5, last);
  }
  percore::shared_add(slow, 0, 2);
  percore::shared_set(slow, 1, 1);
  percore_poll(slot, 1);
  percore::asleep nap(slot);
  return region.row(tables::slow, "cli") == 0 ? 3 : 0; /* it was added above */
}

/* Returns 0 if a reader of this process's own region sees the counts. */
int use_objects(const char *name) {
  const std::vector<percore_table> tables(std::begin(described),
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
      percore_read_row(reader, 1, 0, PERCORE_TOTAL, nullptr, 0, &flow, 1);
  percore_close(reader);
  percore_region_status known = region.status();
  return status == 0 && values[0] == 1 && values[1] == 100 &&
                 flow == expected && known.served == 1 &&
                 known.slots_attached == 0
             ? 0
             : 2;
}

#ifdef WITH_MAIN
/* A region with an invalid name is a sink, and its status says so. */
int main() {
  percore_options quiet = percore::options();
  quiet.quiet = 1;
  percore::region sink("no such name", described, quiet);
  percore::slot slot(sink), no_slot;
  percore::add(percore_core_row(slot, sink.core_table(tables::port), 0),
               field::packets, 1);
  percore::add(percore_core_row(no_slot, sink.core_table(tables::port), 0),
               field::packets, 1);
  if (sink.error() != EINVAL || slot.error() != ENODEV ||
      no_slot.error() != ENODEV || percore::region().error() != ENODEV)
    return 3;
  return use_objects("objects");
}
#endif
