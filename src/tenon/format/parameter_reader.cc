#include "tenon/format/parameter_reader.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "tenon/format/json_filter.h"
#include "tenon/format/space.h"

namespace tenon::format {
namespace {

constexpr std::size_t kMaxField = 512;
constexpr std::size_t kMaxGap = 256;
// Between two values: white space, key, type and the literals around them.
constexpr std::size_t kMaxFrame = 4 * kMaxField;
// A value that is not text by its schema is held up to here; a longer one is text.
constexpr std::size_t kMaxValue = std::size_t{1} << 20;

bool begins(std::string_view literal, std::string_view text) {
  return literal.starts_with(text);
}

/// The types that a schema names at its top, in anyOf/oneOf, or by its enum.
void collect_types(const json::Value& schema, unsigned depth, bool& text, bool& other, bool& null) {
  if (depth > 8) return;
  const auto note = [&](std::string_view type) {
    (type == "string" ? text : type == "null" ? null : other) = true;
  };
  const json::Value* type = schema.find("type");
  if (type != nullptr && type->if_string() != nullptr) note(*type->if_string());
  if (type != nullptr && type->if_array() != nullptr) {
    for (const json::Value& item : *type->if_array()) {
      if (item.if_string() != nullptr) note(*item.if_string());
    }
  }
  if (type != nullptr) return;
  for (const std::string_view key : {"anyOf", "oneOf"}) {
    const json::Value* parts = schema.find(key);
    if (parts == nullptr || parts->if_array() == nullptr) continue;
    for (const json::Value& part : *parts->if_array())
      collect_types(part, depth + 1, text, other, null);
  }
  const json::Value* values = schema.find("enum");
  if (values != nullptr && values->if_array() != nullptr) {
    for (const json::Value& value : *values->if_array()) note(kind_name(value.kind()));
  }
}

}  // namespace

void ParameterReader::start(const Syntax& syntax, std::string_view end, std::string_view outer,
                            const json::Value* schema) {
  syntax_ = &syntax;
  parameter_ = &syntax.parameter;
  end_ = end;
  outer_ = outer;
  used_outer_ = false;
  schema_ = schema;
  status_ = Status::open;
  place_ = Place::gap;
  first_ = true;
  restart();
}

void ParameterReader::restart() {
  repeated_ = false;
  pending_.clear();
  space_.clear();
  value_.clear();
  frame_.clear();
  keys_.clear();
}

std::size_t ParameterReader::feed(std::string_view bytes, std::string& copy) {
  std::size_t used = 0;
  while (used < bytes.size() && status_ == Status::open) {
    if (place_ == Place::value && is_text_ && is_begun_ && pending_.empty() && space_.empty()) {
      // The bytes before anything that could be the end marker or white space before it.
      const std::string_view rest = bytes.substr(used);
      const char stop = value_end().front();
      std::size_t plain = 0;
      while (plain < rest.size() && rest[plain] != stop && !is_space(rest[plain])) ++plain;
      write_text(rest.substr(0, plain), copy);
      used += plain;
      if (used == bytes.size()) break;
    }
    if (frame_.size() == kMaxFrame) {  // so that whatever was used can be given back
      status_ = Status::bad;
      break;
    }
    step(bytes[used], copy);
    if (status_ == Status::bad) break;
    const bool in_frame = place_ == Place::gap || place_ == Place::head;
    if (!in_frame || status_ == Status::done) {
      frame_.clear();
    } else {
      frame_ += bytes[used];
    }
    ++used;
  }
  return used;
}

void ParameterReader::step(char byte, std::string& copy) {
  switch (place_) {
    case Place::gap:
      return step_gap(byte, copy);
    case Place::head:
      return step_head(byte, copy);
    case Place::value:
      return step_value(byte, copy);
    case Place::after_value:
      return step_after_value(byte, copy);
  }
}

// Between parameters: white space, then another one or the end.
void ParameterReader::step_gap(char byte, std::string& copy) {
  if (pending_.empty() && is_space(byte)) return;
  const std::string_view open = parameter_->front().text;
  pending_ += byte;
  if (pending_ == open) {
    begin_head();
  } else if (!ends_here(pending_, copy) && !may_follow(pending_)) {
    status_ = Status::bad;
  }
}

void ParameterReader::begin_head() {
  place_ = Place::head;
  at_ = 1;
  pending_.clear();
  field_.clear();
  key_.clear();
  type_.clear();
}

bool ParameterReader::ends_here(std::string_view text, std::string& copy) {
  used_outer_ = !outer_.empty() && text == outer_;
  if (text != end_ && !used_outer_) return false;
  copy += '}';
  status_ = Status::done;
  return true;
}

bool ParameterReader::may_follow(std::string_view text) const {
  return begins(parameter_->front().text, text) || begins(end_, text) || begins(outer_, text);
}

std::string_view ParameterReader::next_literal(std::size_t from) const {
  while (from < parameter_->size() && (*parameter_)[from].kind != Piece::Kind::literal) ++from;
  return from < parameter_->size() ? std::string_view((*parameter_)[from].text)
                                   : std::string_view();
}

std::string_view ParameterReader::value_end() const {
  return is_quoted_ ? std::string_view(quoted_end_) : next_literal(at_ + 1);
}

// Key, type and the literals around them, up to the value.
void ParameterReader::step_head(char byte, std::string& copy) {
  const Piece& piece = (*parameter_)[at_];
  if (piece.kind == Piece::Kind::space) {
    if (is_space(byte)) return;
    ++at_;
    return step_head(byte, copy);
  }
  if (piece.kind == Piece::Kind::literal) {
    if (field_.empty() && is_space(byte)) return;
    field_ += byte;
    if (!begins(piece.text, field_)) {
      status_ = Status::bad;
      return;
    }
    if (field_.size() < piece.text.size()) return;
    field_.clear();
    ++at_;
  } else {
    const std::string_view end = next_literal(at_);
    field_ += byte;
    if (!field_.ends_with(end)) {
      if (field_.size() > kMaxField) status_ = Status::bad;
      return;
    }
    field_.resize(field_.size() - end.size());
    end_field();
    while ((*parameter_)[at_].kind != Piece::Kind::literal) ++at_;
    ++at_;
  }
  std::size_t next = at_;
  while ((*parameter_)[next].kind == Piece::Kind::space) ++next;
  if ((*parameter_)[next].kind == Piece::Kind::value) begin_value(copy);
}

void ParameterReader::end_field() {
  std::string_view text = trimmed(field_);
  if ((*parameter_)[at_].kind == Piece::Kind::key) {
    key_ = text;
  } else {
    type_ = text;
  }
  field_.clear();
}

ParameterReader::Kind ParameterReader::kind_of_value() {
  may_be_null_ = may_be_other_ = true;
  knows_type_ = false;
  if (!type_.empty()) return type_ == "true" || type_ == "string" ? Kind::text : Kind::json;
  const json::Value* properties = schema_ != nullptr ? schema_->find("properties") : nullptr;
  const json::Value* property = properties != nullptr ? properties->find(key_) : nullptr;
  if (property == nullptr) return Kind::either;
  bool text = false;
  bool other = false;
  bool null = false;
  collect_types(*property, 0, text, other, null);
  if (text && !other && !null) return Kind::text;
  knows_type_ = text || other || null;
  if (text) {
    may_be_null_ = null;
    may_be_other_ = other;
    return Kind::either;
  }
  return other || null ? Kind::json : Kind::either;
}

void ParameterReader::begin_value(std::string& copy) {
  while ((*parameter_)[at_].kind == Piece::Kind::space) ++at_;
  place_ = Place::value;
  kind_ = kind_of_value();
  is_begun_ = false;
  is_text_ = kind_ == Kind::text;
  space_.clear();
  value_.clear();
  pending_.clear();
  is_quoted_ = false;
  may_be_quoted_ = !syntax_->quote_open.empty();
  note_key();
  copy += first_ ? "" : ", ";
  first_ = false;
  json::append_quoted(copy, key_);
  copy += ": ";
  if (is_text_) copy += '"';
}

void ParameterReader::note_key() {
  const std::size_t key = std::hash<std::string_view>()(key_);
  if (std::find(keys_.begin(), keys_.end(), key) != keys_.end()) {
    repeated_ = true;
  } else if (keys_.size() < kMaxKeys) {
    keys_.push_back(key);
  }
}

void ParameterReader::step_value(char byte, std::string& copy) {
  pending_ += byte;
  if (may_be_quoted_) {
    may_be_quoted_ = begins(syntax_->quote_open, pending_);
    if (pending_ == syntax_->quote_open) {
      quoted_end_ = syntax_->quote_close + std::string(value_end());
      is_quoted_ = true;
      may_be_quoted_ = false;
      pending_.clear();
    }
    if (may_be_quoted_ || is_quoted_) return;
  }
  const std::string_view close = value_end();
  if (pending_ == close) {
    place_ = Place::after_value;
    return;
  }
  while (!pending_.empty() && !begins(close, pending_)) {
    put(std::string_view(pending_).substr(0, 1), copy);
    pending_.erase(0, 1);
  }
}

// The end marker has been read: it is one if another parameter or the end follows it.
void ParameterReader::step_after_value(char byte, std::string& copy) {
  const std::string_view close = value_end();
  const std::string_view open = parameter_->front().text;
  pending_ += byte;
  std::string_view after = std::string_view(pending_).substr(close.size());
  while (!after.empty() && is_space(after.front())) after.remove_prefix(1);
  if (after == open || after == end_ || (!outer_.empty() && after == outer_)) {
    end_value(copy);
    if (after == open) {
      frame_.assign(open, 0, open.size() - 1);  // `feed` adds the last byte
      begin_head();
    } else {
      static_cast<void>(ends_here(after, copy));
    }
    return;
  }
  if (may_follow(after) && pending_.size() < kMaxGap) return;
  place_ = Place::value;
  std::string again;
  again.swap(pending_);
  put(std::string_view(again).substr(0, 1), copy);
  for (const char c : std::string_view(again).substr(1)) step(c, copy);
}

// Bytes of the value. One run of white space as the pattern has it, on each side, is its frame.
void ParameterReader::put(std::string_view bytes, std::string& copy) {
  const bool framed_before = (*parameter_)[at_ - 1].kind == Piece::Kind::space;
  const bool framed_after = (*parameter_)[at_ + 1].kind == Piece::Kind::space;
  for (const char byte : bytes) {
    if (!is_begun_) {
      is_begun_ = true;
      if (framed_before && byte == '\n') continue;
    }
    if (framed_after && byte == '\n') {
      if (!space_.empty()) write_text(space_, copy);
      space_ = "\n";
      continue;
    }
    if (!space_.empty()) {
      write_text(space_, copy);
      space_.clear();
    }
    write_text(std::string_view(&byte, 1), copy);
  }
}

void ParameterReader::write_text(std::string_view bytes, std::string& copy) {
  if (!is_text_) {
    value_ += bytes;
    if (value_.size() <= kMaxValue) return;
    is_text_ = true;
    copy += '"';
    std::string whole;
    whole.swap(value_);
    return write_text(whole, copy);
  }
  for (const char byte : bytes) {
    if (byte == '"' || byte == '\\') {
      copy += '\\';
      copy += byte;
    } else if (static_cast<unsigned char>(byte) < 0x20) {
      const std::string quoted = json::quoted(std::string_view(&byte, 1));
      copy.append(quoted, 1, quoted.size() - 2);
    } else {
      copy += byte;
    }
  }
}

void ParameterReader::end_value(std::string& copy) {
  if (is_text_) {
    copy += '"';
  } else {
    write_whole(copy);
  }
  space_.clear();
}

// Whether the schema allows for the value `json`, or one that begins so.
bool ParameterReader::may_be(std::string_view json) const {
  if (kind_ != Kind::either || !knows_type_) return true;
  return json.starts_with('n') ? may_be_null_ : may_be_other_ && !json.starts_with('"');
}

// A value that is JSON is copied as it is written; Python's words for JSON's are taken too.
void ParameterReader::write_whole(std::string& copy) {
  JsonFilter filter;
  std::string json;
  const std::string_view text = trimmed(value_);
  const std::size_t used = filter.feed(text, json);
  if (used == text.size()) filter.finish(json);
  if (used == text.size() && filter.status() == JsonFilter::Status::done && may_be(json)) {
    copy += json;
  } else {
    json::append_quoted(copy, value_);
  }
}

void ParameterReader::finish(std::string& copy) {
  if (status_ == Status::done) return;
  if (place_ == Place::after_value) return end_value(copy);
  if (place_ == Place::value) {
    const std::string held = std::exchange(pending_, {});
    if (!held.empty()) put(held, copy);
    if (is_text_) {
      write_text(std::exchange(space_, {}), copy);
      return;
    }
    JsonFilter filter;
    std::string json;
    const std::string_view text = trimmed(value_);
    if (filter.feed(text, json) == text.size()) {
      if (filter.status() == JsonFilter::Status::open) filter.finish(json);
      if (may_be(json)) {
        copy += json;
        return;
      }
    }
    is_text_ = true;
    copy += '"';
    write_text(std::exchange(value_, {}), copy);
    write_text(std::exchange(space_, {}), copy);
    return;
  }
  if (place_ != Place::head) return;
  // A key that has begun; one that is whole may be followed by literals, which are frame.
  const bool is_open = (*parameter_)[at_].kind == Piece::Kind::key;
  if (!is_open && key_.empty()) return;
  copy += first_ ? "\"" : ", \"";
  is_text_ = true;
  write_text(is_open ? trimmed(field_) : std::string_view(key_), copy);
  if (!is_open) copy += '"';
}

std::string ParameterReader::close(std::string& copy) {
  if (status_ == Status::done) return {};
  if (place_ == Place::value && !pending_.empty()) put(std::exchange(pending_, {}), copy);
  if (place_ == Place::value || place_ == Place::after_value) end_value(copy);
  copy += '}';
  status_ = Status::done;
  const std::size_t word = std::min(frame_.find_first_not_of(" \t\r\n"), frame_.size());
  return frame_.substr(word);
}

}  // namespace tenon::format
