#pragma once

#include <cstdint>

#include <netinet/in.h>
#include <sys/socket.h>

/// Addresses on this machine, for benchmarks that play one of the ends themselves.
inline sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

/// `address` as the system's functions take it.
inline sockaddr* generic(sockaddr_in& address) {
  return reinterpret_cast<sockaddr*>(&address);
}
