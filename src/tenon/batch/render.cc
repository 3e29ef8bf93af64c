#include "tenon/batch/render.h"

#include <algorithm>
#include <charconv>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tenon/batch/line.h"
#include "tenon/batch/parse.h"
#include "tenon/jinja/template.h"
#include "tenon/json/lines.h"
#include "tenon/json/members.h"
#include "tenon/prompt/chat_template.h"
#include "tenon/prompt/prompt.h"

// Lines of `tenon render --batch`
//
// A line is one of three: a template with a `context`, which is rendered as it stands; a template
// with `messages`, for which the context is made as transformers would; or a `format` with
// `tool_calls`, which are written as a model would. `shape` adds what the server does before it
// renders. docs/batch.md has the members. `now` fixes the time, so that outputs can be compared.

namespace tenon::batch {
namespace {

Error wrong(std::string message) {
  return {Errc::invalid, std::move(message)};
}

// The member `key`, if it is there and not null. Fails if it has another type.
template <class T>
Expected<const T*> member(const json::Object& object, std::string_view key,
                          const T* (json::Value::*as)() const) {
  const json::Value* value = object.find(key);
  if (value == nullptr || value->is_null()) return nullptr;
  const T* found = (value->*as)();
  if (found == nullptr) {
    const json::Kind wanted =
        std::is_same_v<T, json::Object> ? json::Kind::object : json::Kind::string;
    return Unexpected(wrong(std::string(key) + ": must be " + std::string(json::kind_name(wanted)) +
                            ", is " + std::string(json::kind_name(value->kind()))));
  }
  return found;
}

/// The last template of each kind is kept, because the templates of a batch are often the same.
class Compiler {
 public:
  Expected<std::shared_ptr<const jinja::Template>> compile(const std::string& source,
                                                           const jinja::CompileOptions& options) {
    const bool is_same =
        last_ && source == source_ && options.trim_blocks == options_.trim_blocks &&
        options.lstrip_blocks == options_.lstrip_blocks && options.superset == options_.superset;
    if (is_same) return last_;
    auto compiled = jinja::Template::compile(source, options);
    if (!compiled) return compiled;
    last_ = *compiled;
    source_ = source;
    options_ = options;
    return compiled;
  }

  /// The template with its capabilities, for shaping.
  Expected<std::shared_ptr<const prompt::ChatTemplate>> compile_chat(
      const std::string& source, const prompt::ChatTemplate::Options& options) {
    const bool is_same = last_chat_ && source == last_chat_->source() &&
                         options.bos_token == chat_options_.bos_token &&
                         options.eos_token == chat_options_.eos_token;
    if (is_same) return last_chat_;
    auto compiled = prompt::ChatTemplate::compile(source, options);
    if (!compiled) return compiled;
    last_chat_ = *compiled;
    chat_options_ = options;
    return compiled;
  }

 private:
  std::shared_ptr<const jinja::Template> last_;
  std::string source_;
  jinja::CompileOptions options_;
  std::shared_ptr<const prompt::ChatTemplate> last_chat_;
  prompt::ChatTemplate::Options chat_options_;
};

// Settings of Jinja's environment that transformers turns on; `options` of a line can turn them
// off.
Expected<jinja::CompileOptions> compile_options(const json::Object& request) {
  jinja::CompileOptions options;
  const auto given = member(request, "options", &json::Value::if_object);
  if (!given) return Unexpected(given.error());
  if (*given != nullptr) {
    if (const Status known = json::check_members(**given, {"trim_blocks", "lstrip_blocks"});
        !known) {
      return Unexpected(Error{known.error().code, "options: " + known.error().message,
                              "options." + known.error().path});
    }
    const Expected<bool> trim = flag(**given, "trim_blocks", true);
    if (!trim) return Unexpected(trim.error());
    const Expected<bool> lstrip = flag(**given, "lstrip_blocks", true);
    if (!lstrip) return Unexpected(lstrip.error());
    options.trim_blocks = *trim;
    options.lstrip_blocks = *lstrip;
  }
  return options;
}

// The context that transformers would give the template.
Expected<json::Object> chat_context(const json::Object& request) {
  json::Object context;
  context["messages"] = *request.find("messages");
  const Expected<bool> generation = flag(request, "add_generation_prompt", false);
  if (!generation) return Unexpected(generation.error());
  context["add_generation_prompt"] = *generation;
  for (const std::string_view key : {"tools", "documents", "bos_token", "eos_token"}) {
    if (const json::Value* value = request.find(key)) context[key] = *value;
  }
  const auto more = member(request, "kwargs", &json::Value::if_object);
  if (!more) return Unexpected(more.error());
  if (*more != nullptr) {
    for (const json::Member& keyword : **more) {
      // The line has members of its own for these. The tokens among them would count as the
      // template's text.
      constexpr std::string_view kTaken[] = {"messages", "tools", "bos_token", "eos_token",
                                             "add_generation_prompt"};
      if (std::ranges::find(kTaken, keyword.key) != std::end(kTaken)) {
        return Unexpected(wrong("kwargs: " + keyword.key + " stands beside kwargs, not in it"));
      }
      context[keyword.key] = keyword.value;
    }
  }
  return context;
}

// What transformers does to messages since version 5: it removes keys with null, and gives
// reasoning each of the names under which templates read it.
void clean_up_messages(json::Object& context) {
  json::Value* messages = context.find("messages");
  if (messages == nullptr || messages->if_array() == nullptr) return;
  for (json::Value& item : *messages->if_array()) {
    if (item.if_object() == nullptr) continue;
    json::Object cleaned;
    json::Value reasoning;
    for (const std::string_view name : {"reasoning_content", "thinking", "reasoning"}) {
      const json::Value* value = item.find(name);
      if (value == nullptr || value->is_null()) continue;
      reasoning = *value;
      cleaned.set("thinking", reasoning);
      break;
    }
    for (const json::Member& member : *item.if_object()) {
      // The message's own members come after "thinking" and may replace it.
      if (!member.value.is_null()) cleaned.set(member.key, member.value);
    }
    if (!reasoning.is_null()) cleaned.set("reasoning_content", std::move(reasoning));
    item = std::move(cleaned);
  }
}

// Each kind of line has members of its own; its first member decides which kind it is.
Status check_members(const json::Object& request) {
  if (request.contains("messages")) {
    return json::check_members(
        request, {"template", "messages", "tools", "documents", "add_generation_prompt",
                  "bos_token", "eos_token", "kwargs", "shape", "clean_up", "options", "now"});
  }
  if (request.contains("template")) {
    return json::check_members(request, {"template", "context", "options", "shape", "now"});
  }
  if (request.contains("format")) {
    return json::check_members(request, {"format", "tools", "tool_calls"});
  }
  return Unexpected(wrong("template is missing, or format"));
}

Expected<prompt::Prompt> render_prompt(const json::Object& request, Compiler& compiler,
                                       const std::string& name) {
  const auto source = member(request, "template", &json::Value::if_string);
  if (!source) return Unexpected(source.error());
  if (*source == nullptr) return Unexpected(wrong("template is missing"));
  Expected<jinja::CompileOptions> compile = compile_options(request);
  if (!compile) return Unexpected(compile.error());
  compile->name = name;
  prompt::PromptOptions options;
  const auto now = member(request, "now", &json::Value::if_string);
  if (!now) return Unexpected(now.error());
  if (*now != nullptr) {
    const Expected<std::int64_t> time = parse_iso_time(**now);
    if (!time) return Unexpected(time.error());
    options.now_unix_s = *time;
  }
  const Expected<bool> shape = flag(request, "shape", false);
  if (!shape) return Unexpected(shape.error());
  const Expected<bool> cleans = flag(request, "clean_up", false);
  if (!cleans) return Unexpected(cleans.error());
  // As the server does: shaping needs what the template can express, which ChatTemplate finds out.
  if (request.contains("messages") && *shape) {
    Expected<json::Object> context = chat_context(request);
    if (!context) return Unexpected(context.error());
    if (*cleans) clean_up_messages(*context);
    // Shaping renders the template with the settings of transformers, so the line cannot choose
    // others.
    if (request.contains("options")) {
      return Unexpected(wrong("options: has no effect where shape is true"));
    }
    auto compiled =
        compiler.compile_chat(**source, {.name = name,
                                         .bos_token = json::text_in(*context, "bos_token"),
                                         .eos_token = json::text_in(*context, "eos_token")});
    if (!compiled) return Unexpected(compiled.error());
    return (*compiled)->render_context(*std::move(context), options);
  }
  compile->superset = *shape;
  auto compiled = compiler.compile(**source, *compile);
  if (!compiled) return Unexpected(compiled.error());
  if (request.contains("messages")) {
    Expected<json::Object> context = chat_context(request);
    if (!context) return Unexpected(context.error());
    if (*cleans) clean_up_messages(*context);
    return prompt::render_context(**compiled, *std::move(context), options);
  }
  const auto given = member(request, "context", &json::Value::if_object);
  if (!given) return Unexpected(given.error());
  static const json::Object kEmpty;
  auto rendered =
      (*compiled)->render(*given == nullptr ? kEmpty : **given, {.now_unix_s = options.now_unix_s});
  if (!rendered) return Unexpected(rendered.error());
  prompt::Prompt prompt;
  prompt.text = std::move(rendered->text);
  prompt.spans = std::move(rendered->spans);
  return prompt;
}

// `[[0, 12, "template"], [12, 17, "data"]]`: first byte, byte behind the last, and what they are.
json::Value spans_json(const prompt::Prompt& prompt) {
  json::Array spans;
  for (const jinja::Span& span : prompt.spans) {
    spans.emplace_back(json::Array{json::Value(static_cast<std::uint64_t>(span.begin)),
                                   json::Value(static_cast<std::uint64_t>(span.end)),
                                   json::Value(span.is_data ? "data" : "template")});
  }
  return spans;
}

// `{"output"}`, and `spans`, `shaping` and `ids` where there are any. `ids` has the ids of calls
// that the template's format writes otherwise.
Expected<json::Object> answer(const json::Object& request, Compiler& compiler,
                              const RenderBatchOptions& options) {
  if (const Status known = check_members(request); !known) return Unexpected(known.error());
  if (!request.contains("template") && request.contains("format")) {
    auto calls = render_calls_line(request);
    if (!calls) return Unexpected(calls.error());
    return json::Object{{"output", *std::move(calls)}};
  }
  Expected<prompt::Prompt> prompt = render_prompt(request, compiler, options.template_name);
  if (!prompt) return Unexpected(prompt.error());
  json::Object answer{{"output", std::move(prompt->text)}};
  if (options.spans) answer["spans"] = spans_json(*prompt);
  if (!prompt->shaping.empty()) {
    json::Array shaping;
    for (const std::string& change : prompt->shaping) shaping.emplace_back(change);
    answer["shaping"] = std::move(shaping);
  }
  if (!prompt->ids.empty()) {
    json::Object ids;
    for (const auto& [client, model] : prompt->ids) ids[client] = model;
    answer["ids"] = std::move(ids);
  }
  return answer;
}

}  // namespace

void render_batch(std::istream& in, std::ostream& out, const RenderBatchOptions& options) {
  Compiler compiler;
  json::answer_lines(
      in, out, [&](const json::Object& request) { return answer(request, compiler, options); });
}

Expected<json::Object> render_line(const json::Object& request, const RenderBatchOptions& options) {
  Compiler compiler;
  return answer(request, compiler, options);
}

// "2026-11-30", "2026-11-30T12:15", "2026-11-30 12:15:00.5Z", "...+02:00". `at` goes on behind the
// end of the text after a mistake; is_good remembers that there was one, and it is asked once at
// the end.
Expected<std::int64_t> parse_iso_time(std::string_view text) {
  const auto fail = [&] {
    return Unexpected(
        Error{Errc::invalid, "not an ISO 8601 time: " + json::quoted(text.substr(0, 40))});
  };
  std::size_t at = 0;
  bool is_good = true;
  const auto number = [&](std::size_t digits) {
    int value = 0;
    const std::string_view part = text.substr(std::min(at, text.size()), digits);
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    is_good &= part.size() == digits && error == std::errc() && end == part.data() + digits &&
               part[0] != '-';
    at += digits;
    return value;
  };
  const auto sign = [&](char c) {
    is_good &= at < text.size() && text[at] == c;
    ++at;
  };
  std::int64_t year = number(4);
  sign('-');
  const int month = number(2);
  sign('-');
  const int day = number(2);
  int hour = 0;
  int minute = 0;
  int second = 0;
  if (is_good && at < text.size()) {
    is_good &= text[at] == 'T' || text[at] == ' ';
    ++at;
    hour = number(2);
    sign(':');
    minute = number(2);
    if (at < text.size() && text[at] == ':') {
      ++at;
      second = number(2);
    }
    if (at < text.size() && text[at] == '.') {
      ++at;
      while (at < text.size() && text[at] >= '0' && text[at] <= '9') ++at;
    }
  }
  int offset_minutes = 0;
  if (is_good && at < text.size()) {
    if (text[at] == 'Z') {
      ++at;
    } else {
      const int direction = text[at] == '-' ? -1 : 1;
      is_good &= text[at] == '-' || text[at] == '+';
      ++at;
      const int hours = number(2);
      if (at < text.size() && text[at] == ':') ++at;
      offset_minutes = direction * (hours * 60 + number(2));
    }
  }
  if (!is_good || at != text.size() || month < 1 || month > 12 || day < 1 || hour > 23 ||
      // A leap second is 60.
      minute > 59 || second > 60) {
    return fail();
  }
  constexpr int kDays[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  const bool is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
  if (day > kDays[month - 1] + (month == 2 && is_leap ? 1 : 0)) return fail();
  // Days from 1970-01-01, proleptic Gregorian: years begin in March, so leap days come last. An era
  // is 400 years, 146,097 days; 719,468 days lie between 0000-03-01 and 1970-01-01. (153 m + 2) / 5
  // is the first day of month m in such a year, since its months have 31, 30, 31, 30, 31 days in
  // turn.
  year -= month <= 2;
  const std::int64_t era = (year >= 0 ? year : year - 399) / 400;
  const std::int64_t year_of_era = year - era * 400;
  const std::int64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
  const std::int64_t day_of_era =
      year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
  const std::int64_t days = era * 146097 + day_of_era - 719468;
  return ((days * 24 + hour) * 60 + minute - offset_minutes) * 60 + second;
}

}  // namespace tenon::batch
