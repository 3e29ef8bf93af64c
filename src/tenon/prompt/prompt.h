#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/jinja/template.h"
#include "tenon/json/value.h"
#include "tenon/message/message.h"
#include "tenon/vocab/tokenizer.h"

/// From what was said to what the model reads: messages and tools through the chat template
/// (chat_template.h) to spans, and spans to token ids.
namespace tenon::prompt {

struct PromptOptions {
  bool add_generation_prompt = true;
  std::string bos_token;  ///< "" leaves the variable undefined, as transformers does.
  std::string eos_token;
  bool shape = true;            ///< Rewrite what the template cannot take; log what was done.
  std::int64_t now_unix_s = 0;  ///< 0: the system's clock.
};

struct Prompt {
  std::string text;
  std::vector<jinja::Span> spans;
  std::vector<std::string> shaping;  ///< A sentence for each thing of history that was rewritten.
  /// Ids of calls that were rewritten: as the client wrote them, as the model reads them.
  std::vector<std::pair<std::string, std::string>> ids;
};

/// The variables that a template sees for `request`: messages, tools, template_kwargs, ... The
/// control tokens are the model's: what a client sends under their names is not taken.
[[nodiscard]] json::Object template_context(const message::ChatRequest& request,
                                            const PromptOptions& options);

/// Renders OpenAI-shaped JSON as it came (unknown keys of messages reach the template), without
/// shaping: what `tenon render --batch` judges against transformers. `context` may hold messages,
/// tools, documents, bos_token, ... ; absent tools and documents are null. The role of a message is
/// the template's text, as the markers are that templates make of it, where it is a word that chat
/// protocols and models know; all else of the context is data, but for what `options` say.
[[nodiscard]] Expected<Prompt> render_context(const jinja::Template& chat_template,
                                              json::Object context, const PromptOptions& options);
[[nodiscard]] Expected<Prompt> render_context(const jinja::Template& chat_template,
                                              json::Object context, jinja::RenderOptions options);

/// Tokenises with control tokens on where the template wrote them and off everywhere else, so that
/// no text from outside becomes one. Other tokens reach across the borders of template and data, as
/// they did when the model was trained: without markers in the data the tokens are those of the
/// whole text. Control tokens that swallow the white space beside them (lstrip, rstrip) do so in
/// the template's text and not in the data. A stretch of the template in which the tokenizer
/// changes the text otherwise (normalises it) keeps its tokens, and none reaches across its
/// borders. Adds bos where the tokenizer asks for it and the text has none.
[[nodiscard]] Status tokenize(const vocab::Tokenizer& tokenizer, const Prompt& prompt,
                              std::vector<vocab::TokenId>& ids);

/// The JSON that templates see for a message and for a tool: OpenAI's shape, in which arguments are
/// text until they are shaped.
[[nodiscard]] json::Value to_template_json(const message::Message& message);
[[nodiscard]] json::Value to_template_json(const message::Tool& tool);

}  // namespace tenon::prompt
