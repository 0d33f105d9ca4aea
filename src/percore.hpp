/* percore.hpp: percore.h for C++17. Adds constexpr descriptions, regions and
 * slots that are released at the end of their scope, and columns named by the
 * enumerators of an enum class. Header only; updates compile to the same
 * instructions as those of percore.h. percore(3) has an example.
 *
 * Nothing here throws. As in percore.h, an object that could not be created is
 * a sink, and error() returns the errno (0 if nothing failed). All calls of
 * percore.h work with these classes: region.get() is the percore_region *, and
 * a slot converts to a percore_slot_t.
 */
#ifndef PERCORE_HPP
#define PERCORE_HPP

#include <percore.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <type_traits>
#include <utility>

namespace percore {

/* ---------------------------------------------------------------------------
 * Descriptions
 */

constexpr percore_field counter(const char *name, const char *unit = nullptr,
                                const char *help = nullptr) noexcept {
  return {name, unit, help, PERCORE_COUNTER, PERCORE_SUM, 0, 0, nullptr, 0};
}

constexpr percore_field updown(const char *name, const char *unit = nullptr,
                               const char *help = nullptr) noexcept {
  return {name, unit, help, PERCORE_UPDOWN, PERCORE_SUM, 0, 0, nullptr, 0};
}

constexpr percore_field gauge(const char *name, percore_aggregation over_slots,
                              const char *unit = nullptr,
                              const char *help = nullptr) noexcept {
  return {name, unit, help, PERCORE_GAUGE, over_slots, 0, 0, nullptr, 0};
}

template <std::size_t N>
constexpr percore_field state(const char *name, const char *const (&states)[N],
                              const char *help = nullptr) noexcept {
  return {name,
          nullptr,
          help,
          PERCORE_STATE,
          PERCORE_SUM,
          0,
          0,
          states,
          static_cast<std::uint32_t>(N)};
}

constexpr percore_field histogram(const char *name, std::uint32_t sub_bits,
                                  std::uint32_t max_bits,
                                  const char *unit = nullptr,
                                  const char *help = nullptr) noexcept {
  return {name,     unit,    help, PERCORE_HISTOGRAM, PERCORE_SUM, sub_bits,
          max_bits, nullptr, 0};
}

/* A PER_CORE table of one row. fields, an array, std::array or std::vector of
 * percore_field, must exist until the region has been created. Each member
 * function returns a changed copy:
 *   constexpr percore_table tables[] = {
 *       percore::table("port", port_fields).rows(16).named(24)}; */
class table {
  /* Above its uses, because clang needs it there. */
  template <class Value>
  constexpr table with(Value percore_table::*member,
                       Value value) const noexcept {
    table other = *this;
    other.made_.*member = value;
    return other;
  }

public:
  template <class Fields>
  constexpr table(const char *name, const Fields &fields_) noexcept
      : made_{name,
              nullptr,
              PERCORE_PER_CORE,
              std::data(fields_),
              static_cast<std::uint32_t>(std::size(fields_)),
              0,
              0,
              PERCORE_KEY_DECIMAL,
              0,
              0} {}

  constexpr table help(const char *line) const noexcept {
    return with(&percore_table::help, line);
  }
  constexpr table owned() const noexcept {
    return with(&percore_table::storage, PERCORE_OWNED);
  }
  constexpr table shared() const noexcept {
    return with(&percore_table::storage, PERCORE_SHARED);
  }
  constexpr table rows(std::uint32_t max) const noexcept {
    return with(&percore_table::max_rows, max);
  }
  /* size: bytes for a name and its final NUL: 24, 56 or 120. */
  constexpr table named(std::uint32_t size) const noexcept {
    return with(&percore_table::row_name_size, size);
  }
  constexpr table keyed(percore_key key) const noexcept {
    return with(&percore_table::key, key);
  }
  constexpr table aligned(std::uint32_t bytes) const noexcept {
    return with(&percore_table::row_align, bytes);
  }
  /* more: values of enum percore_table_flags. */
  constexpr table flags(std::uint32_t more) const noexcept {
    return with(&percore_table::flags, made_.flags | more);
  }
  constexpr operator percore_table() const noexcept { return made_; }

private:
  percore_table made_;
};

/* Returns default options, with the sizes set. */
constexpr percore_options options() noexcept {
  percore_options made{};
  made.size = sizeof(made);
  made.table_size = sizeof(percore_table);
  made.field_size = sizeof(percore_field);
  return made;
}

/* ---------------------------------------------------------------------------
 * Regions and slots
 */

/* A region that is destroyed at the end of its scope. Its slots must be
 * released first; otherwise percore_destroy fails with EBUSY and the region
 * remains. */
class region {
public:
  /* A sink, until a region is moved here; error() is ENODEV. */
  region() noexcept {
    percore_options nothing = options();
    nothing.off = 1;
    percore_create(&made_, nullptr, nullptr, 0, &nothing);
  }
  /* tables: an array, std::array or std::vector of percore_table. */
  template <class Tables>
  region(const char *name, const Tables &tables,
         const percore_options &chosen = options()) noexcept
      : error_(errno_of(percore_create(
            &made_, name, std::data(tables),
            static_cast<std::uint32_t>(std::size(tables)), &chosen))) {}
  ~region() { percore_destroy(made_); }
  region(region &&other) noexcept : region() { *this = std::move(other); }
  region &operator=(region &&other) noexcept {
    std::swap(made_, other.made_);
    std::swap(error_, other.error_);
    return *this;
  }
  region(const region &) = delete;
  region &operator=(const region &) = delete;

  int error() const noexcept { return error_; }
  percore_region *get() const noexcept { return made_; }

  /* Returns the row with this name or key, and adds the row if it does not
   * exist. Returns a sink if the row cannot be added. */
  template <class Table>
  std::uint32_t row(Table table, const char *name) const noexcept {
    std::uint32_t found;
    percore_row_add(made_, static_cast<std::uint32_t>(table), name, &found);
    return found;
  }
  template <class Table>
  std::uint32_t row_of_key(Table table, std::uint64_t key) const noexcept {
    std::uint32_t found;
    percore_row_add_key(made_, static_cast<std::uint32_t>(table), key, &found);
    return found;
  }

  template <class Table>
  percore_core_table_t core_table(Table table) const noexcept {
    percore_core_table_t handle;
    percore_core_table(made_, static_cast<std::uint32_t>(table), &handle);
    return handle;
  }
  template <class Table>
  percore_owned_table_t owned_table(Table table) const noexcept {
    percore_owned_table_t handle;
    percore_owned_table(made_, static_cast<std::uint32_t>(table), &handle);
    return handle;
  }
  template <class Table>
  percore_shared_table_t shared_table(Table table) const noexcept {
    percore_shared_table_t handle;
    percore_shared_table(made_, static_cast<std::uint32_t>(table), &handle);
    return handle;
  }
  template <class Table, class Field>
  percore_histogram_t histogram(Table table, Field field) const noexcept {
    percore_histogram_t handle;
    percore_histogram(made_, static_cast<std::uint32_t>(table),
                      static_cast<std::uint32_t>(field), &handle);
    return handle;
  }

  percore_region_status status() const noexcept {
    percore_region_status known{};
    known.size = sizeof(known);
    percore_status(made_, &known);
    return known;
  }

private:
  static int errno_of(int status) noexcept { return status == 0 ? 0 : errno; }
  percore_region *made_ = nullptr;
  int error_ = ENODEV;
};

/* A slot of the calling thread. It is released at the end of its scope. */
class slot {
public:
  /* core -1: the core that the calling thread runs on. */
  explicit slot(const region &of, const char *name = nullptr,
                int core = -1) noexcept
      : region_(of.get()) {
    error_ = percore_attach(region_, name, core, &held_) == 0 ? 0 : errno;
  }
  /* A sink, until a slot is moved here; error() is ENODEV. */
  slot() noexcept : slot(region()) {}
  ~slot() {
    if (error_ == 0)
      percore_detach(region_, held_);
  }
  slot(slot &&other) noexcept : slot() { *this = std::move(other); }
  slot &operator=(slot &&other) noexcept {
    std::swap(region_, other.region_);
    std::swap(held_, other.held_);
    std::swap(error_, other.error_);
    return *this;
  }
  slot(const slot &) = delete;
  slot &operator=(const slot &) = delete;

  int error() const noexcept { return error_; }
  operator percore_slot_t() const noexcept { return held_; }

private:
  percore_region *region_;
  percore_slot_t held_{};
  int error_ = 0;
};

/* Calls percore_begin now, and percore_end at the end of the scope. */
class section {
public:
  explicit section(percore_slot_t of) noexcept : slot_(of) {
    percore_begin(slot_);
  }
  ~section() { percore_end(slot_); }
  section(const section &) = delete;
  section &operator=(const section &) = delete;

private:
  percore_slot_t slot_;
};

/* Calls percore_row_begin now, and percore_row_end at the end of the scope. */
class row_section {
public:
  explicit row_section(percore_owned_row_t of) noexcept : row_(of) {
    percore_row_begin(row_);
  }
  ~row_section() { percore_row_end(row_); }
  row_section(const row_section &) = delete;
  row_section &operator=(const row_section &) = delete;

private:
  percore_owned_row_t row_;
};

/* Calls percore_sleep now, and percore_wake at the end of the scope. */
class asleep {
public:
  explicit asleep(percore_slot_t of) noexcept : slot_(of) {
    percore_sleep(slot_);
  }
  ~asleep() { percore_wake(slot_); }
  asleep(const asleep &) = delete;
  asleep &operator=(const asleep &) = delete;

private:
  percore_slot_t slot_;
};

/* ---------------------------------------------------------------------------
 * Updates. Row is a percore_core_row_t or a percore_owned_row_t; columns may be
 * enumerators.
 */

template <class Row, class Column>
inline void add(Row row, Column column, std::uint64_t n) noexcept {
  percore_add(row, static_cast<std::uint32_t>(column), n);
}

template <class Row, class Column>
inline void updown_add(Row row, Column column, std::int64_t n) noexcept {
  percore_add(row, static_cast<std::uint32_t>(column),
              static_cast<std::uint64_t>(n));
}

template <class Row, class Column>
inline void add_growth(Row row, Column column, std::uint64_t value,
                       std::uint64_t &last) noexcept {
  percore_add_growth(row, static_cast<std::uint32_t>(column), value, &last);
}

/* Cells hold whole numbers. */
template <class Value> constexpr std::uint64_t cell_of(Value value) noexcept {
  static_assert(std::is_integral_v<Value> || std::is_enum_v<Value>,
                "a gauge is a whole number: multiply it by a power of ten, and "
                "name the unit accordingly");
  return static_cast<std::uint64_t>(value);
}

template <class Row, class Column, class Value>
inline void set(Row row, Column column, Value value) noexcept {
  percore_set(row, static_cast<std::uint32_t>(column), cell_of(value));
}

template <class Row>
inline void hist_add(Row row, percore_histogram_t histogram,
                     std::uint64_t value) noexcept {
  percore_hist_add(row, histogram, value);
}

template <class Column>
inline void shared_add(percore_shared_row_t row, Column column,
                       std::uint64_t n) noexcept {
  percore_shared_add(row, static_cast<std::uint32_t>(column), n);
}

template <class Column, class Value>
inline void shared_set(percore_shared_row_t row, Column column,
                       Value value) noexcept {
  percore_shared_set(row, static_cast<std::uint32_t>(column), cell_of(value));
}

template <class Row> inline void prefetch(Row row) noexcept {
  percore_prefetch(row);
}

} // namespace percore

#endif
