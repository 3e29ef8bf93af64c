#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "tenon/json/value.h"

namespace tenon::mcp {

/// Hands a state to a client, which gives it back with its next request. The client can read it;
/// what it changes, or gives back with another request, is refused. The key is this object's own,
/// so a state ends with the process. Thread-safe.
class RequestStates {
 public:
  RequestStates();

  /// `request` tells what the state belongs to.
  [[nodiscard]] std::string seal(const json::Value& state, std::string_view request) const;
  /// No value: seal() did not make this text for this request.
  [[nodiscard]] std::optional<json::Value> open(std::string_view sealed,
                                                std::string_view request) const;

 private:
  [[nodiscard]] std::string code(std::string_view state, std::string_view request) const;

  std::array<unsigned char, 32> key_;
};

}  // namespace tenon::mcp
