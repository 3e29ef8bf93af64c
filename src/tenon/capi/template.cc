#include "tenon/capi/template.h"

#include <utility>
#include <vector>

#include "tenon/batch/line.h"
#include "tenon/batch/render.h"
#include "tenon/capi/format.h"
#include "tenon/capi/handle.h"
#include "tenon/capi/vocab.h"
#include "tenon/config/model_format.h"
#include "tenon/config/model_template.h"
#include "tenon/format/registry.h"
#include "tenon/json/value.h"
#include "tenon/prompt/capabilities.h"
#include "tenon/prompt/prompt.h"

// The spans are kept in the form of C, since a caller gets a pointer into them.
struct tenon_prompt {
  tenon::prompt::Prompt prompt;
  std::vector<tenon_span> spans;
};

// Templates and prompts. A template is compiled from its text, or loaded with what a model's files
// say of its tokens. A request of tenon_template_render() is the context of the template, so it may
// have any member; the few that are options of ours are taken out first.

namespace tenon::capi {
namespace {

// An option that is "" counts as absent, so a caller may pass what a configuration has.
Expected<prompt::ChatTemplate::Options> compile_options(tenon_text text) {
  const auto members = object_in(
      text, "options",
      {"name", "bos_token", "eos_token", "model_name", "format", "generic_fallback", "superset"});
  if (!members) return Unexpected(members.error());
  prompt::ChatTemplate::Options options;
  std::string format;
  for (const auto& [name, member] :
       {std::pair("name", &options.name), std::pair("bos_token", &options.bos_token),
        std::pair("eos_token", &options.eos_token), std::pair("format", &format)}) {
    auto given = string_member(*members, name);
    if (!given) return Unexpected(given.error());
    if (!given->empty()) *member = *std::move(given);
  }
  for (const auto& [name, member] : {std::pair("generic_fallback", &options.generic_fallback),
                                     std::pair("superset", &options.superset)}) {
    const auto given = batch::flag(*members, name, *member);
    if (!given) return Unexpected(given.error());
    *member = *given;
  }
  if (format.empty()) return options;
  auto named = format::named(format);
  if (!named) return Unexpected(named.error());
  options.format = *std::move(named);
  return options;
}

// Takes the options out of the request: what is left are the template's variables. `now` replaces
// the present time, which templates write as a date.
Expected<prompt::PromptOptions> prompt_options(json::Object& request,
                                               const tenon_template& chat_template) {
  prompt::PromptOptions options{.bos_token = chat_template.bos_token,
                                .eos_token = chat_template.eos_token};
  // These become the template's own text, so they may be control tokens.
  for (const char* name : {"bos_token", "eos_token"}) {
    if (request.contains(name)) {
      return Unexpected(
          Error::at(Errc::invalid, name, "is the model's: say it as the template is compiled"));
    }
  }
  for (const auto& [name, member] :
       {std::pair("shape", &options.shape),
        std::pair("add_generation_prompt", &options.add_generation_prompt)}) {
    const auto given = batch::flag(request, name, *member);
    if (!given) return Unexpected(given.error());
    *member = *given;
  }
  const auto now = string_member(request, "now");
  if (!now) return Unexpected(now.error());
  if (!now->empty()) {
    const auto time = batch::parse_iso_time(*now);
    if (!time) return Unexpected(Error::at(time.error().code, "now", time.error().message));
    options.now_unix_s = *time;
  }
  request.erase("shape");
  request.erase("now");
  return options;
}

Status check_lists(const json::Object& request) {
  const json::Value* const messages = request.find("messages");
  if (messages == nullptr || messages->if_array() == nullptr) {
    return Unexpected(Error::at(Errc::invalid, "messages", "must be a list"));
  }
  const json::Value* const tools = request.find("tools");
  if (tools != nullptr && !tools->is_null() && tools->if_array() == nullptr) {
    return Unexpected(Error::at(Errc::invalid, "tools", "must be a list"));
  }
  return {};
}

// The request becomes the context of the template as it is, so that templates see members that Chat
// Completions does not know.
Expected<prompt::Prompt> rendered(const tenon_template& chat_template, tenon_text text) {
  auto value = json_in(text, "request");
  if (!value) return Unexpected(value.error());
  json::Object* const request = value->if_object();
  if (request == nullptr) {
    return Unexpected(Error::at(Errc::invalid, "request", "must be a JSON object"));
  }
  if (const Status checked = check_lists(*request); !checked) return Unexpected(checked.error());
  const auto options = prompt_options(*request, chat_template);
  if (!options) return Unexpected(options.error());
  json::Object& context = *request;
  context["add_generation_prompt"] = options->add_generation_prompt;
  if (!options->bos_token.empty()) context["bos_token"] = options->bos_token;
  if (!options->eos_token.empty()) context["eos_token"] = options->eos_token;
  return chat_template.compiled->render_context(std::move(context), *options);
}

}  // namespace
}  // namespace tenon::capi

namespace capi = tenon::capi;
namespace config = tenon::config;
namespace json = tenon::json;
namespace prompt = tenon::prompt;
using tenon::Status;
using tenon::Unexpected;

tenon_error* tenon_template_compile(tenon_text source, tenon_text options,
                                    tenon_template** compiled) {
  capi::clear(compiled);
  return capi::guarded({{compiled, "compiled"}}, [&]() -> Status {
    const auto given = capi::compile_options(options);
    if (!given) return Unexpected(given.error());
    auto made = prompt::ChatTemplate::compile(capi::view(source), *given);
    if (!made) return Unexpected(made.error());
    *compiled = new tenon_template{*std::move(made), given->bos_token, given->eos_token};
    return {};
  });
}

// Everything that a model's files say counts: template, tokens, and a format in genai_config.json.
tenon_error* tenon_template_load(tenon_text path, tenon_template** compiled) {
  capi::clear(compiled);
  return capi::guarded({{compiled, "compiled"}}, [&]() -> Status {
    constexpr std::string_view kKinds =
        "a GGUF file, a model's folder, its tokenizer_config.json, or a file with a template";
    if (Status checked = capi::check_path(path, kKinds); !checked) return checked;
    const std::string file(capi::view(path));
    const auto model = config::template_of(file);
    if (!model) return Unexpected(model.error());
    const auto declared = config::declared_format(config::folder_of(file), "");
    if (!declared) return Unexpected(declared.error());
    auto made = config::compiled(*model, declared->format);
    if (!made) return Unexpected(made.error());
    *compiled = new tenon_template{*std::move(made), model->bos_token, model->eos_token};
    return {};
  });
}

void tenon_template_free(tenon_template* chat_template) {
  delete chat_template;
}

tenon_error* tenon_template_format(const tenon_template* chat_template, tenon_format** format) {
  capi::clear(format);
  return capi::guarded({{chat_template, "chat_template"}, {format, "format"}}, [&]() -> Status {
    const auto& known = chat_template->compiled->format();
    if (known != nullptr) *format = new tenon_format{known};
    return {};
  });
}

tenon_error* tenon_template_capabilities(const tenon_template* chat_template,
                                         tenon_string** capabilities) {
  capi::clear(capabilities);
  return capi::guarded(
      {{chat_template, "chat_template"}, {capabilities, "capabilities"}}, [&]() -> Status {
        const prompt::Capabilities& known = chat_template->compiled->capabilities();
        *capabilities = capi::new_string(json::to_string(json::Object{
            {"supports", prompt::to_json(known)}, {"reasoning", prompt::reasoning_of(known)}}));
        return {};
      });
}

tenon_error* tenon_template_render(const tenon_template* chat_template, tenon_text request,
                                   tenon_prompt** made) {
  capi::clear(made);
  return capi::guarded({{chat_template, "chat_template"}, {made, "prompt"}}, [&]() -> Status {
    auto rendered = capi::rendered(*chat_template, request);
    if (!rendered) return Unexpected(rendered.error());
    std::vector<tenon_span> spans;
    spans.reserve(rendered->spans.size());
    for (const tenon::jinja::Span& span : rendered->spans) {
      spans.push_back({span.begin, span.end, span.is_data ? 1 : 0});
    }
    *made = new tenon_prompt{*std::move(rendered), std::move(spans)};
    return {};
  });
}

void tenon_prompt_free(tenon_prompt* prompt) {
  delete prompt;
}

tenon_text tenon_prompt_text(const tenon_prompt* prompt) {
  return prompt == nullptr ? capi::text_of({}) : capi::text_of(prompt->prompt.text);
}

const tenon_span* tenon_prompt_spans(const tenon_prompt* prompt, size_t* count) {
  capi::clear(count);
  if (prompt == nullptr) return nullptr;
  if (count != nullptr) *count = prompt->spans.size();
  return prompt->spans.data();
}

tenon_error* tenon_prompt_shaping(const tenon_prompt* prompt, tenon_string** sentences) {
  capi::clear(sentences);
  return capi::guarded({{prompt, "prompt"}, {sentences, "sentences"}}, [&]() -> Status {
    const auto& all = prompt->prompt.shaping;
    *sentences = capi::new_string(json::to_string(json::Array(all.begin(), all.end())));
    return {};
  });
}

tenon_error* tenon_prompt_tokenize(const tenon_prompt* prompt, const tenon_vocab* vocab,
                                   int32_t* ids, size_t capacity, size_t* count) {
  capi::clear(count);
  return capi::guarded({{prompt, "prompt"}, {vocab, "vocab"}, {count, "count"}}, [&]() -> Status {
    std::vector<tenon::vocab::TokenId> written;
    Status done = prompt::tokenize(vocab->vocabulary->tokenizer(), prompt->prompt, written);
    if (!done) return done;
    return capi::write_ids(written, ids, capacity, count);
  });
}
