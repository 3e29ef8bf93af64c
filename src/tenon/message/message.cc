#include "tenon/message/message.h"

#include <array>

namespace tenon::message {
namespace {

// In the order of the enumerators.
constexpr std::array<std::string_view, 5> kRoleNames = {"system", "developer", "user", "assistant",
                                                        "tool"};

}  // namespace

std::string_view role_name(Role role) {
  return kRoleNames.at(static_cast<std::size_t>(role));
}

std::optional<Role> role_from_name(std::string_view name) {
  for (std::size_t i = 0; i < kRoleNames.size(); ++i) {
    if (kRoleNames[i] == name) return static_cast<Role>(i);
  }
  return std::nullopt;
}

std::string Message::text() const {
  if (content) return *content;
  std::string joined;
  for (const ContentPart& part : parts) {
    if (part.type == "text") joined += part.text;
  }
  return joined;
}

}  // namespace tenon::message
