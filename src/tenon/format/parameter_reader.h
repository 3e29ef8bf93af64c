#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/format/attributes.h"
#include "tenon/format/definition.h"
#include "tenon/format/json_filter.h"
#include "tenon/format/schema_types.h"
#include "tenon/json/value.h"

namespace tenon::format {

/// Tools by name, each with the schema of its parameters or null.
using ToolSchemas = std::map<std::string, const json::Value*, std::less<>>;

/// Follows a value that should be a JSON array or object, just enough to know whether one of its
/// strings is open. A value of another kind has no strings.
class JsonStrings {
 public:
  /// `may_be_string`: the value itself may be a string; otherwise strings are inside lists and
  /// objects.
  void restart(bool may_be_string) {
    place_ = Place::begin;
    may_be_string_ = may_be_string;
  }
  void give_up() { place_ = Place::none; }
  void feed(char byte);
  [[nodiscard]] bool is_open() const { return place_ == Place::inside || place_ == Place::escape; }

 private:
  enum class Place : std::uint8_t { begin, between, inside, escape, none };
  Place place_ = Place::none;
  bool may_be_string_ = false;
};

/// Reads arguments that are written one by one between markers, and writes them as one JSON object
/// on the fly. A value is text where the tool's schema says so, and then its bytes are passed on as
/// they come; otherwise it is read as JSON once it is whole, and is text if it is no JSON. A
/// value's end marker counts only where another parameter or the call's end follows: a value may
/// hold its own end marker. Where the syntax allows it, a value also ends without its marker: at
/// the beginning of another parameter of the tool, and where the call's end is followed by what
/// comes behind a call (Syntax::value_breaks). A marker that ends the call (Syntax::call_ends) ends
/// it in a value too, if the text ends before the value does. After a value that is no text by its
/// schema it may come twice. In a string of a value that is JSON by its schema or by its type
/// nothing is a marker. Where each marker begins with a control token (Syntax::guard) no value has
/// that: a damaged marker ends its value, and what it is followed by up to the next whole one is
/// left out. Where the syntax says so (Syntax::item), a value that is no text by its schema may
/// consist of such elements itself, which are an object or an array, as the schema says or the name
/// of the first.
class ParameterReader {
 public:
  enum class Status : std::uint8_t { open, done, bad };
  static constexpr std::size_t kMaxKeys = 128;
  static constexpr std::size_t kMaxDepth = 64;

  /// `end` is the literal after the last parameter, and `outer` the one after that, which models
  /// may write without `end`; empty: none. All four arguments must outlive the reading.
  void start(const Syntax& syntax, std::string_view end, std::string_view outer,
             const json::Value* schema);
  /// Appends JSON to `copy` and returns the number of bytes used.
  std::size_t feed(std::string_view bytes, std::string& copy);
  /// The text was cut off: appends what is held, so that the copy is the beginning of a JSON
  /// object.
  void finish(std::string& copy);
  /// The text has ended otherwise. Completes the copy to a JSON object, and returns the bytes that
  /// were used and are not in it: the beginning of a parameter that was not completed.
  std::string close(std::string& copy);
  [[nodiscard]] Status status() const { return status_; }
  /// After done: `outer` ended them.
  [[nodiscard]] bool has_used_outer() const { return used_outer_; }
  /// After done: bytes that were fed and are no part of the parameters or their end.
  [[nodiscard]] const std::string& unused() const { return unused_; }
  /// One of the first kMaxKeys keys has come again; it is written again.
  [[nodiscard]] bool has_repeated() const { return repeated_; }
  /// Text between two parameters that belongs to neither: the beginning of it; empty: none.
  [[nodiscard]] const std::string& left_over() const { return left_over_; }
  /// Some value ended without its marker.
  [[nodiscard]] bool is_repaired() const { return repaired_; }
  /// A marker that ends the call has come in a value. If the text ends now, `close` ends the call
  /// there, and unused() is what came behind it.
  [[nodiscard]] bool may_have_ended() const { return doubt_.is_open; }
  /// The bytes from that marker on, which may be read again.
  [[nodiscard]] std::size_t bytes_in_doubt() const {
    return doubt_.end.size() + doubt_.behind.size();
  }
  /// Resets everything.
  void restart();

 private:
  enum class Place : std::uint8_t { gap, head, value_start, value, after_value };
  enum class Kind : std::uint8_t { text, json, either };
  /// The meaning of bytes between two parameters.
  enum class Follow : std::uint8_t { nothing, beginning, parameter, close, end };
  /// The parameters, or the elements inside one.
  struct Level {
    std::string close;                    // the marker that ends it; empty: `end_` or `outer_`
    bool closes_by_any = false;           // with any name in it
    const json::Value* schema = nullptr;  // of the object or array; null: unknown
    bool is_open = false;                 // its bracket has been written
    bool is_array = false;
    bool has_member = false;
    /// For an object without a schema, whose children with one name are a list: they are held until
    /// it ends, each with its key.
    bool is_held = false;
    std::vector<std::pair<std::string, std::string>> members = {};
  };

  /// A marker in a value that may have ended the call.
  struct Doubt {
    bool is_open = false;
    std::string end;             // the marker
    std::size_t value_size = 0;  // of value_ before it
    std::string behind;          // what came behind it, as it is written
    std::string copy;            // of the value from the marker on
  };

  void step(char byte, std::string& copy);
  void step_gap(char byte, std::string& copy);
  void step_head(char byte, std::string& copy);
  void step_value_start(char byte, std::string& copy);
  void step_value(char byte, std::string& copy);
  void step_after_value(char byte, std::string& copy);
  [[nodiscard]] Follow early_end(std::string_view text);
  [[nodiscard]] Follow wrong_end(std::string_view text) const;
  void end_early(Follow what, std::string& copy);
  void end_call_at(std::string_view text, std::string& copy);
  [[nodiscard]] Follow doubtful_end(std::string_view text) const;
  void begin_doubt(std::string_view end);
  void note_in_doubt(std::string_view bytes, std::string& copy);
  void end_doubt(std::string& copy);
  void end_at_doubt(std::string& copy);
  [[nodiscard]] bool is_guarded() const { return !syntax_->guard.empty(); }
  [[nodiscard]] bool begins_guarded(std::string_view text) const;
  void end_damaged(std::string_view rest, std::string& copy);
  void begin_head(std::string_view rest, std::string& copy);
  void end_field();
  void end_attributes(std::string& copy);
  void set_key(std::string key);
  [[nodiscard]] std::size_t behind_type() const;
  void begin_member(std::string& copy);
  void begin_value(std::string& copy);
  void end_level(std::string& copy);
  [[nodiscard]] bool holds_members(const Level& level) const;
  [[nodiscard]] std::string& target(std::string& copy);
  void finish_value(std::string& copy);
  [[nodiscard]] bool is_framed_behind() const;
  void put(std::string_view bytes, std::string& copy);
  void write_text(std::string_view bytes, std::string& copy);
  void end_value(std::string& copy);
  void write_whole(std::string& copy);
  [[nodiscard]] bool may_be(std::string_view json) const;
  [[nodiscard]] std::optional<std::string> python_value() const;
  [[nodiscard]] JsonFilter::Numbers numbers() const;
  void note_key();
  void find_heads();
  [[nodiscard]] std::string head_of(std::string_view key) const;
  [[nodiscard]] Kind kind_of_value();
  void end_here(std::string_view text, std::string& copy);
  [[nodiscard]] Follow follow(std::string_view text) const;
  [[nodiscard]] Follow end_mark(std::string_view text, std::string_view close, bool by_any) const;
  [[nodiscard]] std::string_view next_literal(std::size_t from) const;
  [[nodiscard]] std::string_view value_end() const { return is_quoted_ ? quoted_end_ : close_; }
  [[nodiscard]] const json::Value* value_schema() const;
  [[nodiscard]] bool is_declared() const;

  const Syntax* syntax_ = nullptr;
  const Pattern* parameter_ = nullptr;
  std::string_view end_;
  std::string_view outer_;
  const json::Value* schema_ = nullptr;
  Status status_ = Status::open;
  Place place_ = Place::gap;
  Kind kind_ = Kind::either;
  AttributeReader attributes_;
  std::string left_over_;
  std::string unused_;
  std::size_t at_ = 0;  // index in the parameter's pattern
  bool used_outer_ = false;
  bool repeated_ = false;
  bool repaired_ = false;
  const json::Value* value_schema_ = nullptr;  // of the value; null: unknown
  Types types_ = kAnyType;                     // of the value, by its schema
  bool is_begun_ = false;                      // some of the value has been written
  bool is_text_ = false;                       // the value is written as text, as it comes
  bool may_be_quoted_ = false;                 // the value so far is the beginning of quote_open
  bool is_quoted_ = false;
  JsonStrings strings_;  // for a value that is JSON by its schema or its type
  std::vector<Level> levels_;
  std::string close_;             // the value's end marker
  std::size_t close_size_ = 0;    // of the marker that has come
  bool closes_by_any_ = false;    // no schema knows the key, so any key may be in the marker
  std::string_view close_lead_;   // the text before its key
  std::string_view close_trail_;  // the text after its key; empty: none
  std::string_view text_word_;    // the type that means text
  std::string_view other_word_;   // the type for all others; `*`: each has its own
  bool marks_only_text_ = false;  // a value that is not text has no type
  std::string quoted_end_;        // quote_close followed by the value's end marker
  std::string field_;             // the key or type that is being read
  std::string key_;
  std::string written_key_;  // with its entities
  std::string type_;
  std::string frame_;              // bytes between two values that may still turn out to be text
  std::vector<std::size_t> keys_;  // hashes of the keys so far, at most kMaxKeys
  // The beginnings of the tool's parameters, in order, which may end a value; made when needed.
  std::vector<std::string> heads_;
  bool has_heads_ = false;
  std::string pending_;  // bytes that may be a marker
  std::string value_;    // a value that must be complete before it is written
  std::string space_;    // white space at the value's end that may belong to its frame
  Doubt doubt_;
  std::array<bool, 256> stops_ = {};  // bytes that begin a marker, or white space
};

}  // namespace tenon::format
