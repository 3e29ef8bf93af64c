#include "tenon/batch/line.h"

#include <string>

namespace tenon::batch {

Error wrong_member(std::string_view member, std::string_view what) {
  return Error::at(Errc::invalid, std::string(member), what);
}

Expected<std::size_t> chosen(const json::Object& request, std::string_view member,
                             std::span<const std::string_view> words, std::size_t otherwise) {
  const json::Value* const value = request.find(member);
  if (value == nullptr) return otherwise;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (value->if_string() != nullptr && *value->if_string() == words[i]) return i;
  }
  std::string list;
  for (const std::string_view word : words) list += (list.empty() ? "" : ", ") + std::string(word);
  return Unexpected(wrong_member(member, "must be one of " + list));
}

Expected<bool> flag(const json::Object& request, std::string_view member, bool otherwise) {
  const json::Value* const value = request.find(member);
  if (value == nullptr || value->is_null()) return otherwise;
  if (value->if_bool() == nullptr) return Unexpected(wrong_member(member, "must be true or false"));
  return *value->if_bool();
}

}  // namespace tenon::batch
