#include "tenon/chat/message_model.h"

#include <algorithm>
#include <utility>

#include "tenon/base/log.h"
#include "tenon/base/patience.h"
#include "tenon/chat/ask.h"
#include "tenon/chat/kept_tokens.h"
#include "tenon/chat/loop.h"
#include "tenon/chat/made_by.h"
#include "tenon/chat/spans.h"
#include "tenon/format/fallbacks.h"
#include "tenon/format/registry.h"
#include "tenon/json/value.h"

// A model whose upstream takes messages (engine/upstream/chat_server.cc). No template is rendered
// and no prompt is known here, so what needs one is refused (check): a prefill, given tokens,
// grammars, log probabilities. The upstream may report calls itself (told_calls.cc), or leave them
// in its text, where the parser finds them. No grammar of ours constrains its calls, so all of them
// are validated, and repaired if the options say so.

namespace tenon::chat {
namespace {

using message::ChatRequest;

/// Passes messages and tools to the engine as they came. Calls and reasoning that the engine
/// reports as such are taken as they are; in its text, calls are looked for in all known forms.
class MessageModel final : public Model {
 public:
  MessageModel(ModelOptions options, std::shared_ptr<engine::Engine> engine,
               std::shared_ptr<const format::Format> format,
               std::shared_ptr<const format::Format> own)
      : options_(std::move(options)),
        engine_(std::move(engine)),
        format_(std::move(format)),
        own_format_(std::move(own)) {}

  const std::string& name() const override { return options_.name; }
  const std::vector<std::string>& aliases() const override { return options_.aliases; }
  const engine::Capabilities& capabilities() const override { return engine_->capabilities(); }
  engine::EngineStats stats() const override { return engine_->stats(); }
  engine::Engine* engine() const override { return nullptr; }
  const format::Format* format() const override { return format_.get(); }
  Result<Prepared, Refusal> prepare(const ChatRequest& /*request*/) const override {
    return Failure<Refusal>(no_prompts(*this));
  }
  Result<std::unique_ptr<Answer>, Refusal> start(const ChatRequest& request,
                                                 std::shared_ptr<message::ChatSink> sink) override {
    const Answerer answerer{options_.name, capabilities().kind, capabilities().is_remote};
    return start_in_span(request, answerer, std::move(sink),
                         [&](auto watched) { return start_run(request, std::move(watched)); });
  }
  GrammarCounts grammar_counts() const override { return {}; }
  Prices prices() const override { return options_.prices; }

 private:
  Result<std::unique_ptr<Answer>, Refusal> start_run(const ChatRequest& asked,
                                                     std::shared_ptr<message::ChatSink> sink);
  [[nodiscard]] Result<void, Refusal> check(const Ask& ask) const;
  [[nodiscard]] Failure<Refusal> cannot(const std::string& param, std::string_view why) const;
  /// Whether the engine honours `tool_choice` and `response_format`.
  [[nodiscard]] bool honours_choice() const {
    return capabilities().constrained_by == engine::ConstrainedBy::json_schema;
  }
  [[nodiscard]] engine::GenerateRequest generate_request(const Ask& ask) const;
  [[nodiscard]] TurnOptions turn_options(const Ask& ask) const;

  const ModelOptions options_;
  const std::shared_ptr<engine::Engine> engine_;
  const std::shared_ptr<const format::Format>
      format_;  // of calls in text; null: none are looked for
  const std::shared_ptr<const format::Format> own_format_;  // null: no format was named
  const std::shared_ptr<CompiledSchemas> schemas_ = std::make_shared<CompiledSchemas>();
  const MadeBy made_by_;
};

// "logprobs needs an engine that tells tokens; that of 'm' is 'openai'"
Failure<Refusal> MessageModel::cannot(const std::string& param, std::string_view why) const {
  return refuse_field(
      Errc::unsupported, param,
      " " + std::string(why) + "; that of '" + options_.name + "' is '" + capabilities().kind + "'",
      "unsupported_parameter");
}

Result<void, Refusal> MessageModel::check(const Ask& ask) const {
  const ChatRequest& request = ask.request;
  if (request.continuation || !request.prompt_token_ids.empty()) {
    return Failure<Refusal>(no_prompts(*this));
  }
  if (!request.prefill.empty()) {
    return cannot("messages",
                  "end with the beginning of an answer, which needs an engine that "
                  "takes prompts");
  }
  if (request.logprobs) return cannot("logprobs", "needs an engine that tells tokens");
  constexpr std::string_view kGrammars = "needs an engine that can be held to grammars";
  if (request.argument_order == message::ArgumentOrder::schema) {
    return cannot("tenon.argument_order", kGrammars);
  }
  if (request.close_calls == true) return cannot("tenon.close_calls", kGrammars);
  if (ask.text_kind == message::ResponseFormat::Kind::grammar) {
    return cannot("response_format", kGrammars);
  }
  if (ask.is_json()) {
    if (!honours_choice()) return cannot("response_format", kGrammars);
    if (auto checked = check_response_schema(ask); !checked) return checked;
  }
  return check_schemas(ask);
}

// The engine gets only the tools that may be called. If one tool is chosen and the engine honours
// choices, it gets all tools with the choice.
engine::GenerateRequest MessageModel::generate_request(const Ask& ask) const {
  auto chat = std::make_shared<ChatRequest>(ask.request);
  const bool is_named =
      honours_choice() && ask.demands_call && ask.request.tool_choice.allowed.size() == 1;
  std::erase_if(chat->tools, [&](const auto& tool) {
    return !is_named &&
           std::ranges::find(ask.tools, tool.name, &message::Tool::name) == ask.tools.end();
  });
  engine::GenerateRequest generate{.chat = std::move(chat),
                                   .sampling = ask.request.sampling,
                                   .max_tokens = ask.max_tokens,
                                   .time_limit = patience::time_left()};
  if (ask.is_json()) {
    generate.printed = std::make_shared<const std::string>(R"("json")");
    generate.must_be_constrained = true;
  }
  return generate;
}

// The parser gets the form of calls that was named, or all known forms, or none (Ask::other_forms).
TurnOptions MessageModel::turn_options(const Ask& ask) const {
  const bool has_others = ask.other_forms != OtherForms::nowhere;
  TurnOptions options{.format = has_others ? format_ : own_format_,
                      .drops_repeats = options_.drops_repeats.value_or(false),
                      .tells_calls = true,
                      .counts_tokens = false};
  options.parse.others_first = ask.other_forms == OtherForms::first;
  take_request(ask, options_, /*is_constrained=*/false, options);
  options.when_constrained = message::Guarantee::upstream;  // for the text; calls are validated
  // No mask constrains any tool's arguments.
  options.unenforced = options.parse.tools;
  if (ask.offers_tools) options.check = make_check(ask, options_, schemas_);
  options.diagnostics.push_back(
      {std::string(kTaintUnenforced), "the engine makes its prompts of messages by itself"});
  if (ask.max_reasoning_tokens) {
    options.diagnostics.push_back(reasoning_unlimited(capabilities().kind));
  }
  if (ask.request.tells_tokens) {
    options.diagnostics.push_back(
        {"no_tokens", "the engine '" + capabilities().kind + "' tells no tokens"});
  }
  if (ask.demands_call && !honours_choice()) {
    const std::string told = "the engine '" + capabilities().kind +
                             "' knows no tool_choice: an answer without a call is passed on";
    log::warn(told);
    options.diagnostics.push_back({"not_held", told});
  }
  return options;
}

Result<std::unique_ptr<Answer>, Refusal> MessageModel::start_run(
    const ChatRequest& asked, std::shared_ptr<message::ChatSink> sink) {
  message::Loop loop = loop_of(asked.messages);
  const auto quiet = stopped(asked, loop, options_.on_loop);
  const Ask ask(quiet ? *quiet : asked, options_);
  if (auto checked = check(ask); !checked) {
    return Failure<Refusal>(std::move(checked.error()));
  }
  const patience::Scope scope({.deadline = patience::after(options_.time_limit)});
  engine::GenerateRequest generate = generate_request(ask);
  generate.is_watched = sink->watches();
  if (generate.is_watched) {
    sink->on_run({.made_by = made_by_.of(options_, *engine_, "", own_format_.get())});
  }
  TurnOptions options = turn_options(ask);
  options.loop = std::move(loop);
  options.prefix = nothing_kept(asked);
  auto turn = std::make_shared<Turn>(std::move(options), std::move(sink));
  Expected<std::unique_ptr<engine::Run>> run = engine_->start(std::move(generate), turn);
  if (!run) {
    std::string param = run.error().path;
    return Failure<Refusal>(refusal_of(std::move(run.error()), std::move(param)));
  }
  turn->run().attach(*std::move(run));
  return answer_of(std::move(turn));
}

}  // namespace

std::shared_ptr<Model> make_message_model(ModelOptions options,
                                          std::shared_ptr<engine::Engine> engine,
                                          const std::shared_ptr<const format::Format>& format) {
  // If no format was named, calls are looked for in all forms, or in none.
  std::shared_ptr<const format::Format> own = format != nullptr ? format : format::fallback();
  if (format == nullptr && !(options.generic_fallback && options.other_forms)) own = nullptr;
  if (own != nullptr) {
    const bool has_others = options.generic_fallback && options.other_forms;
    own =
        format::with_fallbacks(*own, has_others ? format::Fallbacks::all : format::Fallbacks::none);
  }
  return std::make_shared<MessageModel>(std::move(options), std::move(engine), std::move(own),
                                        format);
}

}  // namespace tenon::chat
