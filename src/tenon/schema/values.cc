#include "tenon/schema/values.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/base/hash.h"
#include "tenon/json/decimal.h"

namespace tenon::schema {
namespace {

// Equal numbers have equal digits and exponents, however they are written: 1.50 and 15e-1 are
// 15e-1.
void append_number(std::string& out, const json::Number& number) {
  const json::Decimal decimal = json::decimal_of(number.text);
  if (decimal.is_zero()) {
    out.push_back('0');
    return;
  }
  if (decimal.negative) out.push_back('-');
  for (std::size_t i = 0; i < decimal.size(); ++i) out.push_back(decimal.digit(i));
  out.append("e").append(std::to_string(decimal.exponent)).append(decimal.huge);
}

// The length comes first, so that no two values have the same text.
void append_string(std::string& out, std::string_view text) {
  out.append(std::to_string(text.size())).append("\"").append(text);
}

}  // namespace

std::string canonical_text(const json::Value& value) {
  struct Open {
    std::vector<const json::Member*> members;  // by key
    const json::Array* items = nullptr;        // or else the items
    std::size_t next = 0;
  };
  std::string out;
  std::vector<Open> open;
  const auto begin = [&](const json::Value& at) {
    switch (at.kind()) {
      case json::Kind::null:
        out.push_back('n');
        return;
      case json::Kind::boolean:
        out.push_back(*at.if_bool() ? 't' : 'f');
        return;
      case json::Kind::number:
        append_number(out, *at.if_number());
        return;
      case json::Kind::string:
        append_string(out, *at.if_string());
        return;
      case json::Kind::array:
        out.push_back('[');
        open.push_back({.items = at.if_array()});
        return;
      case json::Kind::object: {
        out.push_back('{');
        Open object;
        for (const json::Member& member : *at.if_object()) object.members.push_back(&member);
        std::ranges::sort(object.members, {}, &json::Member::key);
        open.push_back(std::move(object));
        return;
      }
    }
  };
  begin(value);
  while (!open.empty()) {
    Open& top = open.back();
    const std::size_t index = top.next++;
    if (top.items != nullptr && index < top.items->size()) {
      out.push_back(',');
      begin((*top.items)[index]);
    } else if (top.items == nullptr && index < top.members.size()) {
      append_string(out, top.members[index]->key);
      out.push_back(':');
      begin(top.members[index]->value);
    } else {
      out.push_back(top.items != nullptr ? ']' : '}');
      open.pop_back();
    }
  }
  return out;
}

// Keyed with a secret of the process, so that no client can choose values that collide.
std::uint64_t hash_of(const json::Value& value) {
  return keyed_hash(canonical_text(value));
}

// Sorted by hash, equal items stand side by side, in the order of their indices. The pair that is
// told is the one whose second item comes first. n items take n log n comparisons of hashes and not
// n * n of values.
std::optional<std::pair<std::size_t, std::size_t>> equal_items(const json::Array& items) {
  struct Slot {
    std::uint64_t hash;
    std::size_t index;
  };
  std::vector<Slot> slots;
  slots.reserve(items.size());
  for (std::size_t i = 0; i < items.size(); ++i) slots.push_back({hash_of(items[i]), i});
  std::ranges::sort(slots, [](const Slot& a, const Slot& b) {
    return a.hash != b.hash ? a.hash < b.hash : a.index < b.index;
  });
  std::optional<std::pair<std::size_t, std::size_t>> first;
  for (std::size_t i = 1; i < slots.size(); ++i) {
    const auto [a, b] = std::pair(slots[i - 1], slots[i]);
    if (a.hash != b.hash || !(items[a.index] == items[b.index])) continue;
    if (!first || b.index < first->second) first = {a.index, b.index};
  }
  return first;
}

// How many values it is made of, itself included: what comparing or hashing it costs.
std::uint64_t size_of(const json::Value& value) {
  std::uint64_t size = 0;
  std::vector<const json::Value*> open{&value};
  while (!open.empty()) {
    const json::Value& at = *open.back();
    open.pop_back();
    ++size;
    if (const json::Array* items = at.if_array()) {
      for (const json::Value& item : *items) open.push_back(&item);
    } else if (const json::Object* members = at.if_object()) {
      for (const json::Member& member : *members) open.push_back(&member.value);
    }
  }
  return size;
}

}  // namespace tenon::schema
