#include "tenon/json/value.h"

#include <bit>
#include <charconv>
#include <cmath>
#include <iterator>

#include "tenon/base/hash.h"
#include "tenon/json/number_text.h"
#include "tenon/json/pointer.h"

// Values of any depth are copied, compared and destroyed in bounded stack space. Copying and
// comparing keep a list of the containers that are still to be visited. Destroying recurses for 64
// levels, which covers nearly all values and is fastest; below that it reverses links, because a
// destructor must not need memory (see unlink_children).
//
// An object is a vector of members in the order of the text. From 16 members on it also has a hash
// table with open addressing: slots of 32 bits hold 1 + the index of a member, and at most half of
// them are used. Keys are hashed with a secret of the process, so a client cannot choose keys that
// collide.
namespace tenon::json {
namespace {

constexpr std::size_t kHashedFrom = 16;  // members; below that a linear search is as fast
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

// The parser's way: a small object without a key that comes twice, which is the usual case, is
// taken as it is. Otherwise members are set one by one, where a later one replaces the value of an
// earlier one.
Object::Object(std::vector<Member> members) : members_(std::move(members)) {
  if (members_.size() < kHashedFrom && !has_doubles()) return;
  std::vector<Member> unchecked;
  unchecked.swap(members_);
  members_.reserve(unchecked.size());
  for (Member& member : unchecked) set(std::move(member.key), std::move(member.value));
}

// Fewer than 16 members, so at most 105 pairs.
bool Object::has_doubles() const {
  for (std::size_t i = 1; i < members_.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (members_[i].key == members_[j].key) return true;
    }
  }
  return false;
}

Object::Object(const Object& other)
    : members_(other.members_),
      slots_(other.slots_ ? std::make_unique<Slots>(*other.slots_) : nullptr) {}

Object& Object::operator=(const Object& other) {
  if (this != &other) *this = Object(other);
  return *this;
}

std::vector<Member>::const_iterator Object::begin() const {
  return members_.begin();
}
std::vector<Member>::const_iterator Object::end() const {
  return members_.end();
}

std::size_t Object::index_of(std::string_view key) const {
  if (!slots_) {
    for (std::size_t i = 0; i < members_.size(); ++i) {
      if (members_[i].key == key) return i;
    }
    return kMissing;
  }
  const Slots& slots = *slots_;
  const std::size_t mask = slots.size() - 1;
  // It ends at a free slot: at least half of them are free.
  for (std::size_t slot = keyed_hash(key) & mask;; slot = (slot + 1) & mask) {
    if (slots[slot] == 0) return kMissing;
    if (members_[slots[slot] - 1].key == key) return slots[slot] - 1;
  }
}

void Object::rebuild_slots(std::size_t slot_count) {
  Slots slots(slot_count, 0);
  const std::size_t mask = slot_count - 1;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    std::size_t slot = keyed_hash(members_[i].key) & mask;
    while (slots[slot] != 0) slot = (slot + 1) & mask;
    slots[slot] = static_cast<std::uint32_t>(i + 1);
  }
  slots_ = std::make_unique<Slots>(std::move(slots));
}

// Enters the last member into the table, which is made when there are kHashedFrom members.
void Object::index_last() {
  if (members_.size() < kHashedFrom) return;
  if (!slots_ || members_.size() * 2 > slots_->size()) {
    // At a quarter of the slots, so that it can double before the table is made again.
    rebuild_slots(std::bit_ceil(members_.size() * 4));
    return;
  }
  Slots& slots = *slots_;
  const std::size_t mask = slots.size() - 1;
  std::size_t slot = keyed_hash(members_.back().key) & mask;
  while (slots[slot] != 0) slot = (slot + 1) & mask;
  slots[slot] = static_cast<std::uint32_t>(members_.size());
}

void Object::append(std::string&& key, Value&& value) {
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
    slots_.reset();
  } else {
    // The members behind it have moved up by one, so nearly all slots are wrong. Erasing is rare.
    rebuild_slots(slots_->size());
  }
  return true;
}

void Object::clear() {
  members_.clear();
  slots_.reset();
}

// Equal sizes and no key twice: if all members of one are in the other, they are the same.
bool Object::operator==(const Object& other) const {
  if (size() != other.size()) return false;
  for (const Member& member : members_) {
    const Value* const match = other.find(member.key);
    if (match == nullptr || !(member.value == *match)) return false;
  }
  return true;
}

// Value -------------------------------------------------------------------------------------------

Value::Value(double value) : Value() {
  if (!std::isfinite(value)) return;
  std::string text;
  detail::append_python_float(text, value);
  *this = Number{std::move(text)};
}

Number Value::number_from(std::int64_t value) {
  return integer_number(value);
}
Number Value::number_from(std::uint64_t value) {
  return integer_number(value);
}

std::size_t Value::child_count() const {
  if (kind_ == Kind::array) return array_.size();
  if (kind_ == Kind::object) return object_.members_.size();
  return 0;
}

const Value& Value::child(std::size_t index) const {
  return kind_ == Kind::array ? array_[index] : object_.members_[index].value;
}

Value& Value::child(std::size_t index) {
  return kind_ == Kind::array ? array_[index] : object_.members_[index].value;
}

void Value::pop_child() {
  if (kind_ == Kind::array) {
    array_.pop_back();
  } else {
    object_.members_.pop_back();
  }
}

void Value::destroy() noexcept {
  constexpr int kRecursiveLevels = 64;  // recursion is quicker than unlinking, and most values have
                                        // fewer levels
  switch (kind_) {
    case Kind::number:
      std::destroy_at(&number_);
      break;
    case Kind::string:
      std::destroy_at(&string_);
      break;
    case Kind::array:
      destroy_children(kRecursiveLevels);
      std::destroy_at(&array_);
      break;
    case Kind::object:
      destroy_children(kRecursiveLevels);
      std::destroy_at(&object_);
      break;
    case Kind::null:
    case Kind::boolean:
      break;
  }
}

// Empties containers from the inside out, so that no destructor calls the destructor of a child.
void Value::destroy_children(int levels) noexcept {
  const std::size_t count = child_count();
  for (std::size_t i = 0; i < count; ++i) {
    Value& next = child(i);
    if (next.child_count() == 0) continue;
    if (levels == 0) {
      next.unlink_children();
    } else {
      next.destroy_children(levels - 1);
    }
  }
  if (kind_ == Kind::array) {
    array_.clear();
  } else {
    object_.members_.clear();
  }
}

// Walks down and up through the tree by reversing links (Schorr and Waite, 1967), so it needs
// neither stack nor memory: while a child is taken apart, its first place holds its parent. The
// value that was in that place is kept in the parent, in the child's place.
void Value::unlink_children() noexcept {
  // Moved here: its destructor at the end has nothing left to do.
  Value current(std::move(*this));
  std::size_t depth = 0;
  while (true) {
    // Below the first level the first place is the link to the parent, and not a child.
    while (current.child_count() > (depth == 0 ? 0 : 1)) {
      Value& last = current.child(current.child_count() - 1);
      if (last.child_count() == 0) {
        current.pop_child();
        continue;
      }
      Value descended(std::move(last));
      last = std::move(descended.child(0));
      descended.child(0) = std::move(current);
      current = std::move(descended);
      ++depth;
    }
    if (depth == 0) return;
    Value parent(std::move(current.child(0)));
    current.pop_child();
    current = std::move(parent);
    --depth;
  }
}

// A container is first made with as many empty children, and then each of these is filled. So no
// pointer in `open` is to a vector that still grows.
Value::Value(const Value& other) : Value() {
  struct Copy {
    const Value* from;
    Value* to;
  };
  std::vector<Copy> open;  // containers whose children are still to be copied
  const auto begin = [&open](const Value& from, Value& to) {
    switch (from.kind_) {
      case Kind::null:
        return;
      case Kind::boolean:
        to = from.boolean_;
        return;
      case Kind::number:
        to = from.number_;
        return;
      case Kind::string:
        to = from.string_;
        return;
      case Kind::array:
        to = Array(from.array_.size());
        break;
      case Kind::object: {
        Object copy;
        copy.members_.reserve(from.object_.size());
        for (const Member& member : from.object_) {
          copy.members_.push_back(Member{member.key, Value()});
        }
        if (from.object_.slots_)
          copy.slots_ = std::make_unique<Object::Slots>(*from.object_.slots_);
        to = std::move(copy);
        break;
      }
    }
    if (from.child_count() > 0) open.push_back({&from, &to});
  };
  begin(other, *this);
  while (!open.empty()) {
    const Copy copy = open.back();
    open.pop_back();
    for (std::size_t i = 0; i < copy.from->child_count(); ++i) {
      begin(copy.from->child(i), copy.to->child(i));
    }
  }
}

Value& Value::operator=(const Value& other) {
  if (this != &other) *this = Value(other);
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
  std::vector<std::pair<const Value*, const Value*>> open;  // containers still to be compared
  const auto differ = [&open](const Value& a, const Value& b) {
    if (a.kind_ != b.kind_) return true;
    switch (a.kind_) {
      case Kind::null:
        return false;
      case Kind::boolean:
        return a.boolean_ != b.boolean_;
      case Kind::number:
        return !a.number_.equals(b.number_);
      case Kind::string:
        return a.string_ != b.string_;
      case Kind::array:
      case Kind::object:
        break;
    }
    if (a.child_count() != b.child_count()) return true;
    if (a.child_count() > 0) open.emplace_back(&a, &b);
    return false;
  };
  // Containers that are equal so far wait in `open`; all others are decided at once.
  if (differ(*this, other)) return false;
  while (!open.empty()) {
    const auto [a, b] = open.back();
    open.pop_back();
    for (std::size_t i = 0; i < a->child_count(); ++i) {
      const Value* const match =
          a->kind_ == Kind::array ? &b->child(i) : b->find(a->object_.members_[i].key);
      if (match == nullptr || differ(a->child(i), *match)) return false;
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

// RFC 6901, section 4: an index has no zeros in front, and "-" is behind the last item, where there
// is no value.
const Value* item_at(const Array& items, std::string_view token) {
  std::size_t index = 0;
  const char* const end = token.data() + token.size();
  const auto [last, error] = std::from_chars(token.data(), end, index);
  const bool is_index =
      error == std::errc() && last == end && (token.size() == 1 || token[0] != '0');
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
      at = at->find(pointer_key(token));
    }
  }
  return at;
}

}  // namespace tenon::json
