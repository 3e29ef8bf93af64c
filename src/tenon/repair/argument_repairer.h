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

/// A change of the arguments, or a member that was added to them.
struct Repair {
  /// `type_fixed`, `field_added` (from one that means the same), `field_renamed`, `default_added`.
  std::string kind;
  std::string path;     ///< JSON pointer of the value in the arguments.
  std::string message;  ///< `Fixed replaceAll type: "true" -> true`
  std::string masked;   ///< The message without values.

  bool operator==(const Repair&) const = default;
};

/// What repair needs to know of a tool.
struct RepairedTool {
  std::string name;
  std::shared_ptr<const schema::Schema> schema;  ///< Null: nothing is known of its arguments.
  /// The JSON from which `schema` was compiled, for `default`; it must outlive the repairer. Null
  /// without a schema.
  const json::Value* source = nullptr;
  std::shared_ptr<const Rules> rules = Rules::builtin();
};

/// Repairs the arguments of one call while they are generated.
///
///     ArgumentRepairer repairer(tool);
///     for (std::string_view piece : pieces) repairer.feed(piece, out);
///     repairer.finish(false, out);
///     for (const Repair& repair : repairer.repairs()) tell(repair);
///
/// Takes JSON text in pieces; where it is cut makes no difference. Text that may still change is
/// held back, everything else is passed on unchanged: a value whose type does not fit its place is
/// held until it ends, and a field that the schema forbids and that may stand for another one is
/// held until its object ends.
///
/// Changes lose nothing, and only values that the schema refuses are changed. Types: `"true"`
/// becomes true, `"5"` becomes 5, `5` becomes "5", 3.0 becomes the integer 3, JSON in a string
/// becomes its value, an object becomes a string, and one item becomes a list; each only if the new
/// value fits. Fields: a missing required field gets the schema's `default`, `const` or only value
/// of `enum`, the value of a rule of the tool, or null if that is allowed; a field in another
/// spelling is written again in the schema's spelling, or only in that one if the schema allows no
/// other fields. If there is more than one choice nothing is changed. Text after the JSON, and text
/// that is not JSON, is passed on.
///
/// The work is linear in the text, with at most three levels of JSON in strings; the memory is that
/// of the text held back. One repairer serves one call.
class ArgumentRepairer {
 public:
  explicit ArgumentRepairer(RepairedTool tool);

  void feed(std::string_view text, std::string& out);
  /// `incomplete`: the text was cut, so nothing is added to it. Text that was held back is passed
  /// on, except fields that have no place any more; unplaced() returns them.
  void finish(bool incomplete, std::string& out);

  [[nodiscard]] const std::vector<Repair>& repairs() const { return repairs_; }
  /// Members that were held back when the text was cut, as they were written: `"file": "a"`.
  [[nodiscard]] const std::vector<std::string>& unplaced() const { return unplaced_; }

 private:
  // A member that may stand for another one.
  struct Noted {
    std::string key;
    std::string text;  // its value
    bool is_held = false;
  };
  // An open array or object whose members are looked at.
  struct Frame {
    bool is_object = false;
    std::vector<Nodes> ways;
    std::string path;
    std::size_t written = 0;        // members or items that have been passed on
    std::string key;                // the key of the current member
    std::vector<std::string> seen;  // known fields of the schema or a rule
    std::vector<Noted> noted;
    std::size_t index = 0;
    std::optional<Place> items;  // the place of all items that follow
  };

  ArgumentRepairer(RepairedTool tool, Place root, unsigned level);

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
  std::string repaired(const Place& place, const std::string& text, const std::string& path);
  std::optional<std::string> nested(const Place& place, const std::string& text,
                                    const std::string& path);
  void narrow(Frame& frame, const std::string& text);
  void tell(std::string kind, std::string path, std::string what, const std::string& values,
            const std::optional<std::string>& line = std::nullopt);

  const RepairedTool tool_;
  const std::vector<const Rule*> rules_;  // of the tool
  const Place root_;
  const unsigned level_;  // of JSON in strings
  json::Lexer lexer_;
  bool is_broken_ = false;
  std::vector<Frame> frames_;
  std::string pending_;     // comma, key, colon and space before the next value
  std::size_t key_at_ = 0;  // in pending_
  Place place_;             // of the current value
  bool in_value_ = false;   // inside a value whose members are not looked at
  bool passes_ = false;     // the value is passed on
  bool keeps_ = false;      // the value is kept in value_
  bool is_member_held_ = false;
  bool notes_ = false;     // the value goes into the frame's `noted`
  std::size_t depth_ = 0;  // the depth at its beginning
  std::string value_;
  std::vector<Repair> repairs_;
  std::vector<std::string> unplaced_;
};

}  // namespace tenon::repair
