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

/// From messages to the text and tokens that the model reads: the chat template (chat_template.h)
/// turns messages and tools into spans, and the tokenizer turns spans into token ids.
namespace tenon::prompt {

struct PromptOptions {
  bool add_generation_prompt = true;
  std::string bos_token;  ///< "" leaves the variable undefined, as transformers does.
  std::string eos_token;
  bool shape = true;            ///< Rewrite what the template cannot express, and log it.
  std::int64_t now_unix_s = 0;  ///< 0: the system's clock.
};

struct Prompt {
  std::string text;
  std::vector<jinja::Span> spans;
  std::vector<std::string> shaping;  ///< A sentence for each kind of change to the history.
  /// Ids of calls that were rewritten: the client's id, and the one that the model reads.
  std::vector<std::pair<std::string, std::string>> ids;
};

/// The variables that a template sees for `request`: messages, tools, template_kwargs, ... The
/// control tokens are the model's; values that a client sends under their names are ignored.
[[nodiscard]] json::Object template_context(const message::ChatRequest& request,
                                            const PromptOptions& options);

/// Renders OpenAI-shaped JSON as it came (unknown keys of messages reach the template), without
/// shaping. `tenon render --batch` compares this with transformers. `context` may have messages,
/// tools, documents, bos_token, ...; absent tools and documents are null. Everything in the context
/// is data, except for what `options` say and for the role of a message: if it is a role that chat
/// protocols and models know, it counts as the template's text, because templates make markers of
/// it.
[[nodiscard]] Expected<Prompt> render_context(const jinja::Template& chat_template,
                                              json::Object context, const PromptOptions& options);
[[nodiscard]] Expected<Prompt> render_context(const jinja::Template& chat_template,
                                              json::Object context, jinja::RenderOptions options);

/// Tokenises with control tokens on in the template's text and off everywhere else, so no text from
/// outside becomes a control token. Other tokens may reach across borders between template and
/// data, as they did in training: if the data has no markers, the tokens are those of the whole
/// text. Control tokens that swallow the white space beside them (lstrip, rstrip) do so only in the
/// template's text. If the tokenizer changes a part of the template's text in another way
/// (normalises it), that part keeps its own tokens, and no token reaches across its borders. Adds
/// bos if the tokenizer asks for it and the text does not begin with it.
[[nodiscard]] Status tokenize(const vocab::Tokenizer& tokenizer, const Prompt& prompt,
                              std::vector<vocab::TokenId>& ids);

/// The JSON that templates see for a message and for a tool. It has OpenAI's shape, in which
/// arguments are text; shaping may make them objects.
[[nodiscard]] json::Value to_template_json(const message::Message& message);
[[nodiscard]] json::Value to_template_json(const message::Tool& tool);

}  // namespace tenon::prompt
