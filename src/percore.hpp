/* percore.hpp: percore.h for C++17, in its shape. Adds constexpr descriptions,
 * regions and slots that are released at the end of their scope, and fields
 * named by the enumerators of an enum class. Header only; updates compile to
 * the same instructions as those of percore.h. percore(3) has an example.
 *
 * Nothing here throws. As in percore.h, an object that could not be created is
 * a sink, and error() returns the errno (0 if nothing failed). All calls of
 * percore.h work with these classes: region.get() is the percore_region *, and
 * a slot converts to a percore_slot_t. */
#ifndef PERCORE_HPP
#define PERCORE_HPP

#include <percore_tune.h>

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
  return {name, nullptr, help,   PERCORE_STATE,   PERCORE_SUM,
          0,    0,       states, std::uint32_t{N}};
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
 * function returns a changed copy; for what they do not set, assign to a
 * struct percore_table:
 *   constexpr struct percore_table tables[] = {
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
  /* of: values of enum percore_table_flags. */
  constexpr table flags(std::uint32_t of) const noexcept {
    return with(&percore_table::flags, of);
  }
  using description = struct percore_table;
  constexpr operator description() const noexcept { return made_; }

private:
  struct percore_table made_;
};

/* ---------------------------------------------------------------------------
 * Regions and slots
 */

/* A region that is destroyed at the end of its scope. If other threads are
 * still attached then, it remains. */
class region {
public:
  region() noexcept = default; /* a sink, until a region is moved here */
  /* tables: an array, std::array or std::vector of struct percore_table. */
  template <class Tables>
  region(const char *name, const Tables &tables,
         const percore_options &options = percore_options()) noexcept
      : made_(percore_create(name, std::data(tables),
                             static_cast<std::uint32_t>(std::size(tables)),
                             &options)),
        error_(errno) {}
  ~region() { percore_destroy(made_); }
  region(region &&other) noexcept { *this = std::move(other); }
  region &operator=(region &&other) noexcept {
    std::swap(made_, other.made_);
    std::swap(error_, other.error_);
    return *this;
  }
  region(const region &) = delete;
  region &operator=(const region &) = delete;

  int error() const noexcept { return error_; }
  percore_region *get() const noexcept { return made_; }

  /* Return the row with this name or key, which they add if it does not exist;
   * 0, the sink row, if it cannot be added. */
  template <class Table>
  std::uint32_t row(Table of, const char *name) const noexcept {
    return percore_row_add(made_, static_cast<std::uint32_t>(of), name, 0);
  }
  template <class Table>
  std::uint32_t row_of_key(Table of, std::uint64_t key) const noexcept {
    return percore_row_add(made_, static_cast<std::uint32_t>(of), nullptr, key);
  }
  template <class Table>
  percore_shared_row_t shared_row(Table of, std::uint32_t row) const noexcept {
    return percore_shared_row(made_, static_cast<std::uint32_t>(of), row);
  }

private:
  percore_region *made_ = nullptr;
  int error_ = ENODEV;
};

/* A slot of the calling thread, which is released at the end of its scope. */
class slot {
public:
  slot() noexcept : slot(region()) {} /* a sink, until a slot is moved here */
  explicit slot(const region &of, const char *name = nullptr,
                int core = PERCORE_THIS_CORE) noexcept
      : held_(percore_attach(of.get(), name, core)), error_(errno) {}
  ~slot() { percore_detach(held_); }
  slot(slot &&other) noexcept : slot() { *this = std::move(other); }
  slot &operator=(slot &&other) noexcept {
    std::swap(held_, other.held_);
    std::swap(error_, other.error_);
    return *this;
  }
  slot(const slot &) = delete;
  slot &operator=(const slot &) = delete;

  int error() const noexcept { return error_; }
  operator percore_slot_t() const noexcept { return held_; }
  template <class Table> percore_table_t table(Table of) const noexcept {
    return percore_table(held_, static_cast<std::uint32_t>(of));
  }

private:
  percore_slot_t held_;
  int error_;
};

/* A section of the row: percore_begin now, percore_end at the end of the scope.
 */
class section {
public:
  explicit section(percore_row_t of) noexcept : row_(of) {
    percore_begin(row_);
  }
  ~section() { percore_end(row_); }
  section(const section &) = delete;
  section &operator=(const section &) = delete;

private:
  percore_row_t row_;
};

/* ---------------------------------------------------------------------------
 * Updates. Fields may be enumerators.
 */

template <class Field, class Value>
inline void add(percore_row_t row, Field field, Value n) noexcept {
  percore_add(row, static_cast<std::uint32_t>(field), n);
}

template <class Row, class Field, class Value>
inline void set(Row row, Field field, Value value) noexcept {
  percore_set(row, static_cast<std::uint32_t>(field), value);
}

template <class Field>
inline void observe(percore_row_t row, Field field, std::uint64_t v) noexcept {
  percore_observe(row, static_cast<std::uint32_t>(field), v);
}

template <class Field, class Value>
inline void shared_add(percore_shared_row_t row, Field field,
                       Value n) noexcept {
  percore_shared_add(row, static_cast<std::uint32_t>(field), n);
}

} // namespace percore

#endif
