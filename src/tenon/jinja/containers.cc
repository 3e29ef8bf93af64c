#include <algorithm>

#include "tenon/jinja/unicode.h"
#include "tenon/jinja/values.h"

/// Python's lists and dicts. A dict keeps the order of insertion. Small dicts are searched, larger
/// ones have a table with open addressing.
namespace tenon::jinja {

// --- lists

Value Values::make_list(std::uint32_t capacity, bool is_data, Tag tag) {
  Value value;
  value.tag = tag;
  value.flags = is_data ? kData : 0;
  value.list = arena().make<List>(arena().array<Value>(capacity), 0U, capacity, false);
  return value;
}

void Values::append(Value& value, const Value& item) {
  List& list = *value.list;
  // The old array stays in the arena until the rendering ends, so doubling wastes as much as is
  // used.
  if (list.size == list.capacity) {
    const std::uint32_t capacity = std::max(4U, list.capacity * 2);
    auto* items = arena().array<Value>(capacity);
    std::copy_n(list.items, list.size, items);
    list.items = items;
    list.capacity = capacity;
  }
  list.items[list.size++] = item;
}

Value Values::pair(const Value& first, const Value& second, bool is_data) {
  Value value = make_list(2, is_data, Tag::tuple);
  append(value, first);
  append(value, second);
  return value;
}

Value Values::item_at(const Value& sequence, std::int64_t index) {
  switch (sequence.tag) {
    case Tag::list:
    case Tag::tuple:
      return sequence.list->items[index];
    case Tag::json_list:
      return import((*sequence.json_list)[static_cast<std::size_t>(index)]);
    case Tag::range:
      return make_int(sequence.range->start + index * sequence.range->step, sequence.is_data());
    case Tag::bytes:
      return make_int(static_cast<unsigned char>(sequence.bytes()[static_cast<std::size_t>(index)]),
                      sequence.is_data());
    default: {
      // A string. Walks over strings use TextIterator, which is not quadratic.
      const Text text = text_of(sequence);
      const auto wanted = static_cast<std::size_t>(index);
      charge(wanted * 2);
      const std::size_t begin = unicode::offset(text.bytes, wanted);
      return substring(text, begin, unicode::offset(text.bytes, 1, begin));
    }
  }
}

// --- dicts

// Entries get memory once something is stored.
Value Values::make_dict(bool is_data) {
  Value value;
  value.tag = Tag::dict;
  value.flags = is_data ? kData : 0;
  value.dict = arena().make<Dict>(nullptr, 0U, 0U, nullptr, 0U);
  return value;
}

Value* Values::find(const Dict& dict, const Value& key) {
  if (dict.size == 0) return nullptr;
  // Small dicts compare texts directly, so that most lookups need no hash.
  if (dict.slots == nullptr && key.is(Tag::string)) return find(dict, key.bytes());
  const std::uint64_t wanted = hash(key);
  if (dict.slots == nullptr) {
    for (std::uint32_t i = 0; i < dict.size; ++i) {
      Dict::Entry& entry = dict.entries[i];
      if (entry.hash == wanted && (identical(entry.key, key) || equal(entry.key, key))) {
        return &entry.value;
      }
    }
    return nullptr;
  }
  // At most half of the places are taken, so there is an empty one to end the search.
  for (std::uint64_t slot = wanted;; ++slot) {
    step();
    const std::uint32_t number = dict.slots[slot & (dict.slot_count - 1)];
    if (number == 0) return nullptr;
    Dict::Entry& entry = dict.entries[number - 1];
    if (entry.hash == wanted && (identical(entry.key, key) || equal(entry.key, key))) {
      return &entry.value;
    }
  }
}

Value* Values::find(const Dict& dict, std::string_view key) {
  if (dict.slots == nullptr) {
    for (std::uint32_t i = 0; i < dict.size; ++i) {
      Dict::Entry& entry = dict.entries[i];
      if (entry.key.is_string() && entry.key.size == key.size() &&
          text_of(entry.key).bytes == key) {
        return &entry.value;
      }
    }
    return nullptr;
  }
  return find(dict, make_string(key));
}

void Values::set(Value& value, const Value& key, const Value& item) {
  Dict& dict = *value.dict;
  if (Value* found = find(dict, key)) {
    *found = item;
    return;
  }
  const std::uint64_t hashed = hash(key);  // fails for values that cannot be a dict's key
  if (dict.size == dict.capacity) {
    // Powers of two, so that a hash is cut to a place by a mask.
    const std::uint32_t capacity = std::max(4U, dict.capacity * 2);
    auto* entries = arena().array<Dict::Entry>(capacity);
    std::copy_n(dict.entries, dict.size, entries);
    dict.entries = entries;
    dict.capacity = capacity;
    // The table is twice as large as the entries, and holds entry numbers from 1, so that 0 is
    // free.
    if (capacity > 8) {
      dict.slot_count = capacity * 2;
      dict.slots = arena().array<std::uint32_t>(dict.slot_count);
      std::fill_n(dict.slots, dict.slot_count, 0U);
      for (std::uint32_t i = 0; i < dict.size; ++i) {
        std::uint64_t slot = entries[i].hash;
        while (dict.slots[slot & (dict.slot_count - 1)] != 0) ++slot;
        dict.slots[slot & (dict.slot_count - 1)] = i + 1;
      }
    }
  }
  dict.entries[dict.size++] = {key, item, hashed};
  if (dict.slots == nullptr) return;
  std::uint64_t slot = hashed;
  while (dict.slots[slot & (dict.slot_count - 1)] != 0) {
    ++slot;
    step();
  }
  dict.slots[slot & (dict.slot_count - 1)] = dict.size;
}

bool Values::erase(Dict& dict, const Value& key, Value& value) {
  Value* found = find(dict, key);
  if (found == nullptr) return false;
  value = *found;
  std::uint32_t at = 0;
  while (&dict.entries[at].value != found) ++at;
  std::copy(dict.entries + at + 1, dict.entries + dict.size, dict.entries + at);
  --dict.size;
  charge(dict.size);
  // Entries have moved, so all places are found anew. Removing is rare.
  if (dict.slots != nullptr) {
    std::fill_n(dict.slots, dict.slot_count, 0U);
    for (std::uint32_t i = 0; i < dict.size; ++i) {
      std::uint64_t slot = dict.entries[i].hash;
      while (dict.slots[slot & (dict.slot_count - 1)] != 0) ++slot;
      dict.slots[slot & (dict.slot_count - 1)] = i + 1;
    }
  }
  return true;
}

Value Values::get(const Value& mapping, const Value& key) {
  if (mapping.is(Tag::json_dict)) {
    if (!key.is_string()) return {};  // JSON has no other keys
    return get(mapping, text_of(key).bytes);
  }
  const Value* found = find(*mapping.dict, key);
  return found == nullptr ? Value{} : *found;
}

Value Values::get(const Value& mapping, std::string_view key) {
  if (mapping.is(Tag::json_dict)) {
    const json::Value* found = mapping.json_dict->find(key);
    return found == nullptr ? Value{} : import(*found);
  }
  const Value* found = find(*mapping.dict, key);
  return found == nullptr ? Value{} : *found;
}

void Values::entry_at(const Value& mapping, std::size_t index, Value& key, Value& value) {
  step();
  if (mapping.is(Tag::json_dict)) {
    const json::Member& member = mapping.json_dict->members()[index];
    key = make_string(member.key, true);
    value = import(member.value);
    return;
  }
  key = mapping.dict->entries[index].key;
  value = mapping.dict->entries[index].value;
}

}  // namespace tenon::jinja
