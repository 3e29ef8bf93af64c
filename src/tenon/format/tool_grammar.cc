// Builds the grammar of an answer from a format and tools: the counterpart of StreamParser. The
// classes of the chain (grammar_parts.h) turn the same patterns into nodes of grammar::Rules:
// literals become markers (control tokens, if the model has them), slots become names, ids and
// arguments. This file puts text, reasoning and calls together.
//
// JSON arguments are one node, the tool's schema. Arguments written one by one are built from the
// schema as JSON: each member becomes a parameter, in order or in every order that is small enough,
// and a value that is not JSON is a language of texts without the marker that ends it. WholeSchemas
// joins what references and allOf say of one value.

#include "tenon/format/tool_grammar.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tenon/format/definition.h"
#include "tenon/format/grammar_other_calls.h"

namespace tenon::format {
namespace {

using message::ToolMode;

class AnswerGrammar : OtherCallGrammar {
 public:
  using OtherCallGrammar::OtherCallGrammar;

  Expected<Rules> build(ToolMode mode) {
    NodeId answer = 0;
    if (mode == ToolMode::none) {
      answer = content();
    } else if (mode == ToolMode::required) {
      answer = calls_in_any_form();
    } else {
      answer = text_or_calls();
    }
    rules_.set_root(with_reasoning(answer, mode));
    if (error_) return Unexpected(*error_);
    return std::move(rules_);
  }

 private:
  // If a call is required and may have another form, the model can choose: a model that is forced
  // into a form that it does not write by itself may not find an end.
  NodeId calls_in_any_form() {
    const NodeId own = calls(Where::must_begin);
    const bool is_framed = !format_.content_open.empty() || !format_.prompt_end.empty();
    if (!options_.required_in_any_form || !format_.has_gated || is_framed) return own;
    std::vector<NodeId> ways =
        calls_of_others(rules_.add(node::Pattern{"[ \\t\\n\\r]{0,20}"}), /*is_covered=*/false);
    ways.insert(ways.begin(), own);
    return rules_.choice(std::move(ways));
  }

  NodeId text_or_calls() {
    if (holds_text()) return rules_.choice({content(), calls(Where::may_begin)});
    const bool is_framed = !format_.content_open.empty();
    const NodeId behind_text = calls(Where::behind);
    const NodeId before = is_framed ? content() : text_before_call();
    NodeId text = rules_.sequence({before, optional(behind_text)});
    if (format_.has_gated) {
      // See anything() for why `before` is dead at once.
      std::vector<NodeId> ways = calls_of_others(before, options_.tokenizer != nullptr);
      ways.insert(ways.begin(), text);
      text = rules_.choice(std::move(ways));
    }
    if (!format_.prompt_end.empty()) return rules_.choice({text, calls(Where::may_begin)});
    return is_framed ? rules_.choice({text, behind_text}) : text;
  }

  NodeId with_reasoning(NodeId answer, ToolMode mode) {
    if (!has_reasoning_section(format_)) return answer;
    // What ends the reasoning for the parser is not part of it.
    std::vector<std::string> stops = format_.reasoning_close;
    stops.insert(stops.end(), format_.content_open.begin(), format_.content_open.end());
    if (format_.call_ends_reasoning) {
      const std::vector<std::string> starts = triggers();
      stops.insert(stops.end(), starts.begin(), starts.end());
    }
    add_heads(stops);
    const NodeId body = limited_reasoning(text_until(std::move(stops)));
    const NodeId space = rules_.add(node::Pattern{"[ \\t\\n\\r]{0,20}"});
    // The end of the prompt comes before each message; otherwise a name would be text there.
    const NodeId head = format_.prompt_end.empty() ? between() : plain(format_.between);
    const NodeId close = rules_.sequence({marker(format_.reasoning_close.front()), space, head});
    if (!starts_in_reasoning(format_, options_.prompt_tail)) {
      const bool may_think = options_.reasoning && options_.max_reasoning_tokens != 0U;
      if (!may_think || ends_turn(format_.reasoning_close.front())) return answer;
      const bool is_text_first = mode == ToolMode::automatic && !holds_text();
      // The same white space as before a call; otherwise the model would be led away from calling.
      const bool is_call_first = mode == ToolMode::required && !format_.has_known_edges;
      const NodeId before = is_text_first   ? space
                            : is_call_first ? edge_space()
                                            : rules_.literal("");
      const NodeId open = marker(format_.reasoning_open.front());
      return rules_.sequence({optional(rules_.sequence({before, open, body, close})), answer});
    }
    const NodeId closed = rules_.sequence({close, answer});
    const bool may_call = format_.call_ends_reasoning && mode != ToolMode::none;
    return rules_.sequence(
        {body, may_call ? rules_.choice({closed, calls(Where::behind)}) : closed});
  }
};

}  // namespace

Expected<Rules> tool_grammar(const Format& format, std::span<const Tool> tools,
                             const message::ToolChoice& choice, const ToolGrammarOptions& options) {
  if (!writes_calls(format) && choice.mode != ToolMode::none) {
    return Unexpected(
        Error{Errc::unsupported, format.info.name + " has no way to write a call: no [[syntax]]"});
  }
  std::vector<const Tool*> chosen;
  GrammarParts::Known known;
  for (std::size_t i = 0; i < tools.size(); ++i) {
    const bool is_allowed =
        choice.allowed.empty() ||
        std::ranges::find(choice.allowed, tools[i].name) != choice.allowed.end();
    if (!is_allowed) continue;
    chosen.push_back(&tools[i]);
    if (i < options.known.size() && options.known[i] != nullptr) {
      known.emplace(&tools[i], options.known[i]);
    }
  }
  if (chosen.empty() && choice.mode != ToolMode::none) {
    return Unexpected(Error{Errc::invalid, "there is no tool to call"});
  }
  return AnswerGrammar(format, std::move(chosen), std::move(known), options).build(choice.mode);
}

bool writes_calls(const Format& format) {
  return !format.syntaxes.empty();
}

bool has_reasoning_section(const Format& format) {
  return !format.reasoning_open.empty() && !format.reasoning_close.empty();
}

bool is_exact(const Format& format) {
  return !format.syntaxes.empty() &&
         std::ranges::any_of(format.syntaxes.front().call, [](const Piece& piece) {
           return piece.kind == Piece::Kind::arguments || piece.kind == Piece::Kind::object;
         });
}

}  // namespace tenon::format
