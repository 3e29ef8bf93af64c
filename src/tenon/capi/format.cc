#include "tenon/capi/format.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tenon/capi/handle.h"
#include "tenon/capi/tools.h"
#include "tenon/capi/vocab.h"
#include "tenon/config/model_template.h"
#include "tenon/format/detect.h"
#include "tenon/format/registry.h"
#include "tenon/format/render.h"
#include "tenon/format/response_template.h"
#include "tenon/json/value.h"

// Formats by name, from a definition, from a response_template, or detected from what is known of a
// model; and what a format writes. Events of parsers and conversations become tenon_event here.

namespace tenon::capi {
namespace {

// The names of the user's texts in errors.
constexpr std::string_view kDefinition = "definition";
constexpr std::string_view kImported = "response_template";

Expected<std::shared_ptr<const format::Format>> imported(const json::Value& response_template) {
  const auto definition = format::definition_of(response_template, kImported);
  if (!definition) return Unexpected(definition.error());
  return format::compile(*definition, kImported);
}

// The clues of tenon_format_detect(), in the form in which config/ has them from a model's files.
Expected<config::ModelTemplate> model_of(tenon_text text) {
  const auto members =
      object_in(text, "clues",
                {"chat_template", "bos_token", "eos_token", "model_name", "response_template"});
  if (!members) return Unexpected(members.error());
  config::ModelTemplate model{.where = "chat_template"};
  for (const auto& [name, member] :
       {std::pair("chat_template", &model.source), std::pair("bos_token", &model.bos_token),
        std::pair("eos_token", &model.eos_token), std::pair("model_name", &model.model_name)}) {
    auto given = string_member(*members, name);
    if (!given) return Unexpected(given.error());
    *member = *std::move(given);
  }
  const json::Value* const response = members->find("response_template");
  if (response == nullptr || response->is_null()) return model;
  auto format = imported(*response);
  if (!format) return Unexpected(format.error());
  model.imported = *std::move(format);
  return model;
}

// The names of the vocabulary's control tokens.
std::vector<std::string> controls_of(const vocab::Vocab& vocab) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < vocab.size(); ++i) {
    const auto id = static_cast<vocab::TokenId>(i);
    if (vocab.kind(id) == vocab::Token::Kind::control) names.emplace_back(vocab.bytes(id));
  }
  return names;
}

// Without a template there are other clues: the name, the control tokens, a response_template.
Expected<format::Detection> detect(const config::ModelTemplate& model) {
  if (model.source.empty()) return config::detect_format(model);
  const auto compiled = config::compiled(model);
  if (!compiled) return Unexpected(compiled.error());
  return config::detect_format(model, **compiled);
}

Expected<json::Value> list_in(tenon_text text, std::string_view name) {
  auto list = json_in(text, name);
  if (list && list->if_array() == nullptr) {
    return Unexpected(Error::at(Errc::invalid, std::string(name), "must be a list"));
  }
  return list;
}

Status give(Expected<std::shared_ptr<const format::Format>> made, tenon_format** format) {
  if (!made) return Unexpected(made.error());
  *format = new tenon_format{*std::move(made)};
  return {};
}

}  // namespace

// The texts are views of the C++ event; a C caller copies what it needs after the callback or the
// next feed. Events of servers of tools do not come here, since requests of C programs cannot name
// any.
tenon_event event_of(const message::ChatEvent& event) {
  tenon_event made{};
  made.size = sizeof(made);
  made.text = made.id = made.name = text_of({});
  if (const auto* content = std::get_if<message::ContentDelta>(&event)) {
    made.type = TENON_EVENT_CONTENT;
    made.text = text_of(content->text);
  } else if (const auto* reasoning = std::get_if<message::ReasoningDelta>(&event)) {
    made.type = TENON_EVENT_REASONING;
    made.text = text_of(reasoning->text);
  } else if (const auto* begin = std::get_if<message::CallBegin>(&event)) {
    made.type = TENON_EVENT_CALL;
    made.call = begin->index;
    made.id = text_of(begin->id);
    made.name = text_of(begin->name);
  } else if (const auto* arguments = std::get_if<message::CallArguments>(&event)) {
    made.type = TENON_EVENT_ARGUMENTS;
    made.call = arguments->index;
    made.text = text_of(arguments->text);
  } else if (const auto* end = std::get_if<message::CallEnd>(&event)) {
    made.type = TENON_EVENT_CALL_END;
    made.call = end->index;
    made.is_incomplete = end->incomplete ? 1 : 0;
  } else if (const auto* diagnostic = std::get_if<message::Diagnostic>(&event)) {
    made.type = TENON_EVENT_DIAGNOSTIC;
    made.name = text_of(diagnostic->code);
    made.text = text_of(diagnostic->message);
  } else {
    made.type = TENON_EVENT_FINISH;
    made.name = text_of(message::finish_reason_name(std::get<message::Finish>(event).reason));
  }
  return made;
}

}  // namespace tenon::capi

namespace capi = tenon::capi;
namespace format = tenon::format;
namespace json = tenon::json;
using tenon::Status;
using tenon::Unexpected;

tenon_error* tenon_format_find(tenon_text name, tenon_format** format) {
  capi::clear(format);
  return capi::guarded({{format, "format"}}, [&]() -> Status {
    return capi::give(format::named(capi::view(name)), format);
  });
}

tenon_error* tenon_format_compile(tenon_text definition, tenon_format** format) {
  capi::clear(format);
  return capi::guarded({{format, "format"}}, [&]() -> Status {
    return capi::give(format::compile(capi::view(definition), capi::kDefinition), format);
  });
}

tenon_error* tenon_format_import(tenon_text response_template, tenon_format** format) {
  capi::clear(format);
  return capi::guarded({{format, "format"}}, [&]() -> Status {
    const auto value = capi::json_in(response_template, capi::kImported);
    if (!value) return Unexpected(value.error());
    return capi::give(capi::imported(*value), format);
  });
}

void tenon_format_free(tenon_format* format) {
  delete format;
}

// For the whole process: models that are loaded from now on may name it.
tenon_error* tenon_format_register(const tenon_format* format) {
  return capi::guarded({{format, "format"}},
                       [&]() -> Status { return format::register_format(format->format); });
}

tenon_error* tenon_format_info(const tenon_format* format, tenon_string** info) {
  capi::clear(info);
  return capi::guarded({{format, "format"}, {info, "info"}}, [&]() -> Status {
    const format::FormatInfo& known = format::info(*format->format);
    const json::Array aliases(known.aliases.begin(), known.aliases.end());
    *info = capi::new_string(json::to_string(
        json::Object{{"name", known.name}, {"aliases", aliases}, {"parallel", known.parallel}}));
    return {};
  });
}

tenon_error* tenon_format_names(tenon_string** names) {
  capi::clear(names);
  return capi::guarded({{names, "names"}}, [&]() -> Status {
    json::Array list;
    for (const auto& known : format::all()) list.emplace_back(format::info(*known).name);
    *names = capi::new_string(json::to_string(list));
    return {};
  });
}

// The evidence is made before the format is given out, since making it may fail.
tenon_error* tenon_format_detect(tenon_text clues, const tenon_vocab* vocab, tenon_format** format,
                                 tenon_string** evidence) {
  capi::clear(format);
  capi::clear(evidence);
  return capi::guarded({{format, "format"}}, [&]() -> Status {
    auto model = capi::model_of(clues);
    if (!model) return Unexpected(model.error());
    if (vocab != nullptr) model->controls = capi::controls_of(vocab->vocabulary->tokens());
    auto found = capi::detect(*model);
    if (!found) return Unexpected(found.error());
    // A unique_ptr, since the line below may throw and the caller must then get nothing.
    auto made = std::unique_ptr<tenon_format>(
        found->format == nullptr ? nullptr : new tenon_format{std::move(found->format)});
    if (evidence != nullptr) {
      *evidence = capi::new_string(json::to_string(
          json::Object{{"by", format::name_of(found->by)}, {"evidence", found->evidence}}));
    }
    *format = made.release();
    return {};
  });
}

tenon_error* tenon_format_render_calls(const tenon_format* format, tenon_text calls,
                                       tenon_string** text) {
  capi::clear(text);
  return capi::guarded({{format, "format"}, {text, "text"}}, [&]() -> Status {
    auto list = capi::list_in(calls, "calls");
    if (!list) return Unexpected(list.error());
    const auto read = capi::calls_of(*list);
    if (!read) return Unexpected(read.error());
    auto rendered = format::render_calls(*format->format, *read);
    if (!rendered) return Unexpected(rendered.error());
    *text = capi::new_string(*std::move(rendered));
    return {};
  });
}

tenon_error* tenon_format_describe_tools(const tenon_format* format, tenon_text tools,
                                         tenon_string** text) {
  capi::clear(text);
  return capi::guarded({{format, "format"}, {text, "text"}}, [&]() -> Status {
    auto list = capi::list_in(tools, "tools");
    if (!list) return Unexpected(list.error());
    const auto read = capi::tools_of(*std::move(list));
    if (!read) return Unexpected(read.error());
    *text = capi::new_string(format::describe_tools(*format->format, *read));
    return {};
  });
}
