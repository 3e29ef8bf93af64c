#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/format/definition.h"
#include "tenon/format/tool_grammar.h"
#include "tenon/format/value_style.h"
#include "tenon/grammar/rules/rules.h"
#include "tenon/message/message.h"

/// The grammar of an answer is built by a chain of classes, of which each uses only those before
/// it:
///
///     GrammarParts        rules, markers, white space                grammar_parts.h
///     TextGrammar         text that the parser reads as text         grammar_text.h
///     JsonGrammar         JSON of the current tool                   grammar_json.h
///     TextValueGrammar    values that are texts without quotes       grammar_text_values.h
///     StyledValueGrammar  values of Python and other notations       grammar_styled_values.h
///     ParameterGrammar    parameters one by one, elements            grammar_parameters.h
///     CallGrammar         calls in the format's own forms            grammar_calls.h
///     OtherCallGrammar    calls in other forms                       grammar_other_calls.h
///     AnswerGrammar       the whole answer                           tool_grammar.cc
///
/// One object of the last class makes one grammar.
namespace tenon::format {

namespace node = grammar::node;
using grammar::JsonOptions;
using grammar::NodeId;
using grammar::Rules;
using message::Tool;

class GrammarParts {
 public:
  using Known = std::map<const Tool*, std::shared_ptr<const grammar::KnownSchemas::Known>>;

  GrammarParts(const Format& format, std::vector<const Tool*> tools, Known known,
               const ToolGrammarOptions& options)
      : format_(format),
        tools_(std::move(tools)),
        known_(std::move(known)),
        options_(options),
        syntax_(format.syntaxes.empty() ? nullptr : &format.syntaxes.front()),
        json_(options.json) {}

 protected:
  /// The white space that may be written around the parts of a form.
  static constexpr std::uint32_t kMaxSpaces = 40;

  [[nodiscard]] bool ends_turn(std::string_view marker) const;
  NodeId marker(std::string_view text);
  NodeId optional(NodeId part) { return rules_.repeat(part, 0, 1); }
  NodeId any_number(NodeId part) { return rules_.repeat(part, 0, node::kUnbounded); }
  NodeId text_until(std::vector<std::string> stops);
  static std::string first_literal(const Pattern& pattern);
  /// The current syntax: the format's own, or a fallback's.
  const Syntax& syntax() const { return *syntax_; }
  bool is_own() const { return syntax_->rank == 0; }
  NodeId spaces();
  bool has_control(std::string_view text) const;
  static std::string within(std::string_view quote, std::string_view text);
  NodeId any_space() { return rules_.add(node::Pattern{"[ \\t\\r\\n]*"}); }
  NodeId both(NodeId one, NodeId other);
  std::string behind_prompt(const std::string& text) const;
  NodeId without(NodeId text, std::vector<NodeId> barred);
  NodeId anything();
  static void add_new(std::vector<std::string>& texts, std::string text);
  void begin_form(const Syntax& form);
  /// White space around calls, if it is not known what the model's template writes there.
  NodeId edge_space() { return rules_.add(node::Pattern{"[ \\n]{0,2}"}); }
  NodeId any_marker(const std::vector<std::string>& texts);
  static std::string text_of(const Pattern& pattern);
  NodeId plain(const Pattern& pattern) { return marker(text_of(pattern)); }
  void fail(const Error& error);
  NodeId name_node() { return rules_.add(node::Pattern{std::string(kElementName)}); }
  NodeId bracketed(const char* open, NodeId body, const char* close);
  NodeId either(std::string_view a, std::string_view b);

  const Format& format_;
  std::vector<const Tool*> tools_;
  const Known known_;  // what is known of their schemas
  const ToolGrammarOptions& options_;
  const Syntax* syntax_;  // null: the format writes no calls
  JsonOptions json_;      // of the current syntax
  Rules rules_;
  std::optional<NodeId> spaces_;
  const Tool* tool_ = nullptr;  // the current tool
  std::optional<Error> error_;
};

}  // namespace tenon::format
