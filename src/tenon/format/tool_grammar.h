#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/format/format.h"
#include "tenon/grammar/json/json_frames.h"
#include "tenon/grammar/json/known_schemas.h"
#include "tenon/grammar/rules/rules.h"
#include "tenon/message/message.h"
#include "tenon/schema/schema.h"
#include "tenon/vocab/tokenizer.h"

namespace tenon::format {

struct ToolGrammarOptions {
  bool parallel = true;  ///< Several calls in one answer, if the format allows it.
  grammar::JsonOptions json;
  /// The tokenizer whose control tokens are the format's markers; null: markers are text. Names and
  /// schemas come from the client and never become control tokens.
  const vocab::Tokenizer* tokenizer = nullptr;
  /// The text must be JSON of this schema, if there is text; null: any text.
  std::shared_ptr<const schema::Schema> content;
  /// The same with a grammar: see read_text_grammar(). At most one of the two.
  std::shared_ptr<const grammar::Rules> content_grammar;
  /// If only a tool's name makes a call, text must not contain that name as JSON with escapes
  /// either. False: such text is allowed, and the parser takes it for a call that was not
  /// constrained; without it the automaton is too large for grammars that are printed.
  bool bars_escapes = true;
  /// The end of the prompt, as in ParseOptions: if it has opened the reasoning, the answer
  /// continues inside.
  std::string prompt_tail;
  /// A section of reasoning may come first, if the format has one. False: the model knows none, so
  /// reasoning only continues if the prompt has opened it.
  bool reasoning = true;
  /// The most tokens of that section, without its markers; 0: it is empty, and is not begun.
  /// Absent: any number.
  std::optional<std::uint32_t> max_reasoning_tokens;
  /// After `required`, calls may also be written in the forms that with_fallbacks() has added.
  bool required_in_any_form = false;
  /// As in ParseOptions.
  bool others_first = false;
  /// The schemas of the tools' parameters as far as they are known, in the order of the tools.
  /// Empty: none is.
  std::vector<std::shared_ptr<const grammar::KnownSchemas::Known>> known;
};

/// What a model may answer if it calls `tools` in this format: the strict counterpart of
/// StreamParser, from the same definition. Calls are written in the first of the format's syntaxes;
/// after `automatic` (and `required`, if the options say so) also in those that with_fallbacks()
/// has added, where the text before allows one. They have a known name and arguments that fit its
/// schema. After `automatic` any text may come in place of calls or before them, after `none` only
/// text, after `required` only calls. A section of reasoning may come first if the format has one;
/// reasoning that the prompt has opened comes first, up to what ends it for the parser.
///
///     const auto rules = tool_grammar(*find("hermes"), request.tools, request.tool_choice, {});
///     if (!rules) return Unexpected(rules.error());
///     const auto frame = grammar::add_rules(machine, *rules, vocab);
///
/// JSON arguments are exactly the schema's. Parameters that are written one by one (XML, Python)
/// come in the schema's order, or in any order if the options say so and there are at most six.
/// Parameters that the schema neither declares nor requires come only if it declares and requires
/// none; those whose names the parser could not read back never come (`a b` as a Python keyword).
/// For a value that is not JSON (raw text, True), the type, `enum`, length and `pattern` are
/// enforced, also beside `$ref` and in `allOf`, `anyOf` and `oneOf`; items (also of tuples) and
/// members (also of maps) as far as they are simple. A listed value that contains the marker that
/// ends it is left out; `unsatisfiable` if the schema lists no other. The text of a custom tool is
/// constrained by its grammar. Fails with the tool's name if a schema or a grammar is refused, and
/// with `invalid` if such a name is required.
[[nodiscard]] Expected<grammar::Rules> tool_grammar(const Format& format,
                                                    std::span<const message::Tool> tools,
                                                    const message::ToolChoice& choice,
                                                    const ToolGrammarOptions& options);

/// The format has a way to write calls. A format without one takes no tools: its answers are text
/// and reasoning.
[[nodiscard]] bool writes_calls(const Format& format);

/// The format has a section of reasoning that a grammar can limit.
[[nodiscard]] bool has_reasoning_section(const Format& format);

/// The grammar's calls have exactly the arguments that the schemas allow: those that are JSON.
[[nodiscard]] bool is_exact(const Format& format);

}  // namespace tenon::format
