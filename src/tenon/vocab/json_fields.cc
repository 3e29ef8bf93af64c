#include "tenon/vocab/json_fields.h"

#include <utility>

namespace tenon::vocab {

Fields::Fields(const json::Value* value, std::string place, std::optional<Error>& error)
    : value_(value), place_(std::move(place)), error_(error) {
  if (value_ != nullptr && value_->if_object() == nullptr) {
    fail(Errc::invalid, "is no object");
    value_ = nullptr;
  }
}

// "model.vocab"; the file itself has no name.
std::string Fields::place_of(std::string_view name) const {
  return place_.empty() ? std::string(name) : place_ + "." + std::string(name);
}

void Fields::fail(Errc code, std::string_view what) {
  if (error_) return;
  error_ = Error{code, (place_.empty() ? "the file" : place_) + " " + std::string(what)};
}

const json::Value* Fields::any(std::string_view name) {
  // Asked for is enough: finish() refuses only what no caller knows.
  read_.insert(name);
  if (error_ || value_ == nullptr) return nullptr;
  const json::Value* member = value_->find(name);
  // null stands for "not given", as serde writes it.
  return member == nullptr || member->is_null() ? nullptr : member;
}

const json::Array* Fields::array(std::string_view name) {
  static const json::Array kNone;
  const json::Value* member = any(name);
  if (member == nullptr) return &kNone;
  if (member->if_array() != nullptr) return member->if_array();
  fail(Errc::invalid, "has a '" + std::string(name) + "' that is no array");
  return &kNone;
}

std::optional<std::string> Fields::string(std::string_view name) {
  const json::Value* member = any(name);
  if (member == nullptr) return std::nullopt;
  if (member->if_string() != nullptr) return *member->if_string();
  fail(Errc::invalid, "has a '" + std::string(name) + "' that is no string");
  return std::nullopt;
}

std::string Fields::needed_string(std::string_view name) {
  std::optional<std::string> text = string(name);
  if (!text) fail(Errc::invalid, "has no '" + std::string(name) + "'");
  return text.value_or("");
}

bool Fields::boolean(std::string_view name, bool otherwise) {
  const json::Value* member = any(name);
  if (member == nullptr) return otherwise;
  if (member->if_bool() != nullptr) return *member->if_bool();
  fail(Errc::invalid, "has a '" + std::string(name) + "' that is neither true nor false");
  return otherwise;
}

std::optional<std::int64_t> Fields::integer(std::string_view name) {
  const json::Value* member = any(name);
  if (member == nullptr) return std::nullopt;
  if (member->if_number() != nullptr && member->if_number()->to_int64()) {
    return member->if_number()->to_int64();
  }
  fail(Errc::invalid, "has a '" + std::string(name) + "' that is no integer");
  return std::nullopt;
}

void Fields::finish() {
  if (error_ || value_ == nullptr) return;
  // A member that is null says nothing, so it may be unknown.
  for (const json::Member& member : *value_->if_object()) {
    if (member.value.is_null() || read_.contains(member.key)) continue;
    fail(Errc::unsupported, "has '" + member.key + "', which is not supported");
    return;
  }
}

}  // namespace tenon::vocab
