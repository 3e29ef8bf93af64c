#pragma once

#include <chrono>
#include <string>

namespace tenon::engine {

/// Where a server is, and how it is asked.
struct ServerAddress {
  std::string url;      ///< "http://host:port"
  std::string api_key;  ///< "": none.
  /// Where the key comes from, for readers of the log: "the key in EXAMPLE_KEY".
  std::string key_place{};
  /// Between two bytes. Between two pieces of an answer it is five times as long, because bytes
  /// that keep a connection alive say that the server is at work, but not for ever. 0: no limit.
  std::chrono::milliseconds silence_limit{120'000};
  bool verifies_certificates = true;
};

}  // namespace tenon::engine
