#include "tenon/format/attributes.h"

#include <algorithm>
#include <cctype>

#include "tenon/format/space.h"

// A state machine over the bytes of a tag behind its name: gap, name, equals sign, value, gap.
// begin_value() finds the attribute of that name in the definition; values of other attributes are
// read and dropped.

namespace tenon::format {
namespace {

// Bytes; if a key is too long, no call is made of the tag.
constexpr std::size_t kMaxAttributes = 1024;

bool is_attribute_byte(char byte) {
  return std::isalnum(static_cast<unsigned char>(byte)) != 0 || byte == '_' || byte == '-' ||
         byte == ':' || byte == '.';
}

}  // namespace

void AttributeReader::start(const Piece& head) {
  head_ = &head;
  status_ = Status::open;
  place_ = Place::gap;
  has_space_ = closes_itself_ = false;
  size_ = matched_ = 0;
  attribute_ = nullptr;
  text_.clear();
  ignored_.clear();
  values_.assign(head.attributes.size(), {});
  given_.assign(head.attributes.size(), false);
}

AttributeReader::Status AttributeReader::feed(char byte) {
  if (++size_ > kMaxAttributes) fail();
  if (status_ == Status::open) step(byte);
  return status_;
}

void AttributeReader::step(char byte) {
  switch (place_) {
    case Place::gap:
      return step_gap(byte);
    case Place::name:
      if (is_attribute_byte(byte)) {
        text_ += byte;
        return;
      }
      place_ = Place::behind_name;
      [[fallthrough]];
    // White space may stand around the equals sign.
    case Place::behind_name:
      if (is_space(byte)) return;
      if (byte == '=') {
        begin_value();
        return;
      }
      place_ = Place::gap;  // a name without a value means nothing
      has_space_ = true;
      return step_gap(byte);
    case Place::equals:
      if (is_space(byte)) return;
      if (byte == '"' || byte == '\'') {
        quote_ = byte;
        place_ = Place::quoted;
        return;
      }
      place_ = Place::plain;
      [[fallthrough]];
    // Without quotes a value ends at white space or where the tag's end begins.
    case Place::plain:
      if (is_space(byte) || byte == head_->text.front()) {
        // `<invoke name=f/>`: the slash belongs to the tag.
        if (byte == '>' && text_.ends_with('/')) {
          text_.pop_back();
          closes_itself_ = true;
        }
        end_value();
        return step_gap(byte);
      }
      if (byte == '"' || byte == '\'') return fail();
      text_ += byte;
      return;
    case Place::quoted: {
      if (byte == quote_) return end_value();
      const bool is_type = attribute_ != nullptr && attribute_->kind == Piece::Kind::type;
      // The type's other quote is missing.
      if (is_type && byte == head_->text.front() && !text_.empty() &&
          std::ranges::all_of(text_, is_attribute_byte)) {
        end_value();
        return step_gap(byte);
      }
      if (byte == '\n' || (is_type && (byte == '<' || byte == '>'))) return fail();
      text_ += byte;
      return;
    }
  }
}

// Before a name, or at the end of the tag.
void AttributeReader::step_gap(char byte) {
  const std::string& end = head_->text;
  if (byte == end[matched_]) {
    if (++matched_ == end.size()) status_ = Status::done;
    return;
  }
  // The tag's end has begun, and nothing else may come within it.
  if (matched_ > 0 || closes_itself_) return fail();
  if (is_space(byte)) {
    has_space_ = true;
  } else if (byte == '/') {
    closes_itself_ = true;
  } else if (has_space_ && is_attribute_byte(byte)) {
    text_.assign(1, byte);
    place_ = Place::name;
  } else {
    fail();
  }
}

void AttributeReader::begin_value() {
  const auto known = std::ranges::find(head_->attributes, text_, &Attribute::name);
  attribute_ = known == head_->attributes.end() ? nullptr : &*known;
  text_.clear();
  place_ = Place::equals;
}

void AttributeReader::end_value() {
  // The first value of a name counts. The first value that is not needed is kept in ignored_.
  bool is_of_use = false;
  if (attribute_ != nullptr) {
    const auto at = static_cast<std::size_t>(attribute_ - head_->attributes.data());
    const bool is_word = std::ranges::all_of(text_, is_attribute_byte);
    const bool is_content =
        attribute_->kind != Piece::Kind::index && attribute_->kind != Piece::Kind::type;
    is_of_use = !given_[at] && (is_content || is_word);
    if (!given_[at]) values_[at] = text_;
    given_[at] = true;
  }
  if (!is_of_use && ignored_.empty()) ignored_ = text_;
  attribute_ = nullptr;
  text_.clear();
  place_ = Place::gap;
  has_space_ = true;
}

const std::string* AttributeReader::value(Piece::Kind kind) const {
  for (std::size_t at = 0; at < given_.size(); ++at) {
    if (given_[at] && head_->attributes[at].kind == kind) return &values_[at];
  }
  return nullptr;
}

const std::string* AttributeReader::open_value(Piece::Kind kind) const {
  const bool is_open = place_ == Place::quoted || place_ == Place::plain;
  return is_open && attribute_ != nullptr && attribute_->kind == kind ? &text_ : nullptr;
}

}  // namespace tenon::format
