#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tenon/json/value.h"

namespace tenon::mcp {

/// Hands a state to a client, which gives it back with its next request. The client can read it;
/// what it changes, gives back with another request, or keeps for longer than kLifetime, is
/// refused. The key is this object's own, so a state ends with the process, too. Thread-safe.
class RequestStates {
 public:
  using Clock = std::chrono::system_clock;
  /// A person may be asked meanwhile.
  static constexpr std::chrono::hours kLifetime{1};

  RequestStates();

  /// `request` tells what the state belongs to; no two requests may have the same text.
  [[nodiscard]] std::string seal(const json::Value& state, std::string_view request,
                                 Clock::time_point now = Clock::now()) const;
  /// No value: seal() did not make this text for this request, or its time is over.
  [[nodiscard]] std::optional<json::Value> open(std::string_view sealed, std::string_view request,
                                                Clock::time_point now = Clock::now()) const;

 private:
  [[nodiscard]] std::string code(std::string_view end, std::string_view state,
                                 std::string_view request) const;

  std::array<unsigned char, 32> key_;
};

}  // namespace tenon::mcp
