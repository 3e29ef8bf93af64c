#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/format/definition.h"

namespace tenon::format {

/// Reads the attributes of a tag, ` name="f" index=1>`, byte by byte: by their names, so in any
/// order, between either quotes or none, with others between them. White space or the tag's end
/// comes before the first. A value has no line break, and one that says a type no bracket: so a
/// quote that is missing costs no more than the tag.
class AttributeReader {
 public:
  enum class Status : std::uint8_t { open, done, bad };

  /// `head`: of kind attributes; outlives the reading.
  void start(const Piece& head);
  /// Whether the byte was used: not if it makes the status bad.
  Status feed(char byte);

  /// What was given for the slot; null: it has not been.
  [[nodiscard]] const std::string* value(Piece::Kind kind) const;
  /// What has come of the slot's value so far, if it is being read.
  [[nodiscard]] const std::string* open_value(Piece::Kind kind) const;
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
  const Attribute* attribute_ = nullptr;  // whose value is read; null: of no use
  std::string text_;
  std::vector<std::string> values_;  // by attribute of the head
  std::vector<bool> given_;
};

}  // namespace tenon::format
