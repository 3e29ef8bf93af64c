#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/json/lexer.h"
#include "tenon/json/value.h"
#include "tenon/repair/place.h"
#include "tenon/repair/rules.h"
#include "tenon/schema/schema.h"

namespace tenon::repair {

/// Something that was changed, or written beside what the model wrote.
struct Repair {
  /// `type_fixed`, `field_added` (from one that means the same), `field_renamed`, `default_added`.
  std::string kind;
  std::string path;     ///< JSON pointer of the value in the arguments.
  std::string message;  ///< `Fixed replaceAll type: "true" -> true`
  std::string masked;   ///< The same without values.

  bool operator==(const Repair&) const = default;
};

/// A tool, as far as its calls are mended by it.
struct MendedTool {
  std::string name;
  std::shared_ptr<const schema::Schema> schema;  ///< Null: nothing is known of its arguments.
  /// What `schema` is compiled from, for `default`; outlives the mender. Null without a schema.
  const json::Value* source = nullptr;
  std::shared_ptr<const Rules> rules = Rules::builtin();
};

/// Mends the arguments of one call while they are written.
///
///     ArgumentMender mender(tool);
///     for (std::string_view piece : pieces) mender.feed(piece, out);
///     mender.finish(false, out);
///     for (const Repair& repair : mender.repairs()) tell(repair);
///
/// Takes JSON text however it is cut; how it is cut changes nothing. What may still change is held
/// back, all else is passed on as it is: a value of a type that its place has not, until it ends; a
/// field that the schema forbids and that may stand for another one, until its object ends.
///
/// Changes are lossless, and only what a schema refuses is changed. Types: `"true"` for true, `"5"`
/// for 5, `5` for "5", 3 for an integer written 3.0, JSON in a string for what it says, an object
/// for the string that it is written as, one item for a list of it; each only where the new value
/// fits. Fields: what is missing and required gets what the schema's `default`, `const` or only
/// value of `enum` say, or a rule of the tool, or null where that is allowed; another spelling of a
/// field is written again in the field's own, or under it alone where the schema allows no others.
/// Where a choice is left nothing is changed. What follows the JSON, or is none, is passed on.
///
/// Work is linear in the text, with at most three levels of JSON in strings; memory is that of what
/// is held. One mender serves one call.
class ArgumentMender {
 public:
  explicit ArgumentMender(MendedTool tool);

  void feed(std::string_view text, std::string& out);
  /// `incomplete`: the text was cut, and nothing is added to it; what was held is passed on, but
  /// for fields that have no place any more, which unplaced() gives.
  void finish(bool incomplete, std::string& out);

  [[nodiscard]] const std::vector<Repair>& repairs() const { return repairs_; }
  /// Members that were held when the text was cut, as they were written: `"file": "a"`.
  [[nodiscard]] const std::vector<std::string>& unplaced() const { return unplaced_; }

 private:
  // A member that may stand for another one.
  struct Noted {
    std::string key;
    std::string text;  // its value
    bool is_held = false;
  };
  // An array or object whose inside is known.
  struct Frame {
    bool is_object = false;
    std::vector<Nodes> ways;
    std::string path;
    std::size_t written = 0;        // members or items that were passed on
    std::string key;                // of the member at hand
    std::vector<std::string> seen;  // fields that the schema or a rule knows
    std::vector<Noted> noted;
    std::size_t index = 0;
    std::optional<Place> items;  // of all that follow
  };

  ArgumentMender(MendedTool tool, Place root, unsigned level);

  void take(const json::Lexer::Piece& piece, std::string_view text, std::string& out);
  void begin_value(json::Token token, std::string& out);
  void go_on_in_value(const json::Lexer::Piece& piece, std::string_view text, std::string& out);
  void end_value(std::string& out);
  void enter(bool is_object, std::string& out);
  void leave(std::string_view bracket, std::string& out);
  void pass_pending(std::string& out);
  void end_key();
  void finish_object(Frame& frame, std::string& out);
  void place_noted(Frame& frame, std::string& out);
  void apply_rules(Frame& frame, std::string& out);
  void add_defaults(Frame& frame, std::string& out);
  bool add(Frame& frame, std::string_view key, const std::string& text, std::string& out);

  [[nodiscard]] Place next_place();
  [[nodiscard]] std::string next_path() const;
  [[nodiscard]] bool is_allowed(json::Token token) const;
  [[nodiscard]] bool lists(const Frame& frame, std::string_view key) const;
  [[nodiscard]] bool is_known(const Frame& frame, std::string_view key) const;
  [[nodiscard]] bool is_required(const Frame& frame, std::string_view key) const;
  [[nodiscard]] bool is_forbidden(const Frame& frame, std::string_view key) const;
  [[nodiscard]] bool is_referred_to(std::string_view key) const;
  [[nodiscard]] std::vector<std::string> targets_of(const Frame& frame, std::string_view key,
                                                    bool is_held) const;
  [[nodiscard]] std::optional<std::string> default_of(const Nodes& nodes) const;
  [[nodiscard]] std::optional<std::string> filled(const Frame& frame,
                                                  const std::string& pattern) const;
  std::string mended(const Place& place, const std::string& text, const std::string& path);
  std::optional<std::string> nested(const Place& place, const std::string& text,
                                    const std::string& path);
  void narrow(Frame& frame, const std::string& text);
  void tell(std::string kind, std::string path, std::string what, const std::string& values,
            const std::optional<std::string>& line = std::nullopt);

  const MendedTool tool_;
  const std::vector<const Rule*> rules_;  // of the tool
  const Place root_;
  const unsigned level_;  // of JSON in strings
  json::Lexer lexer_;
  bool is_broken_ = false;
  std::vector<Frame> frames_;
  std::string pending_;     // comma, key, colon and space before the value to come
  std::size_t key_at_ = 0;  // in pending_
  Place place_;             // of the value at hand
  bool in_value_ = false;   // one whose inside does not matter is at hand
  bool passes_ = false;     // it is passed on
  bool keeps_ = false;      // it is kept in value_
  bool is_member_held_ = false;
  bool notes_ = false;     // it goes into the frame's `noted`
  std::size_t depth_ = 0;  // at its beginning
  std::string value_;
  std::vector<Repair> repairs_;
  std::vector<std::string> unplaced_;
};

}  // namespace tenon::repair
