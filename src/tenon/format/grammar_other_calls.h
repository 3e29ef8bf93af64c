#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/format/grammar_calls.h"

/// Calls in the forms of other formats, which models write by heart (docs/formats.md, "Calls in
/// other forms"). They differ in white space and order. The text before such a call and the call's
/// beginning are one lexeme, so that a mask need not look at each token as a possible end of text;
/// what follows is made only when a name has come (later).
namespace tenon::format {

class OtherCallGrammar : protected CallGrammar {
 public:
  using CallGrammar::CallGrammar;

 protected:
  /// What a later part needs after this object has been destroyed.
  struct Kept;

  std::shared_ptr<const Kept> kept_;

  std::vector<NodeId> calls_of_others(NodeId before, bool is_covered);
  NodeId section_of_other(const std::string& begin);
  NodeId call_of_other(const std::string& begin);
  NodeId object_of_other();
  NodeId make_object_of_other(const ObjectKeys& keys);
  NodeId object_of_other_from_name(bool is_wrapped);
  NodeId named_of_other(const Pattern& rest);
  NodeId body_of_other(const std::string& name, const Pattern& pattern);
  NodeId later(std::string first, std::function<NodeId(OtherCallGrammar&)> make);
  void begin_other(const Syntax& syntax);
  NodeId loosely(const Pattern& pattern, std::string_view begin = {});
  NodeId call_by_heart(std::string_view begin);

  std::vector<std::pair<const ObjectKeys*, NodeId>> objects_;  // of other forms
  std::optional<NodeId> python_call_;                          // of other forms
};

}  // namespace tenon::format
