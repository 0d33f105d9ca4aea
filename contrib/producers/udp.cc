/* udp: counts the datagrams that arrive at a UDP port of the loopback.
 *
 *   c++ -std=c++17 udp.cc $(pkg-config --cflags --libs percore) -o udp
 *   ./udp PORT DATAGRAMS
 *
 * Ends after this many datagrams. `percore top udpcc` shows them meanwhile. */
#include <percore.hpp>

#include <arpa/inet.h>
#include <cstdio>
#include <cstdlib>
#include <sys/socket.h>

enum class field { packets, bytes, size };
static constexpr percore_field fields[] = {
    percore::counter("rx_packets", "packets"),
    percore::counter("rx_bytes", "bytes"),
    percore::histogram("size", 3, 16, "bytes")};

enum class tables { port };
static constexpr struct percore_table described[] = {
    percore::table("port", fields).rows(16).named(24)};

int main(int argc, char **argv) {
  if (argc != 3)
    return 2;
  percore::region region("udpcc", described);
  percore::slot slot(region, "main");
  percore_row_t row =
      percore_row(slot.table(tables::port), region.row(tables::port, argv[1]));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<in_port_t>(std::atoi(argv[1])));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int port = socket(AF_INET, SOCK_DGRAM, 0);
  if (bind(port, reinterpret_cast<sockaddr *>(&address), sizeof(address)) !=
      0) {
    std::perror(argv[1]);
    return 1;
  }
  static char buffer[65536];
  for (long left = std::atol(argv[2]); left > 0; left--) {
    ssize_t size = recv(port, buffer, sizeof(buffer), 0);
    if (size < 0)
      continue;
    percore::section together(row);
    percore::add(row, field::packets, 1);
    percore::add(row, field::bytes, static_cast<std::uint64_t>(size));
    percore::observe(row, field::size, static_cast<std::uint64_t>(size));
  }
  return 0;
}
