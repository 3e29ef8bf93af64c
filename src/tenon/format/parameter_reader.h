#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/format/definition.h"
#include "tenon/json/value.h"

namespace tenon::format {

/// Tools by name, each with its parameters' schema or null.
using ToolSchemas = std::map<std::string, const json::Value*, std::less<>>;

/// Reads arguments that are written one by one between markers, and writes them as one JSON object
/// on the fly. A value is text where the tool's schema says so, and then its bytes are passed on as
/// they come; otherwise it is read as JSON once it is whole, and is text if it is no JSON. A
/// value's end marker counts only where another parameter or the call's end follows: a value may
/// hold its own end marker.
class ParameterReader {
 public:
  enum class Status : std::uint8_t { open, done, bad };
  static constexpr std::size_t kMaxKeys = 128;

  /// `end` is the literal behind the last parameter, `outer` the one behind that, which models
  /// write without it; empty: none. All four outlive the reading.
  void start(const Syntax& syntax, std::string_view end, std::string_view outer,
             const json::Value* schema);
  /// Appends JSON to `copy` and returns how many bytes were used.
  std::size_t feed(std::string_view bytes, std::string& copy);
  /// The text was cut off: appends what is held, so that what was copied begins a JSON object.
  void finish(std::string& copy);
  /// The text has ended otherwise. Makes what was copied a JSON object, and returns the bytes that
  /// were used and are not in it: the beginning of a parameter that came to nothing.
  std::string close(std::string& copy);
  [[nodiscard]] Status status() const { return status_; }
  /// After done: it was `outer` that ended them.
  [[nodiscard]] bool has_used_outer() const { return used_outer_; }
  /// One of the first kMaxKeys keys has come again; it is written again.
  [[nodiscard]] bool has_repeated() const { return repeated_; }
  /// Forgets all of it.
  void restart();

 private:
  enum class Place : std::uint8_t { gap, head, value, after_value };
  enum class Kind : std::uint8_t { text, json, either };

  void step(char byte, std::string& copy);
  void step_gap(char byte, std::string& copy);
  void step_head(char byte, std::string& copy);
  void step_value(char byte, std::string& copy);
  void step_after_value(char byte, std::string& copy);
  void begin_head();
  void end_field();
  void begin_value(std::string& copy);
  void put(std::string_view bytes, std::string& copy);
  void write_text(std::string_view bytes, std::string& copy);
  void end_value(std::string& copy);
  void write_whole(std::string& copy);
  [[nodiscard]] bool may_be(std::string_view json) const;
  void note_key();
  [[nodiscard]] Kind kind_of_value();
  [[nodiscard]] bool ends_here(std::string_view text, std::string& copy);
  [[nodiscard]] bool may_follow(std::string_view text) const;
  [[nodiscard]] std::string_view next_literal(std::size_t from) const;
  [[nodiscard]] std::string_view value_end() const;

  const Syntax* syntax_ = nullptr;
  const Pattern* parameter_ = nullptr;
  std::string_view end_;
  std::string_view outer_;
  const json::Value* schema_ = nullptr;
  Status status_ = Status::open;
  Place place_ = Place::gap;
  Kind kind_ = Kind::either;
  std::size_t at_ = 0;  // piece of the parameter's pattern
  bool first_ = true;
  bool used_outer_ = false;
  bool repeated_ = false;
  bool may_be_null_ = true;   // of the value, by its schema
  bool may_be_other_ = true;  // neither text nor null
  bool knows_type_ = false;
  bool is_begun_ = false;       // of the value: something was written
  bool is_text_ = false;        // of the value: written as text, as it comes
  bool may_be_quoted_ = false;  // all of the value so far is the beginning of quote_open
  bool is_quoted_ = false;
  std::string quoted_end_;  // quote_close and the value's end marker
  std::string field_;       // key or type, while it is read
  std::string key_;
  std::string type_;
  std::string frame_;              // bytes between two values, as long as they may yet be none
  std::vector<std::size_t> keys_;  // hashes of the keys so far, at most kMaxKeys
  std::string pending_;            // bytes that may be a marker
  std::string value_;              // a value that has to be whole before it can be written
  std::string space_;              // white space at the value's end that may belong to its frame
};

}  // namespace tenon::format
