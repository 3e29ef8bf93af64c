#include "tenon/format/parameter_reader.h"

#include <algorithm>
#include <cctype>
#include <functional>
#include <map>
#include <span>
#include <utility>

#include "tenon/format/entities.h"
#include "tenon/format/json_filter.h"
#include "tenon/format/raw_text.h"
#include "tenon/format/space.h"

// Reads arguments that are written one by one between markers (`<parameter=a>1</parameter>`), and
// writes them as one JSON object. The states are: between two parameters (step_gap), inside the
// literals, key and type before a value (step_head), the value itself (step_value_start, put), and
// after its end marker (step_after_value).
//
// The schema decides how a value is written. Text is escaped and passed on as it comes; anything
// else waits in value_ until it is complete, and is then copied as JSON, or as text if it is not
// JSON. White space that belongs to the value's frame waits in space_.
//
// The end of a value is uncertain, because a value may contain its own end marker. So bytes that
// may be a marker wait in pending_, and an end marker counts only if another parameter or the end
// of the call follows; otherwise it is text (Follow, follow(), end_mark()). A marker that is
// missing or has another name is accepted only where the definition allows it and the text after it
// fits (early_end, wrong_end).
//
// A marker that ends the call may also stand alone in a value, because the value's own end marker
// is missing or because the value is about such markers. Only what follows tells which it is. So
// from there on the value is kept apart (doubt_): if it ends as a value should, the marker was part
// of it; if the text ends first, the call ended at the marker (end_at_doubt).
//
// Elements inside an element are levels on a stack (levels_), each an object or an array by its
// schema, or by its first element's name.

namespace tenon::format {
namespace {

constexpr std::size_t kMaxParameterField = 512;
constexpr std::size_t kMaxKeyInEnd = 64;  // for an end marker with another key
constexpr std::size_t kMaxGap = 256;
constexpr std::size_t kMaxLeftOver = 100;  // of text that is reported
// Between two values: white space, key, type and the literals around them.
constexpr std::size_t kMaxFrame = 4 * kMaxParameterField;
// A value that is not text by its schema is held up to this size; a longer one is text.
constexpr std::size_t kMaxValue = std::size_t{1} << 20;
// The text behind a marker that may have ended the call; what is longer is part of the value.
constexpr std::size_t kMaxDoubt = std::size_t{1} << 16;

bool is_name_byte(unsigned char byte) {
  return byte >= 0x80 || std::isalnum(byte) != 0 || byte == '_' || byte == '-' || byte == '.';
}

bool begins(std::string_view literal, std::string_view text) {
  return literal.starts_with(text);
}

}  // namespace

// Follows a value that may be JSON, only to know whether the present byte is inside a string of it.
// A byte that JSON cannot have there ends the watching for good: then the value is text.
void JsonStrings::feed(char byte) {
  switch (place_) {
    case Place::begin:
      if (is_space(byte)) return;
      place_ = byte == '[' || byte == '{'      ? Place::between
               : byte == '"' && may_be_string_ ? Place::inside
                                               : Place::none;
      return;
    case Place::between:
      if (byte == '"') {
        place_ = Place::inside;
      } else if (!is_space(byte) && std::isalnum(static_cast<unsigned char>(byte)) == 0 &&
                 std::string_view("[]{}:,+-.").find(byte) == std::string_view::npos) {
        place_ = Place::none;
      }
      return;
    case Place::inside:
      if (static_cast<unsigned char>(byte) < 0x20) {
        place_ = Place::none;
      } else if (byte == '"') {
        place_ = Place::between;
      } else if (byte == '\\') {
        place_ = Place::escape;
      }
      return;
    case Place::escape:
      place_ = Place::inside;
      return;
    case Place::none:
      return;
  }
}

// What does not change during a call is computed here: the bytes at which a value may end, the
// parts of the end marker around the key, and the words that say a value's type.
void ParameterReader::start(const Syntax& syntax, std::string_view end, std::string_view outer,
                            const json::Value* schema) {
  syntax_ = &syntax;
  parameter_ = &syntax.read_parameter;
  end_ = end;
  outer_ = outer;
  used_outer_ = false;
  schema_ = schema;
  status_ = Status::open;
  place_ = Place::gap;
  restart();
  levels_.push_back({.schema = schema, .is_open = true});
  stops_ = {};
  for (const char byte : kSpace) stops_[static_cast<unsigned char>(byte)] = true;
  stops_[static_cast<unsigned char>(parameter_->front().text.front())] = true;
  for (const std::string& one : syntax.call_ends) {
    stops_[static_cast<unsigned char>(one.front())] = true;
  }
  const auto value = std::find_if(parameter_->begin(), parameter_->end(),
                                  [](const Piece& p) { return p.kind == Piece::Kind::value; });
  close_lead_ = next_literal(static_cast<std::size_t>(value - parameter_->begin()));
  const auto key = std::find_if(value, parameter_->end(),
                                [](const Piece& p) { return p.kind == Piece::Kind::key; });
  close_trail_ = next_literal(static_cast<std::size_t>(key - parameter_->begin()));
  text_word_ = other_word_ = {};
  marks_only_text_ = false;
  for (const Piece& piece : syntax.parameter) {
    if (piece.kind != Piece::Kind::type) continue;
    const std::size_t bar = piece.text.find('|');
    text_word_ = trimmed(std::string_view(piece.text).substr(0, bar));
    other_word_ = trimmed(std::string_view(piece.text).substr(bar + 1));
    marks_only_text_ = bar + 1 == piece.text.size();
  }
}

void ParameterReader::restart() {
  repeated_ = repaired_ = false;
  left_over_.clear();
  unused_.clear();
  pending_.clear();
  space_.clear();
  value_.clear();
  frame_.clear();
  keys_.clear();
  heads_.clear();
  has_heads_ = false;
  levels_.clear();
  doubt_ = {};
}

// Plain bytes of a text are copied as a block; everything else goes through the automaton byte by
// byte. The bytes between values are kept (frame_), so that they can become content if no parameter
// follows.
std::size_t ParameterReader::feed(std::string_view bytes, std::string& copy) {
  std::size_t used = 0;
  while (used < bytes.size() && status_ == Status::open) {
    if (place_ == Place::value && is_text_ && is_begun_ && pending_.empty() && space_.empty()) {
      // The bytes before anything that may be the end marker or the white space before it.
      const std::string_view rest = bytes.substr(used);
      const auto is_plain = [this, stop = value_end().front()](char byte) {
        return byte != stop && !stops_[static_cast<unsigned char>(byte)];
      };
      std::size_t plain = 0;
      while (plain < rest.size() && is_plain(rest[plain])) ++plain;
      if (doubt_.is_open) plain = std::min(plain, kMaxDoubt + 1 - doubt_.behind.size());
      write_text(rest.substr(0, plain), copy);
      note_in_doubt(rest.substr(0, plain), copy);
      used += plain;
      if (used == bytes.size()) break;
    }
    if (frame_.size() == kMaxFrame) {  // so that everything that was used can be returned
      status_ = Status::bad;
      break;
    }
    const bool was_in_doubt = doubt_.is_open;
    step(bytes[used], copy);
    if (was_in_doubt) note_in_doubt(bytes.substr(used, 1), copy);
    if (status_ == Status::bad) break;
    const bool in_frame =
        place_ == Place::gap || place_ == Place::head || place_ == Place::value_start;
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
    case Place::value_start:
      return step_value_start(byte, copy);
    case Place::value:
      return step_value(byte, copy);
    case Place::after_value:
      return step_after_value(byte, copy);
  }
}

// Between parameters: white space, then another parameter or the end.
void ParameterReader::step_gap(char byte, std::string& copy) {
  if (pending_.empty() && is_space(byte)) return;
  pending_ += byte;
  if (without_space_before(pending_).empty()) pending_.clear();
  if (pending_.empty() || pending_ == "\\") return;
  if (pending_ == close_lead_ && close_trail_.empty() && levels_.size() == 1 &&
      close_lead_ != end_) {  // the end of a value that has not begun
    repaired_ = true;
    pending_.clear();
    return;
  }
  Follow what = follow(pending_);
  while (what == Follow::nothing && is_guarded()) {  // a damaged marker
    repaired_ = true;
    if (left_over_.size() < kMaxLeftOver) left_over_ += pending_.front();
    pending_.erase(0, 1);
    if (pending_.empty()) return;
    what = follow(pending_);
  }
  switch (what) {
    case Follow::nothing:
      status_ = Status::bad;
      break;
    case Follow::beginning:
      break;
    case Follow::parameter:
      begin_head(std::string(pending_, parameter_->front().text.size()), copy);
      break;
    case Follow::close:
      pending_.clear();
      end_level(copy);
      break;
    case Follow::end:
      end_here(pending_, copy);
      break;
  }
}

// `text` comes between two parameters, without the white space before it.
ParameterReader::Follow ParameterReader::follow(std::string_view text) const {
  const std::string_view open = parameter_->front().text;
  const Level& level = levels_.back();
  if (!level.close.empty()) {
    const Follow end = end_mark(text, level.close, level.closes_by_any);
    if (end != Follow::nothing) return end;
  } else if (text == end_ || (!outer_.empty() && text == outer_)) {
    return Follow::end;
  } else if (begins(end_, text) || begins(outer_, text)) {
    return Follow::beginning;
  } else {
    for (const std::string& other : syntax_->call_breaks) {
      if (begins(other, text)) return text == other ? Follow::end : Follow::beginning;
    }
  }
  // The marker that ends any element may begin like the one that begins it.
  if (close_lead_.size() > open.size() && text.starts_with(close_lead_)) return Follow::nothing;
  if (text.starts_with(open) && (text.size() > open.size() || !begins(close_lead_, open))) {
    return Follow::parameter;
  }
  return begins(open, text) || begins(close_lead_, text) ? Follow::beginning : Follow::nothing;
}

// Whether `text` is the end marker of a value or an element: `close`, or one with any name.
ParameterReader::Follow ParameterReader::end_mark(std::string_view text, std::string_view close,
                                                  bool by_any) const {
  if (!by_any) {
    return text == close         ? Follow::close
           : begins(close, text) ? Follow::beginning
                                 : Follow::nothing;
  }
  if (text.size() <= close_lead_.size()) {
    return begins(close_lead_, text) ? Follow::beginning : Follow::nothing;
  }
  if (!text.starts_with(close_lead_)) return Follow::nothing;
  text.remove_prefix(close_lead_.size());
  std::size_t name = 0;
  while (name < text.size() && is_name_byte(static_cast<unsigned char>(text[name]))) ++name;
  if (name == text.size()) return name < kMaxParameterField ? Follow::beginning : Follow::nothing;
  text.remove_prefix(name);
  if (name == 0 || !begins(close_trail_, text)) return Follow::nothing;
  return text == close_trail_ ? Follow::close : Follow::beginning;
}

/// `rest`: the text after the parameter's first literal.
void ParameterReader::begin_head(std::string_view rest, std::string& copy) {
  place_ = Place::head;
  at_ = 1;
  pending_.clear();
  field_.clear();
  key_.clear();
  type_.clear();
  if ((*parameter_)[at_].kind == Piece::Kind::attributes) attributes_.start((*parameter_)[at_]);
  for (const char byte : rest) {
    if (status_ == Status::open) step_head(byte, copy);
  }
}

// `text` is the call's own end, the literal behind it (the own end was left out), or what begins
// the next call or ends the turn, which is given back as unused.
void ParameterReader::end_here(std::string_view text, std::string& copy) {
  const bool is_end = text == end_;
  used_outer_ = !is_end && text == outer_;
  if (!is_end && !used_outer_) {
    unused_ = text;
    repaired_ = true;
  }
  copy += '}';
  status_ = Status::done;
}

std::string_view ParameterReader::next_literal(std::size_t from) const {
  while (from < parameter_->size() && (*parameter_)[from].kind != Piece::Kind::literal) ++from;
  return from < parameter_->size() ? std::string_view((*parameter_)[from].text)
                                   : std::string_view();
}

// Reads key, type and the literals around them, up to the value.
void ParameterReader::step_head(char byte, std::string& copy) {
  const Piece& piece = (*parameter_)[at_];
  if (piece.kind == Piece::Kind::space) {
    if (is_space(byte)) return;
    ++at_;
    return step_head(byte, copy);
  }
  if (piece.kind == Piece::Kind::attributes) {
    switch (attributes_.feed(byte)) {
      case AttributeReader::Status::open:
        return;
      case AttributeReader::Status::bad:
        status_ = Status::bad;
        return;
      case AttributeReader::Status::done:
        return end_attributes(copy);
    }
  }
  if (piece.kind == Piece::Kind::literal) {
    if (field_.empty() && is_space(byte)) return;
    field_ += byte;
    if (without_space_before(field_).empty()) field_.clear();
    if (field_.empty() || field_ == "\\") return;
    if (!begins(piece.text, field_) && behind_type() != 0) at_ = behind_type();
    const std::string& text = (*parameter_)[at_].text;
    if (!begins(text, field_)) {
      status_ = Status::bad;
      return;
    }
    if (field_.size() < text.size()) return;
    field_.clear();
    ++at_;
  } else {
    const std::string_view end = next_literal(at_);
    field_ += byte;
    if (!field_.ends_with(end)) {
      if (field_.size() > kMaxParameterField) status_ = Status::bad;
      return;
    }
    field_.resize(field_.size() - end.size());
    end_field();
    if (status_ == Status::bad) return;
    while ((*parameter_)[at_].kind != Piece::Kind::literal) ++at_;
    ++at_;
  }
  std::size_t next = at_;
  while ((*parameter_)[next].kind == Piece::Kind::space) ++next;
  if ((*parameter_)[next].kind == Piece::Kind::value) begin_value(copy);
}

// For an element with a type, which may be left out: the index of the literal after it.
std::size_t ParameterReader::behind_type() const {
  std::size_t at = at_ + 1;
  if (at >= parameter_->size() || (*parameter_)[at].kind != Piece::Kind::type) return 0;
  for (at += 2; at < parameter_->size() && (*parameter_)[at].kind == Piece::Kind::space;) ++at;
  const bool is_literal = at < parameter_->size() && (*parameter_)[at].kind == Piece::Kind::literal;
  return is_literal ? at : 0;
}

// A key or a type has ended. A type that the format does not know is told as left over, if it is
// more than a word.
void ParameterReader::end_field() {
  std::string text(trimmed(field_));
  if ((*parameter_)[at_].kind == Piece::Kind::key) {
    set_key(std::move(text));
    const bool is_name = std::ranges::all_of(
        key_, [](char c) { return is_name_byte(static_cast<unsigned char>(c)); });
    if (is_guarded() && !is_name) status_ = Status::bad;  // it belongs to another marker
  } else {
    type_ = syntax_->entities ? without_entities(text) : std::move(text);
    const bool is_word = type_ == text_word_ || std::ranges::all_of(type_, [](char c) {
                           return is_name_byte(static_cast<unsigned char>(c));
                         });
    if (!is_word && left_over_.empty()) left_over_ = type_.substr(0, kMaxLeftOver);
  }
  field_.clear();
}

// Quotes around the name of a parameter are dropped if the tool has the name without them.
void ParameterReader::set_key(std::string key) {
  written_key_ = key;
  if (syntax_->entities) key = without_entities(key);
  const bool is_quoted =
      key.size() > 2 && (key.front() == '"' || key.front() == '\'') && key.back() == key.front();
  if (is_quoted && schema_ != nullptr && levels_.size() == 1) {
    const json::Value* const properties = schema_->find("properties");
    const std::string inside = key.substr(1, key.size() - 2);
    const bool has_inside = properties != nullptr && properties->find(inside) != nullptr;
    if (has_inside && properties->find(key) == nullptr) key = inside;
  }
  key_ = std::move(key);
}

// Sets the key and the type, and an empty value if the tag closes itself.
void ParameterReader::end_attributes(std::string& copy) {
  const std::string* const key = attributes_.value(Piece::Kind::key);
  if (key == nullptr) {
    status_ = Status::bad;
    return;
  }
  set_key(std::string(trimmed(*key)));
  const std::string* const type = attributes_.value(Piece::Kind::type);
  const bool is_known =
      type != nullptr && (other_word_ == "*" || *type == text_word_ || *type == other_word_);
  if (is_known) type_ = *type;
  if (left_over_.empty()) left_over_ = attributes_.ignored().substr(0, kMaxLeftOver);
  ++at_;
  begin_value(copy);
  if (!attributes_.closes_itself()) return;
  end_value(copy);
  place_ = Place::gap;
}

const json::Value* ParameterReader::value_schema() const {
  const Level& level = levels_.back();
  if (schema_ == nullptr) return nullptr;
  return level.is_array ? item_schema(level.schema, *schema_)
                        : member_schema(level.schema, key_, *schema_);
}

// Whether the schema declares the current name; it may also say something of other names.
bool ParameterReader::is_declared() const {
  const Level& level = levels_.back();
  if (level.is_array || value_schema_ == nullptr) return value_schema_ != nullptr;
  constexpr std::string_view kNoName("\0", 1);
  return value_schema_ != member_schema(level.schema, kNoName, *schema_);
}

// A type that the call itself gives wins over the schema. Where the schema allows text beside other
// types, or says nothing, the value is `either`: JSON if it is that, and else text.
ParameterReader::Kind ParameterReader::kind_of_value() {
  types_ = value_schema_ != nullptr ? types_of(*value_schema_, *schema_) : kAnyType;
  if (!type_.empty()) return type_ == text_word_ ? Kind::text : Kind::json;
  if (marks_only_text_ && types_ == kAnyType) return Kind::json;
  if (types_ == kText) return Kind::text;
  return (types_ & kText) != 0 ? Kind::either : Kind::json;
}

// Writes the comma, the key and, for the first one in a nested element, its bracket.
void ParameterReader::begin_member(std::string& copy) {
  Level& level = levels_.back();
  if (!level.is_open) {
    const Types types = level.schema != nullptr ? types_of(*level.schema, *schema_) : kAnyType;
    const bool may_be_object = (types & kObject) != 0;
    const bool may_be_array = (types & kArray) != 0;
    level.is_array = may_be_array && (!may_be_object || key_ == syntax_->item);
    level.is_open = true;
    level.is_held = !level.is_array && holds_members(level);
    if (!level.is_held) target(copy) += level.is_array ? '[' : '{';
  }
  if (level.is_held) {
    level.members.emplace_back(key_, std::string());
    return;
  }
  std::string& to = target(copy);
  to += level.has_member ? ", " : "";
  level.has_member = true;
  if (level.is_array) return;
  json::append_quoted(to, key_);
  to += ": ";
}

// For an element inside another: no schema says which children it has.
bool ParameterReader::holds_members(const Level& level) const {
  if (levels_.size() == 1) return false;
  if (level.schema == nullptr || level.schema->if_object() == nullptr) return true;
  const json::Object& schema = *level.schema->if_object();
  return std::ranges::all_of(schema, [](const json::Member& member) {
    return member.key == "type" || member.key == "description" || member.key == "title";
  });
}

// Where text is written now: apart while the call may have ended, or into the member of the
// innermost level that holds its members.
std::string& ParameterReader::target(std::string& copy) {
  if (doubt_.is_open) return doubt_.copy;
  for (std::size_t i = levels_.size(); i-- > 1;) {
    if (levels_[i].is_held && !levels_[i].members.empty()) return levels_[i].members.back().second;
  }
  return copy;
}

// Decides by the schema how the value is read: as text, which streams; as JSON or undecided, which
// is held until it is whole; or as elements inside. What must close it is put together with the key
// as it was written.
void ParameterReader::begin_value(std::string& copy) {
  while ((*parameter_)[at_].kind == Piece::Kind::space) ++at_;
  if (levels_.size() == 1) note_key();
  begin_member(copy);
  value_schema_ = value_schema();
  kind_ = kind_of_value();
  const bool may_be_nested =
      !syntax_->item.empty() && kind_ != Kind::text && (types_ & (kArray | kObject)) != 0;
  place_ = may_be_nested ? Place::value_start : Place::value;
  close_.clear();
  std::size_t next = at_ + 1;
  while ((*parameter_)[next].kind == Piece::Kind::space) ++next;
  for (; next < parameter_->size(); ++next) {
    const Piece& piece = (*parameter_)[next];
    if (piece.kind == Piece::Kind::space) break;
    close_ += piece.kind == Piece::Kind::key ? written_key_ : piece.text;
  }
  closes_by_any_ = !close_trail_.empty() && !is_declared();
  is_begun_ = false;
  is_text_ = kind_ == Kind::text;
  if (kind_ == Kind::json) {
    strings_.restart(/*may_be_string=*/(types_ & kText) != 0);
  } else {
    strings_.give_up();
  }
  space_.clear();
  value_.clear();
  pending_.clear();
  is_quoted_ = false;
  may_be_quoted_ = !syntax_->quote_open.empty();
  if (is_text_) target(copy) += '"';
}

// Elements after white space, or a value.
void ParameterReader::step_value_start(char byte, std::string& copy) {
  pending_ += byte;
  std::string_view text = pending_;
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  const std::string_view open = parameter_->front().text;
  const bool is_close = text.starts_with(close_lead_) && close_lead_.size() > open.size();
  if (pending_.size() < kMaxGap && !is_close && levels_.size() < kMaxDepth) {
    if (text.size() <= open.size() && begins(open, text)) return;
    if (text.size() < close_lead_.size() && begins(close_lead_, text)) return;
    if (text.starts_with(open)) {
      levels_.push_back(
          {.close = close_, .closes_by_any = closes_by_any_, .schema = value_schema_});
      frame_.assign(text, 0, text.size() - 1);  // the text before it is written; `feed` adds a byte
      return begin_head(std::string(text.substr(open.size())), copy);
    }
  }
  place_ = Place::value;
  const std::string again = std::exchange(pending_, {});
  for (const char c : again) step(c, copy);
}

// Whether `text` in a value, at the beginning of a line if values have lines of their own, is the
// tool's next parameter, or the end of the call and what follows it.
ParameterReader::Follow ParameterReader::early_end(std::string_view text) {
  if (!syntax_->parameter_end_optional || is_quoted_ || levels_.size() > 1 ||
      (is_framed_behind() && space_ != "\n")) {
    return Follow::nothing;
  }
  bool may_end = false;
  for (const std::string& end : syntax_->value_breaks) {
    if (text == end) return Follow::end;
    may_end = may_end || begins(end, text);
  }
  if (may_end) return Follow::beginning;
  if (const Follow wrong = wrong_end(text); wrong != Follow::nothing) return wrong;
  const std::string_view open = parameter_->front().text;
  if (begins(open, text)) return Follow::beginning;
  if (!text.starts_with(open)) return Follow::nothing;
  if (!has_heads_) find_heads();
  const auto head = std::ranges::lower_bound(heads_, text);
  if (head == heads_.end() || !begins(*head, text)) return Follow::nothing;
  return text.size() == head->size() ? Follow::parameter : Follow::beginning;
}

// The parameters of the tool that have not come yet, as they begin; sorted, so that early_end()
// finds the one that a text begins by a binary search.
void ParameterReader::find_heads() {
  has_heads_ = true;
  const json::Value* const properties = schema_ != nullptr ? schema_->find("properties") : nullptr;
  if (properties == nullptr || properties->if_object() == nullptr) return;
  for (const json::Member& property : *properties->if_object()) {
    const std::size_t key = std::hash<std::string_view>()(property.key);
    if (std::ranges::find(keys_, key) == keys_.end()) heads_.push_back(head_of(property.key));
  }
  std::ranges::sort(heads_);
}

// The beginning of a parameter with this name, as it is written, up to the literal behind the name.
std::string ParameterReader::head_of(std::string_view key) const {
  std::string head;
  bool has_key = false;
  for (const Piece& piece : syntax_->parameter) {
    head += piece.kind == Piece::Kind::key ? key : piece.text;
    if (has_key) break;
    has_key = piece.kind == Piece::Kind::key;
  }
  return head;
}

// Whether `text` is an end marker with another key, followed by the end of the call.
ParameterReader::Follow ParameterReader::wrong_end(std::string_view text) const {
  if (close_trail_.empty()) return Follow::nothing;
  if (begins(close_lead_, text)) return Follow::beginning;
  if (!text.starts_with(close_lead_)) return Follow::nothing;
  text.remove_prefix(close_lead_.size());
  std::size_t name = 0;
  while (name < text.size() && is_name_byte(static_cast<unsigned char>(text[name]))) ++name;
  if (name == 0 || name > kMaxKeyInEnd) return Follow::nothing;
  text.remove_prefix(name);
  if (begins(close_trail_, text)) return Follow::beginning;
  if (!text.starts_with(close_trail_)) return Follow::nothing;
  text.remove_prefix(close_trail_.size());
  if (text == end_) return Follow::end;
  return begins(end_, text) ? Follow::beginning : Follow::nothing;
}

// The value ends without its marker, in front of another parameter or of the call's end, which is
// in pending_.
void ParameterReader::end_early(Follow what, std::string& copy) {
  repaired_ = true;
  space_.clear();
  end_value(copy);
  const std::string text = std::exchange(pending_, {});
  if (what == Follow::end) return end_call_at(text, copy);
  begin_head(std::string_view(text).substr(parameter_->front().text.size()), copy);
}

// The call ends where `text` begins: with one of the syntax's call_ends and perhaps what follows
// it, or with a value's end marker with another key and the call's end behind it.
void ParameterReader::end_call_at(std::string_view text, std::string& copy) {
  const auto begins_text = [text](std::string_view end) { return text.starts_with(end); };
  if (!begins_text(end_) && std::ranges::none_of(syntax_->call_ends, begins_text)) text = {};
  used_outer_ = !text.starts_with(end_) && !outer_.empty() && text.starts_with(outer_);
  if (text.starts_with(end_)) text.remove_prefix(end_.size());
  if (used_outer_) text.remove_prefix(outer_.size());
  unused_ = text;
  copy += '}';
  status_ = Status::done;
}

// Whether `text` in a value is a marker that ends the call, and nothing tells yet whether it does.
ParameterReader::Follow ParameterReader::doubtful_end(std::string_view text) const {
  if (!syntax_->parameter_end_optional || is_quoted_ || levels_.size() > 1 || doubt_.is_open) {
    return Follow::nothing;
  }
  Follow may_end = Follow::nothing;
  for (const std::string& end : syntax_->call_ends) {
    if (text == end) return Follow::end;
    if (begins(end, text)) may_end = Follow::beginning;
  }
  return may_end;
}

void ParameterReader::begin_doubt(std::string_view end) {
  doubt_ = {.is_open = true, .end = std::string(end), .value_size = value_.size()};
}

// `bytes` came behind the marker that may have ended the call.
void ParameterReader::note_in_doubt(std::string_view bytes, std::string& copy) {
  if (!doubt_.is_open) return;
  doubt_.behind += bytes;
  if (doubt_.behind.size() > kMaxDoubt) end_doubt(copy);
}

// The marker is part of the value.
void ParameterReader::end_doubt(std::string& copy) {
  if (!doubt_.is_open) return;
  copy += doubt_.copy;
  doubt_ = {};
}

// No more comes, so the call ended at the marker.
void ParameterReader::end_at_doubt(std::string& copy) {
  const Doubt doubt = std::exchange(doubt_, {});
  repaired_ = true;
  value_.resize(std::min(value_.size(), doubt.value_size));
  pending_.clear();
  space_.clear();
  end_value(copy);
  end_call_at(doubt.end + doubt.behind, copy);
}

// A line break behind a value belongs to the value's end marker.
bool ParameterReader::is_framed_behind() const {
  return (*parameter_)[at_ + 1].kind == Piece::Kind::space;
}

bool ParameterReader::begins_guarded(std::string_view text) const {
  return is_guarded() && text.starts_with(syntax_->guard);
}

// The value is over. `rest` is not an allowed marker.
void ParameterReader::end_damaged(std::string_view rest, std::string& copy) {
  const std::string text(rest);
  repaired_ = true;
  end_value(copy);
  pending_.clear();
  place_ = Place::gap;
  frame_.assign(text, 0, text.size() - 1);  // `feed` adds the last byte
  std::size_t used = 0;
  while (used < text.size() && status_ == Status::open) step(text[used++], copy);
  if (status_ == Status::done) unused_ += text.substr(used);
}

// An element ends. Elements with one name become a list, which is known only here, so the members
// of a level are held.
void ParameterReader::end_level(std::string& copy) {
  const Level level = std::move(levels_.back());
  levels_.pop_back();
  place_ = Place::gap;
  std::string& to = target(copy);
  if (!level.is_open || level.is_held) to += '{';
  std::map<std::string_view, std::vector<std::string_view>> values;
  for (const auto& [key, value] : level.members) values[key].push_back(value);
  std::string_view separator;
  for (const auto& [key, value] : level.members) {
    const auto all = values.find(key);
    if (all == values.end()) continue;  // written with the first
    json::append_quoted(to.append(std::exchange(separator, ", ")), key);
    to.append(": ").append(all->second.size() > 1 ? "[" : "").append(value);
    for (const std::string_view other : std::span(all->second).subspan(1)) {
      to.append(", ").append(other);
    }
    if (all->second.size() > 1) to += ']';
    values.erase(all);
  }
  to += level.is_array ? ']' : '}';
}

// Hashes are enough: a key that seems to have come before is still written, and only reported.
void ParameterReader::note_key() {
  const std::size_t key = std::hash<std::string_view>()(key_);
  if (std::find(keys_.begin(), keys_.end(), key) != keys_.end()) {
    repeated_ = true;
  } else if (keys_.size() < kMaxKeys) {
    keys_.push_back(key);
    if (has_heads_) std::erase(heads_, head_of(key_));
  }
}

// A byte may belong to the end marker, so bytes that could are pending. If they turn out not to be
// the marker, the first of them is value and the rest is tried again. Other texts may end a value,
// too: the end of the call where the model has forgotten the marker, or one damaged marker.
void ParameterReader::step_value(char byte, std::string& copy) {
  if (strings_.is_open()) return put(std::string_view(&byte, 1), copy);
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
  const bool by_any = closes_by_any_ && !is_quoted_;
  Follow what = end_mark(pending_, close, by_any);
  while (what == Follow::nothing && !pending_.empty()) {
    const Follow doubtful = doubtful_end(pending_);
    if (doubtful == Follow::end) begin_doubt(pending_);
    const Follow early = early_end(pending_);
    if (early == Follow::beginning || doubtful == Follow::beginning) return;
    if (early != Follow::nothing) return end_early(early, copy);
    if (begins_guarded(pending_)) return end_damaged(pending_, copy);
    put(std::string_view(pending_).substr(0, 1), copy);
    pending_.erase(0, 1);
    if (!pending_.empty()) what = end_mark(pending_, close, by_any);
  }
  if (what != Follow::close) return;
  place_ = Place::after_value;
  close_size_ = pending_.size();
}

// The end marker has been read. It counts if another parameter or the end follows it.
void ParameterReader::step_after_value(char byte, std::string& copy) {
  pending_ += byte;
  std::string_view after = without_space_before(std::string_view(pending_).substr(close_size_));
  // Some models write it twice. In a text the first may be its own, and the second may end the
  // element that the value is in.
  const bool may_repeat =
      (types_ & kText) == 0 && !closes_by_any_ && !is_quoted_ && levels_.back().close != close_;
  bool is_repeated = false;
  while (may_repeat && after.starts_with(close_)) {
    after = without_space_before(after.substr(close_.size()));
    is_repeated = true;
  }
  const bool may_go_on = after.empty() || after == "\\" || (may_repeat && begins(close_, after));
  const Follow what = may_go_on ? Follow::beginning : follow(after);
  if (what == Follow::beginning && pending_.size() - close_size_ < kMaxGap) return;
  if (what == Follow::nothing && begins_guarded(pending_)) return end_damaged(after, copy);
  if (what == Follow::beginning || what == Follow::nothing) {
    place_ = Place::value;
    const std::string again = std::exchange(pending_, {});
    put(std::string_view(again).substr(0, 1), copy);
    for (const char c : std::string_view(again).substr(1)) step(c, copy);
    return;
  }
  repaired_ = repaired_ || is_repeated;
  end_value(copy);
  const std::string text(after);
  pending_.clear();
  if (what == Follow::parameter) {
    frame_.assign(text, 0, text.size() - 1);  // `feed` adds the last byte
    begin_head(std::string_view(text).substr(parameter_->front().text.size()), copy);
  } else if (what == Follow::close) {
    end_level(copy);
  } else {
    end_here(text, copy);
  }
}

// Bytes of the value. One run of white space on each side, as in the pattern, is its frame.
void ParameterReader::put(std::string_view bytes, std::string& copy) {
  const bool framed_before = (*parameter_)[at_ - 1].kind == Piece::Kind::space;
  // It may also stand before another parameter, where the end marker is missing.
  const bool holds_line = is_framed_behind() || syntax_->parameter_end_optional;
  for (const char byte : bytes) {
    strings_.feed(byte);
    if (!is_begun_) {
      is_begun_ = true;
      if (framed_before && byte == '\n') continue;
    }
    if (holds_line && byte == '\n') {
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

// A value that is not yet decided is held; one that has grown beyond kMaxValue is taken as text, so
// that the memory is bounded.
void ParameterReader::write_text(std::string_view bytes, std::string& copy) {
  if (!is_text_) {
    value_ += bytes;
    if (value_.size() <= kMaxValue) return;
    end_doubt(copy);
    is_text_ = true;
    strings_.give_up();
    target(copy) += '"';
    std::string whole;
    whole.swap(value_);
    return write_text(whole, copy);
  }
  append_raw(target(copy), bytes);
}

// A text is closed by its quote, anything else is written now. White space that is not the frame's
// is part of the value.
void ParameterReader::end_value(std::string& copy) {
  end_doubt(copy);
  if (!is_framed_behind() && !space_.empty()) write_text(std::exchange(space_, {}), copy);
  if (is_text_) {
    target(copy) += '"';
  } else {
    write_whole(copy);
  }
  space_.clear();
}

// Whether the schema allows the value `json`, or one that begins so.
bool ParameterReader::may_be(std::string_view json) const {
  if (kind_ != Kind::either || types_ == kAnyType || json.empty()) return true;
  switch (json.front()) {
    case 'n':
      return (types_ & kNull) != 0;
    case 't':
    case 'f':
      return (types_ & kBoolean) != 0;
    case '[':
      return (types_ & kArray) != 0;
    case '{':
      return (types_ & kObject) != 0;
    case '"':
      return (types_ & kText) != 0;  // in quotes, because without them it would mean something else
    default:
      return (types_ & kNumber) != 0;
  }
}

// If the value may be text, `007` is text.
JsonFilter::Numbers ParameterReader::numbers() const {
  const bool may_be_text = kind_ != Kind::json || (types_ & kText) != 0;
  return may_be_text ? JsonFilter::Numbers::as_json : JsonFilter::Numbers::repaired;
}

// What is an object or a list by its schema, in Python's notation.
std::optional<std::string> ParameterReader::python_value() const {
  const std::string_view text = trimmed(value_);
  const bool may_be =
      (types_ & kText) == 0 && ((text.starts_with('{') && (types_ & kObject) != 0) ||
                                (text.starts_with('[') && (types_ & kArray) != 0));
  return may_be ? whole_python(text) : std::nullopt;
}

// A value that is JSON is copied as it is written; Python's words for JSON's are taken too.
void ParameterReader::write_whole(std::string& whole) {
  std::string& copy = target(whole);
  const bool may_be_empty = !syntax_->item.empty() && kind_ == Kind::json;
  if (trimmed(value_).empty() && may_be_empty && (types_ & (kObject | kArray)) != 0) {
    copy += (types_ & kObject) != 0 ? "{}" : "[]";  // an element without children
  } else if (const auto json = whole_json(value_, numbers()); json && may_be(*json)) {
    copy += *json;
  } else if (const auto python = python_value()) {
    copy += *python;
  } else {
    json::append_quoted(copy, value_);
  }
}

// The arguments end here and stay open: what is held is handed out as far as it is certain, from
// the innermost level outwards.
void ParameterReader::finish(std::string& copy) {
  if (status_ == Status::done) return;
  finish_value(copy);
  // Members that are complete, and the beginning of the last one.
  while (levels_.size() > 1) {
    const Level level = std::move(levels_.back());
    levels_.pop_back();
    if (!level.is_held) continue;
    std::string& to = target(copy);
    to += '{';
    std::string_view separator;
    for (const auto& [key, value] : level.members) {
      json::append_quoted(to.append(std::exchange(separator, ", ")), key);
      to.append(": ").append(value);
    }
  }
}

// A value that may be JSON is handed out as JSON if it is the beginning of some, and else as text.
void ParameterReader::finish_value(std::string& copy) {
  end_doubt(copy);
  if (place_ == Place::after_value) return end_value(copy);
  if (place_ == Place::value || place_ == Place::value_start) {
    const std::string held = std::exchange(pending_, {});
    if (!held.empty()) put(held, copy);
    if (is_text_) {
      write_text(std::exchange(space_, {}), copy);
      return;
    }
    JsonFilter filter(JsonFilter::Want::any, numbers());
    std::string json;
    const std::string_view text = trimmed(value_);
    if (filter.feed(text, json) == text.size()) {
      if (filter.status() == JsonFilter::Status::open) filter.finish(json);
      if (may_be(json)) {
        target(copy) += json;
        return;
      }
    }
    is_text_ = true;
    target(copy) += '"';
    write_text(std::exchange(value_, {}), copy);
    write_text(std::exchange(space_, {}), copy);
    return;
  }
  if (place_ != Place::head) return;
  // A key that has begun. After a complete key, literals of the frame may follow.
  bool is_open = (*parameter_)[at_].kind == Piece::Kind::key;
  if ((*parameter_)[at_].kind == Piece::Kind::attributes) {
    if (const std::string* const whole = attributes_.value(Piece::Kind::key)) {
      key_ = *whole;
    } else if (const std::string* const open = attributes_.open_value(Piece::Kind::key)) {
      field_ = *open;
      is_open = true;
    }
  }
  const Level& level = levels_.back();
  if ((!is_open && key_.empty()) || !level.is_open || level.is_array || level.is_held) return;
  target(copy) += level.has_member ? ", \"" : "\"";
  is_text_ = true;
  write_text(is_open ? trimmed(field_) : std::string_view(key_), copy);
  if (!is_open) target(copy) += '"';
}

// The same, closed to valid JSON. Words that stood where a parameter should have begun are returned
// and become content.
std::string ParameterReader::close(std::string& copy) {
  if (status_ == Status::done) return {};
  const bool in_value = place_ == Place::value || place_ == Place::value_start;
  if (doubt_.is_open) {
    end_at_doubt(copy);
    return {};
  }
  if (in_value && !pending_.empty()) put(std::exchange(pending_, {}), copy);
  if (in_value || place_ == Place::after_value) end_value(copy);
  while (levels_.size() > 1) end_level(copy);
  copy += '}';
  status_ = Status::done;
  if (in_value) return {};
  const std::size_t word = std::min(frame_.find_first_not_of(" \t\r\n"), frame_.size());
  return frame_.substr(word);
}

}  // namespace tenon::format
