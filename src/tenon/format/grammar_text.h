#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/format/grammar_parts.h"
#include "tenon/format/lead.h"

/// Text that is text for the parser too: it has no marker that begins a call, and where only a
/// tool's name makes a call, it does not have that name in any notation.
namespace tenon::format {

class TextGrammar : protected GrammarParts {
 public:
  using GrammarParts::GrammarParts;

 protected:
  static constexpr Lead::Place kPlaces[] = {Lead::Place::anywhere, Lead::Place::line,
                                            Lead::Place::sentence};
  struct Openings {
    std::vector<NodeId> beginnings;  // with the text before them
    NodeId rest = 0;
  };

  static constexpr const char* kFirstKeyword =
      R"(\([ \t\r\n]*(?:\)|[^\s="'(){}\[\],]+[ \t\r\n]*=))";
  static inline const std::string kAnyEscape = "u[0-9A-Fa-f]{4}";

  static std::string trigger_of(const Syntax& syntax);
  std::vector<std::string> triggers() const;
  void add_heads(std::vector<std::string>& stops) const;
  static bool is_mark(std::string_view literal);
  bool holds_text() const;
  NodeId free_text();
  NodeId lead(Lead::Place place);
  template <class F>
  void for_each_other(Lead::Place place, F f) {
    for (const Syntax& each : format_.syntaxes) {
      if (each.rank > 0 && each.place == place) f(each);
    }
  }
  std::vector<NodeId> openings_of_others();
  void add_opening(const Syntax& syntax, const Pattern& pattern,
                   std::map<std::string, Openings>& groups,
                   std::map<std::string, std::vector<NodeId>>& here);
  /// A text that is nothing else: it is a control token in other models.
  static bool is_tag(std::string_view text) { return text.starts_with('<') && text.ends_with('>'); }
  static std::string group_of(const Syntax& syntax, const Pattern& pattern,
                              Pattern::const_iterator piece);
  NodeId opening_rest(const Syntax& syntax, const Pattern& pattern, Pattern::const_iterator piece);
  NodeId object_opening(const ObjectKeys& keys);
  NodeId spelled(const std::vector<std::string>& keys, bool loosely);
  NodeId without_reasoning(NodeId text);
  NodeId opening(const Syntax& syntax, const Pattern& pattern);
  NodeId known_name(std::string_view quote);
  NodeId named_member(const ObjectKeys& keys);
  NodeId with_escapes(const std::vector<std::string_view>& texts);
  static std::string escape_of(char character);
  NodeId content();
  NodeId between();
  NodeId first_text();
  void add_calls_behind_prompt(std::vector<NodeId>& openings);
  NodeId text_before_call();
  NodeId limited_reasoning(NodeId text);

  std::optional<NodeId> free_text_;
};

}  // namespace tenon::format
