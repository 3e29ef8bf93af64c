#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/format/definition.h"

namespace tenon::format {

/// Reads the attributes of a tag, ` name="f" index=1>`, byte by byte. They are recognised by their
/// names, so they may come in any order, with either quotes or none, with others between them.
/// White space or the tag's end must come before the first. A value has no line break, and the
/// value of a type has no bracket; so a missing quote spoils only its tag.
class AttributeReader {
 public:
  enum class Status : std::uint8_t { open, done, bad };

  /// `head` must be of kind attributes and outlive the reading.
  void start(const Piece& head);
  /// Returns whether the byte was used; it is not if it makes the status bad.
  Status feed(char byte);

  /// The value of the slot; null if it has not been given.
  [[nodiscard]] const std::string* value(Piece::Kind kind) const;
  /// The value of the slot so far, if it is being read.
  [[nodiscard]] const std::string* open_value(Piece::Kind kind) const;
  /// The value of an attribute that says nothing, such as one of another name; empty: none.
  [[nodiscard]] const std::string& ignored() const { return ignored_; }
  /// `<tag />`
  [[nodiscard]] bool closes_itself() const { return closes_itself_; }

 private:
  enum class Place : std::uint8_t { gap, name, behind_name, equals, quoted, plain };

  void step(char byte);
  void step_gap(char byte);
  void begin_value();
  void end_value();
  void fail() { status_ = Status::bad; }

  const Piece* head_ = nullptr;
  Status status_ = Status::open;
  Place place_ = Place::gap;
  bool has_space_ = false;  // another attribute may begin
  bool closes_itself_ = false;
  char quote_ = '"';
  std::size_t size_ = 0;
  std::size_t matched_ = 0;               // bytes of the tag's end
  const Attribute* attribute_ = nullptr;  // the attribute whose value is being read; null: it is
                                          // not needed
  std::string text_;
  std::string ignored_;
  std::vector<std::string> values_;  // by index of the head's attributes
  std::vector<bool> given_;
};

}  // namespace tenon::format
