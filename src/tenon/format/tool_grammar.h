#pragma once

#include <memory>
#include <span>
#include <string>

#include "tenon/base/expected.h"
#include "tenon/format/format.h"
#include "tenon/grammar/json_frames.h"
#include "tenon/grammar/rules.h"
#include "tenon/message/message.h"
#include "tenon/schema/schema.h"
#include "tenon/vocab/tokenizer.h"

namespace tenon::format {

struct ToolGrammarOptions {
  bool parallel = true;  ///< Several calls in one answer, where the format has them.
  grammar::JsonOptions json;
  /// Whose control tokens the format's markers are; null: markers are text. Names and schemas are
  /// the client's and never become control tokens.
  const vocab::Tokenizer* tokenizer = nullptr;
  /// JSON that the text is, if there is text; null: any text.
  std::shared_ptr<const schema::Schema> content;
  /// The same with a grammar: see read_text_grammar(). One of the two at most.
  std::shared_ptr<const grammar::Rules> content_grammar;
  /// Where a call is known by a tool's name alone, text may not hold that name as JSON either that
  /// spells it with escapes. False: such text may come, which the parser takes for a call that no
  /// grammar held; without it the automaton is too large for grammars that are written down.
  bool bars_escapes = true;
  /// End of the prompt, as in ParseOptions: where it has opened the reasoning, the answer goes on
  /// inside.
  std::string prompt_tail;
  /// A section of reasoning may come first, where the format has one. False: the model knows none,
  /// so that only one that the prompt has opened is gone on with.
  bool reasoning = true;
  /// After `required` too calls may be written in the forms that with_fallbacks() has added.
  bool required_in_any_form = false;
};

/// What a model may answer that calls `tools` in this format: the strict counterpart of
/// StreamParser, from the same definition. Calls are written in the first of the format's syntaxes,
/// after `automatic` (and `required`, where the options say so) also in those that with_fallbacks()
/// has added, where the text before lets one begin, and hold a known name and the arguments that
/// its schema wants; after `automatic` any text may stand instead of calls or before them, after
/// `none` only text, after `required` calls alone. A section of reasoning may come first where the
/// format has one; one that the prompt has opened comes first, up to what ends it for the parser.
///
///     const auto rules = tool_grammar(*find("hermes"), request.tools, request.tool_choice, {});
///     if (!rules) return Unexpected(rules.error());
///     const auto frame = grammar::add_rules(machine, *rules, vocab);
///
/// JSON arguments are exactly the schema's. Parameters that are written one by one (XML, Python)
/// come in the schema's order, or in any where the options say so and there are at most six; those
/// that it neither declares nor requires come only where it does neither, and those whose names the
/// parser would not read again as they are written never do (`a b` of Python's keywords). Of a
/// value that is no JSON (raw text, True) type, `enum`, length and `pattern` are enforced, also
/// beside `$ref` and in `allOf`, `anyOf` and `oneOf`, items (also of tuples) and members (also of
/// maps) as far as they are plain. A listed value that holds what ends a value in the format is
/// left out; `unsatisfiable` where the schema lists no other. The text of a custom tool is held to
/// its grammar. Fails with the tool's name where a schema or a grammar is refused, and with
/// `invalid` where such a name is required.
[[nodiscard]] Expected<grammar::Rules> tool_grammar(const Format& format,
                                                    std::span<const message::Tool> tools,
                                                    const message::ToolChoice& choice,
                                                    const ToolGrammarOptions& options);

/// The format has a way to write a call. One without takes no tools: its answers are text and
/// reasoning.
[[nodiscard]] bool writes_calls(const Format& format);

/// The grammar's calls have exactly the arguments that the schemas take: those that are JSON.
[[nodiscard]] bool is_exact(const Format& format);

}  // namespace tenon::format
