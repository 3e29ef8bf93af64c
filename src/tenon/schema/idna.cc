#include "tenon/schema/idna.h"

namespace tenon::schema {

bool is_hostname(std::string_view text) {
  constexpr std::size_t kMostBytes = 253;
  return text.size() <= kMostBytes;
}

bool is_idn_hostname(std::string_view text) {
  return !text.empty();
}

}  // namespace tenon::schema
