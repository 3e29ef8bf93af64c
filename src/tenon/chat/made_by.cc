#include "tenon/chat/made_by.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "tenon/format/definition.h"

// The line `made_by` of a recording, written (MadeBy::of) and read (read_made_by): what an answer
// depends on besides its request and tokens, so that a replay can make the same events. The tables
// below serve both directions; docs/recording.md lists the members. A name that is changed here
// makes older recordings unreadable.

namespace tenon::chat {
namespace {

using json::Object;
using json::Value;

// The options that are yes or no, by their names in recordings.
struct YesOrNo {
  std::string_view name;
  bool ModelOptions::* member;
};
constexpr YesOrNo kYesOrNo[] = {
    {"generic_fallback", &ModelOptions::generic_fallback},
    {"other_forms", &ModelOptions::other_forms},
    {"required_in_other_forms", &ModelOptions::required_in_other_forms},
    {"begin_required_call", &ModelOptions::begin_required_call},
    {"normalize", &ModelOptions::normalize},
    {"close_calls", &ModelOptions::close_calls},
};
// The options that are yes, no or not set; one that is not set is not written.
struct Maybe {
  std::string_view name;
  std::optional<bool> ModelOptions::* member;
};
constexpr Maybe kMaybe[] = {{"drops_repeats", &ModelOptions::drops_repeats},
                            {"reasoning", &ModelOptions::reasoning}};
// In the order of the enumerators, whose number is the index.
constexpr std::string_view kUnknownTools[] = {"content", "repair", "forward"};
constexpr std::string_view kOrders[] = {"schema", "any"};
constexpr std::string_view kBounds[] = {"default", "none"};
constexpr std::string_view kTakes[] = {"tokens", "text", "messages"};
constexpr std::string_view kConstrainedBy[] = {"none", "masks", "gbnf", "ebnf", "json_schema"};

Value list_of(const std::vector<std::string>& texts) {
  json::Array list;
  for (const std::string& text : texts) list.emplace_back(text);
  return list;
}

Object options_json(const ModelOptions& options) {
  Object all;
  for (const YesOrNo& one : kYesOrNo) all.set(std::string(one.name), options.*one.member);
  for (const Maybe& one : kMaybe) {
    if (options.*one.member) all.set(std::string(one.name), *(options.*one.member));
  }
  all.set("on_unknown_tool", kUnknownTools[static_cast<std::size_t>(options.on_unknown_tool)]);
  all.set("argument_order", kOrders[static_cast<std::size_t>(options.argument_order)]);
  all.set("bounds", kBounds[static_cast<std::size_t>(options.bounds)]);
  if (!options.format.empty()) all.set("format", options.format);
  for (const auto& [name, own] :
       {std::pair("definition", &options.own_format), std::pair("imported", &options.imported)}) {
    // The whole definition, so that a replay needs no file of the operator's.
    if (*own != nullptr) all.set(name, (*own)->toml);
  }
  return all;
}

// What a replay needs to know of the engine that it stands in for.
Object engine_json(const engine::Capabilities& engine) {
  return {{"kind", engine.kind},
          {"takes", kTakes[static_cast<std::size_t>(engine.takes)]},
          {"constrained_by", kConstrainedBy[static_cast<std::size_t>(engine.constrained_by)]},
          {"context_tokens", engine.context_tokens},
          {"knows_controls", engine.knows_controls}};
}

// Adds the texts of control tokens, and of those that end a turn: the parser of a replay, which has
// no vocabulary, must tell them from the same text in content. An upstream's vocabulary cannot be
// looked through, so it is asked about the format's own markers only.
void add_vocabulary(const engine::Engine& engine, const ModelOptions& options,
                    const format::Format* format, Object& made_by) {
  const vocab::Tokenizer& tokenizer = engine.tokenizer();
  std::vector<std::string> controls;
  std::vector<std::string> ends;
  if (engine.capabilities().is_remote) {
    if (format != nullptr) controls = format::markers(*format);
    std::erase_if(controls, [&](const auto& text) { return !tokenizer.control_token(text); });
  } else {
    for (std::size_t i = 0; i < tokenizer.size(); ++i) {
      const auto id = static_cast<vocab::TokenId>(i);
      if (!tokenizer.is_control(id) || tokenizer.bytes(id).empty()) continue;
      controls.emplace_back(tokenizer.bytes(id));
      const bool ends_here = std::ranges::find(options.turn_ends, id) != options.turn_ends.end();
      if (ends_here || tokenizer.ends_generation(id)) ends.push_back(controls.back());
    }
  }
  for (const auto& [name, id] :
       {std::pair("bos", tokenizer.bos()), std::pair("eos", tokenizer.eos())}) {
    if (!id) continue;
    made_by.set(name, tokenizer.bytes(*id));
    controls.emplace_back(tokenizer.bytes(*id));
  }
  std::ranges::sort(controls);
  const auto twice = std::ranges::unique(controls);
  controls.erase(twice.begin(), twice.end());
  std::erase(controls, "");
  made_by.set("controls", list_of(controls));
  made_by.set("ends", list_of(ends));
}

Unexpected unreadable(std::string_view what) {
  return Unexpected(Error{Errc::invalid, "the recording's made_by: " + std::string(what)});
}

// "" if the member is missing; a fault if it is no string. So it is for the next two.
Expected<std::string> text_in(const Value& from, std::string_view name) {
  const Value* const value = from.find(name);
  if (value == nullptr) return std::string();
  if (value->if_string() == nullptr) return unreadable(std::string(name) + " must be a string");
  return *value->if_string();
}

Expected<std::vector<std::string>> texts_in(const Value& from, std::string_view name) {
  std::vector<std::string> texts;
  const Value* const value = from.find(name);
  if (value == nullptr) return texts;
  if (value->if_array() == nullptr) return unreadable(std::string(name) + " must be a list");
  for (const Value& item : *value->if_array()) {
    if (item.if_string() == nullptr) return unreadable(std::string(name) + " must hold strings");
    texts.push_back(*item.if_string());
  }
  return texts;
}

// The index of a word in one of the tables above, which is the number of its enumerator.
Expected<std::size_t> word_in(const Value& from, std::string_view name,
                              std::span<const std::string_view> words) {
  const auto text = text_in(from, name);
  if (!text) return Unexpected(text.error());
  const auto found = std::ranges::find(words, *text);
  if (found == words.end()) return unreadable(std::string(name) + " is not known");
  return static_cast<std::size_t>(found - words.begin());
}

// Yes/no options that are missing keep their defaults: an older recording has fewer of them.
Status read_options(const Value& from, ModelOptions& options) {
  for (const YesOrNo& one : kYesOrNo) {
    const Value* const value = from.find(one.name);
    if (value != nullptr && value->if_bool() != nullptr) options.*one.member = *value->if_bool();
  }
  for (const Maybe& one : kMaybe) {
    const Value* const value = from.find(one.name);
    if (value != nullptr && value->if_bool() != nullptr) options.*one.member = *value->if_bool();
  }
  const auto unknown = word_in(from, "on_unknown_tool", kUnknownTools);
  if (!unknown) return Unexpected(unknown.error());
  options.on_unknown_tool = static_cast<UnknownTool>(*unknown);
  const auto order = word_in(from, "argument_order", kOrders);
  if (!order) return Unexpected(order.error());
  options.argument_order = static_cast<message::ArgumentOrder>(*order);
  if (from.find("bounds") != nullptr) {
    const auto bounds = word_in(from, "bounds", kBounds);
    if (!bounds) return Unexpected(bounds.error());
    options.bounds = static_cast<message::Bounds>(*bounds);
  }
  auto format = text_in(from, "format");
  if (!format) return Unexpected(format.error());
  options.format = *std::move(format);
  for (const auto& [name, own] :
       {std::pair("definition", &options.own_format), std::pair("imported", &options.imported)}) {
    const auto toml = text_in(from, name);
    if (!toml) return Unexpected(toml.error());
    if (toml->empty()) continue;
    auto compiled = format::compile(*toml, "the recording's format");
    if (!compiled) return Unexpected(compiled.error());
    *own = *std::move(compiled);
  }
  return {};
}

}  // namespace

std::shared_ptr<const Object> MadeBy::of(const ModelOptions& options, const engine::Engine& engine,
                                         std::string_view chat_template,
                                         const format::Format* format) const {
  const std::lock_guard lock(mutex_);
  // Made once for each model: a vocabulary of 100,000 tokens is looked through.
  if (made_ != nullptr) return made_;
  Object made{{"model", options.name}};
  if (!chat_template.empty()) made.set("template", chat_template);
  if (format != nullptr) made.set("format", format::info(*format).name);
  if (engine.capabilities().takes != engine::Takes::messages) {
    add_vocabulary(engine, options, format, made);
  }
  made.set("engine", engine_json(engine.capabilities()));
  made.set("options", options_json(options));
  return made_ = std::make_shared<const Object>(std::move(made));
}

Expected<RecordedModel> read_made_by(const Value& made_by) {
  RecordedModel model;
  const Value* const engine = made_by.find("engine");
  const Value* const options = made_by.find("options");
  if (engine == nullptr || options == nullptr) return unreadable("engine or options are missing");
  if (Status read = read_options(*options, model.options); !read) return Unexpected(read.error());
  for (const auto& [name, text] : {std::pair("model", &model.options.name),
                                   std::pair("template", &model.options.chat_template),
                                   std::pair("bos", &model.bos), std::pair("eos", &model.eos)}) {
    auto read = text_in(made_by, name);
    if (!read) return Unexpected(read.error());
    *text = *std::move(read);
  }
  auto kind = text_in(*engine, "kind");
  if (!kind) return Unexpected(kind.error());
  model.engine.kind = *std::move(kind);
  const auto takes = word_in(*engine, "takes", kTakes);
  if (!takes) return Unexpected(takes.error());
  model.engine.takes = static_cast<engine::Takes>(*takes);
  const auto constrained_by = word_in(*engine, "constrained_by", kConstrainedBy);
  if (!constrained_by) return Unexpected(constrained_by.error());
  model.engine.constrained_by = static_cast<engine::ConstrainedBy>(*constrained_by);
  const Value* const knows = engine->find("knows_controls");
  if (knows != nullptr && knows->if_bool() != nullptr)
    model.engine.knows_controls = *knows->if_bool();
  for (const auto& [name, list] :
       {std::pair("controls", &model.controls), std::pair("ends", &model.ends)}) {
    auto read = texts_in(made_by, name);
    if (!read) return Unexpected(read.error());
    *list = *std::move(read);
  }
  return model;
}

}  // namespace tenon::chat
