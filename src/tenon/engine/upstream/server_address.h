#pragma once

#include <chrono>
#include <string>

namespace tenon::engine {

/// Where a server is, and how it is asked.
struct ServerAddress {
  std::string url;      ///< "http://host:port"
  std::string api_key;  ///< "": none.
  /// Where the key comes from, for who reads the log: "the key in EXAMPLE_KEY".
  std::string key_place{};
  /// Between two bytes; between two pieces of an answer five times as long, as what keeps a
  /// connection alive says that the server is still at work, but not for ever. 0: for ever.
  std::chrono::milliseconds silence_limit{120'000};
  bool verifies_certificates = true;
};

}  // namespace tenon::engine
