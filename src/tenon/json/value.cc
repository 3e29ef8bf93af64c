#include "tenon/json/value.h"

#include <bit>
#include <charconv>
#include <cmath>
#include <iterator>

#include "tenon/base/hash.h"
#include "tenon/json/number_text.h"

namespace tenon::json {
namespace {

constexpr std::size_t kHashedFrom = 16;  // members; a linear search of fewer is as fast
constexpr auto kMissing = static_cast<std::size_t>(-1);

template <class Integer>
Number integer_number(Integer value) {
  char buffer[24];
  char* const end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  return Number{std::string(buffer, end)};
}

}  // namespace

// Object ------------------------------------------------------------------------------------------

Object::Object(std::initializer_list<Member> members) {
  members_.reserve(members.size());
  for (const Member& member : members) set(member.key, member.value);
}

std::vector<Member>::const_iterator Object::begin() const { return members_.begin(); }
std::vector<Member>::const_iterator Object::end() const { return members_.end(); }

std::size_t Object::index_of(std::string_view key) const {
  if (slots_.empty()) {
    for (std::size_t i = 0; i < members_.size(); ++i) {
      if (members_[i].key == key) return i;
    }
    return kMissing;
  }
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t slot = keyed_hash(key) & mask;; slot = (slot + 1) & mask) {
    if (slots_[slot] == 0) return kMissing;
    if (members_[slots_[slot] - 1].key == key) return slots_[slot] - 1;
  }
}

Value& Object::value_at(std::size_t index) { return members_[index].value; }

void Object::rebuild_slots(std::size_t slot_count) {
  slots_.assign(slot_count, 0);
  const std::size_t mask = slot_count - 1;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    std::size_t slot = keyed_hash(members_[i].key) & mask;
    while (slots_[slot] != 0) slot = (slot + 1) & mask;
    slots_[slot] = static_cast<std::uint32_t>(i + 1);
  }
}

void Object::index_last() {
  if (members_.size() < kHashedFrom) return;
  if (members_.size() * 2 > slots_.size()) {
    rebuild_slots(std::bit_ceil(members_.size() * 4));
    return;
  }
  const std::size_t mask = slots_.size() - 1;
  std::size_t slot = keyed_hash(members_.back().key) & mask;
  while (slots_[slot] != 0) slot = (slot + 1) & mask;
  slots_[slot] = static_cast<std::uint32_t>(members_.size());
}

void Object::append(std::string key, Value value) {
  members_.push_back(Member{std::move(key), std::move(value)});
  index_last();
}

const Value* Object::find(std::string_view key) const {
  const std::size_t index = index_of(key);
  return index == kMissing ? nullptr : &members_[index].value;
}

Value* Object::find(std::string_view key) {
  const std::size_t index = index_of(key);
  return index == kMissing ? nullptr : &members_[index].value;
}

Value& Object::operator[](std::string_view key) {
  if (Value* value = find(key)) return *value;
  append(std::string(key), Value());
  return members_.back().value;
}

bool Object::set(std::string key, Value value) {
  if (Value* old = find(key)) {
    *old = std::move(value);
    return false;
  }
  append(std::move(key), std::move(value));
  return true;
}

bool Object::erase(std::string_view key) {
  const std::size_t index = index_of(key);
  if (index == kMissing) return false;
  members_.erase(members_.begin() + static_cast<std::ptrdiff_t>(index));
  if (members_.size() < kHashedFrom) {
    slots_.clear();
  } else {
    rebuild_slots(slots_.size());
  }
  return true;
}

void Object::clear() {
  members_.clear();
  slots_.clear();
}

bool Object::operator==(const Object& other) const {
  if (size() != other.size()) return false;
  for (const Member& member : members_) {
    const Value* const match = other.find(member.key);
    if (match == nullptr || !(member.value == *match)) return false;
  }
  return true;
}

// Value -------------------------------------------------------------------------------------------

Value::Value(double value) {
  if (!std::isfinite(value)) return;
  Number number{""};
  detail::append_python_float(number.text, value);
  data_ = std::move(number);
}

Number Value::number_from(std::int64_t value) { return integer_number(value); }
Number Value::number_from(std::uint64_t value) { return integer_number(value); }

std::size_t Value::child_count() const {
  if (const Array* items = if_array()) return items->size();
  if (const Object* members = if_object()) return members->size();
  return 0;
}

Value& Value::child(std::size_t index) {
  if (Array* items = if_array()) return (*items)[index];
  return if_object()->value_at(index);
}

void Value::pop_child() {
  if (Array* items = if_array()) {
    items->pop_back();
  } else {
    if_object()->members_.pop_back();
  }
}

// Walks down and up through the tree by turning links round (Schorr and Waite, 1967), so it needs
// neither stack nor memory: while a child is taken apart, its first place holds its parent, and
// what stood there waits in the parent, in the child's place.
void Value::destroy_children() {
  if (child_count() == 0) return;
  Value current;
  std::size_t depth = 0;
  std::swap(current.data_, data_);
  while (true) {
    while (current.child_count() > (depth == 0 ? 0 : 1)) {
      Value& last = current.child(current.child_count() - 1);
      if (last.child_count() == 0) {
        current.pop_child();
        continue;
      }
      Value descended;
      std::swap(descended.data_, last.data_);
      std::swap(last.data_, descended.child(0).data_);
      std::swap(descended.child(0).data_, current.data_);
      std::swap(current.data_, descended.data_);
      ++depth;
    }
    if (depth == 0) return;
    Value parent;
    std::swap(parent.data_, current.child(0).data_);
    current.pop_child();
    std::swap(current.data_, parent.data_);
    --depth;
    // `parent` is now the child, empty; it ends here.
  }
}

Value::Value(const Value& other) {
  struct Copy {
    const Value* from;
    Value* to;
  };
  std::vector<Copy> open;  // containers whose children are still to be copied
  const auto begin = [&open](const Value& from, Value& to) {
    if (const Array* items = from.if_array()) {
      to.data_.emplace<Array>(items->size());
    } else if (const Object* members = from.if_object()) {
      Object& copy = to.data_.emplace<Object>();
      copy.members_.reserve(members->size());
      for (const Member& member : *members) copy.members_.push_back(Member{member.key, Value()});
      copy.slots_ = members->slots_;
    } else {
      to.data_ = from.data_;
      return;
    }
    if (from.child_count() > 0) open.push_back({&from, &to});
  };
  begin(other, *this);
  while (!open.empty()) {
    const Copy copy = open.back();
    open.pop_back();
    const Array* const items = copy.from->if_array();
    for (std::size_t i = 0; i < copy.from->child_count(); ++i) {
      begin(items != nullptr ? (*items)[i] : copy.from->if_object()->members_[i].value,
            copy.to->child(i));
    }
  }
}

Value& Value::operator=(const Value& other) {
  if (this != &other) *this = Value(other);
  return *this;
}

// By way of a third value: `other` may be a part of what this value held.
Value& Value::operator=(Value&& other) noexcept {
  Value taken(std::move(other));
  std::swap(data_, taken.data_);
  return *this;
}

const Value* Value::find(std::string_view key) const {
  const Object* const members = if_object();
  return members == nullptr ? nullptr : members->find(key);
}

Value* Value::find(std::string_view key) {
  Object* const members = if_object();
  return members == nullptr ? nullptr : members->find(key);
}

bool Value::operator==(const Value& other) const {
  std::vector<std::pair<const Value*, const Value*>> open{{this, &other}};
  while (!open.empty()) {
    const auto [a, b] = open.back();
    open.pop_back();
    if (a->kind() != b->kind() || a->child_count() != b->child_count()) return false;
    switch (a->kind()) {
      case Kind::array:
        for (std::size_t i = 0; i < a->if_array()->size(); ++i) {
          open.emplace_back(&(*a->if_array())[i], &(*b->if_array())[i]);
        }
        break;
      case Kind::object:
        for (const Member& member : *a->if_object()) {
          const Value* const match = b->find(member.key);
          if (match == nullptr) return false;
          open.emplace_back(&member.value, match);
        }
        break;
      case Kind::number:
        if (!a->if_number()->equals(*b->if_number())) return false;
        break;
      default:
        if (a->data_ != b->data_) return false;
    }
  }
  return true;
}

std::string_view kind_name(Kind kind) {
  constexpr std::string_view kNames[] = {"null", "boolean", "number", "string", "array", "object"};
  return kNames[static_cast<std::size_t>(kind)];
}

// Pointer -----------------------------------------------------------------------------------------

namespace {

std::string unescaped(std::string_view token) {
  std::string key;
  for (std::size_t i = 0; i < token.size(); ++i) {
    const bool is_escape = token[i] == '~' && i + 1 < token.size();
    if (is_escape && token[i + 1] == '0') {
      key.push_back('~');
      ++i;
    } else if (is_escape && token[i + 1] == '1') {
      key.push_back('/');
      ++i;
    } else {
      key.push_back(token[i]);
    }
  }
  return key;
}

const Value* item_at(const Array& items, std::string_view token) {
  std::size_t index = 0;
  const char* const end = token.data() + token.size();
  const auto [last, error] = std::from_chars(token.data(), end, index);
  const bool is_index = error == std::errc() && last == end && (token.size() == 1 || token[0] != '0');
  return is_index && index < items.size() ? &items[index] : nullptr;
}

}  // namespace

const Value* at_pointer(const Value& root, std::string_view pointer) {
  const Value* at = &root;
  while (!pointer.empty() && at != nullptr) {
    if (pointer.front() != '/') return nullptr;
    pointer.remove_prefix(1);
    const std::string_view token = pointer.substr(0, pointer.find('/'));
    pointer.remove_prefix(token.size());
    if (const Array* items = at->if_array()) {
      at = item_at(*items, token);
    } else {
      at = at->find(unescaped(token));
    }
  }
  return at;
}

}  // namespace tenon::json
