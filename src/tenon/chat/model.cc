#include "tenon/chat/model.h"

#include <algorithm>
#include <functional>
#include <span>
#include <string_view>
#include <utility>

#include "tenon/base/log.h"
#include "tenon/base/patience.h"
#include "tenon/chat/ask.h"
#include "tenon/chat/call_check.h"
#include "tenon/chat/call_opening.h"
#include "tenon/chat/constrainer.h"
#include "tenon/chat/continuation.h"
#include "tenon/chat/kept_tokens.h"
#include "tenon/chat/loop.h"
#include "tenon/chat/made_by.h"
#include "tenon/chat/message_model.h"
#include "tenon/chat/prompt_sender.h"
#include "tenon/chat/spans.h"
#include "tenon/chat/token_sources.h"
#include "tenon/chat/turn.h"
#include "tenon/engine/admission.h"
#include "tenon/format/definition.h"
#include "tenon/format/detect.h"
#include "tenon/format/fallbacks.h"
#include "tenon/format/registry.h"
#include "tenon/format/tool_grammar.h"
#include "tenon/prompt/chat_template.h"
#include "tenon/prompt/habits.h"
#include "tenon/repair/rules.h"

// How a turn is prepared
//
// Model::create() decides once what depends on the model: its format (named, imported or detected),
// whether it reasons, which tokens end a turn, how its answers are constrained.
// EngineModel::start() then makes a run from a request, which is resolved once into an Ask (ask.h):
// prepare() renders the template and tokenises the result, with the prefill of the client or the
// beginning of a demanded call; what constrains the answer goes with it into the GenerateRequest,
// and a Turn (turn.h) becomes the engine's sink. Engines differ in two ways, each of which has its
// strategies, chosen once:
//  - What can constrain them: grammars, JSON Schemas alone, or nothing (constrainer.h). Without a
//    grammar the model may still be helped: the beginning of a demanded call is written into the
//    prompt, and calls are validated when they come.
//  - What they take: tokens or text (prompt_sender.h). Engines that take messages have a model of
//    their own (message_model.h).

namespace tenon::chat {
namespace {

// The line for the log, without what it quotes where contents are not logged. The quote stands
// between its first and its last quotation mark.
std::string without_contents(const std::string& line) {
  const std::size_t begin = line.find('\'');
  const std::size_t end = line.rfind('\'');
  if (begin == end) return line;
  return line.substr(0, begin + 1) +
         std::string(log::content(std::string_view(line).substr(begin + 1, end - begin - 1))) +
         line.substr(end);
}

using message::ChatRequest;
using message::ToolMode;

template <class T>
using OrRefusal = Result<T, Refusal>;

Failure<Refusal> engine_refusal(Error error, std::string param) {
  return Failure<Refusal>(refusal_of(std::move(error), std::move(param)));
}

// The markers of the format that must be control tokens: where the vocabulary has a control token
// for a marker, the same text in ordinary tokens is content. Empty if the engine takes text, or if
// a printed grammar allows a marker in any spelling.
std::vector<std::string> control_markers(const format::Format* format,
                                         const Constrainer& constrainer, const PromptSender& sender,
                                         const vocab::Tokenizer& tokenizer) {
  std::vector<std::string> controls;
  if (format == nullptr || constrainer.has_text_markers() || !sender.tells_tokens()) {
    return controls;
  }
  for (const std::string& marker : format::markers(*format)) {
    if (tokenizer.control_token(marker)) controls.push_back(marker);
  }
  return controls;
}

// The tokens that may end a turn besides the tokenizer's own. Only control tokens: a token that
// text can spell would end the turn of a model that merely writes about it.
std::vector<vocab::TokenId> more_ends(const ModelOptions& options, const format::Format* format,
                                      const vocab::Tokenizer& tokenizer) {
  std::vector<vocab::TokenId> ends;
  const auto add = [&](vocab::TokenId id) {
    if (!tokenizer.ends_generation(id)) ends.push_back(id);
  };
  for (const vocab::TokenId id : options.turn_ends) {
    if (tokenizer.is_control(id)) {
      add(id);
    } else {
      log::warn("model '" + options.name + "': token " + std::to_string(id) +
                " is no control token of it and does not end its turns");
    }
  }
  if (format != nullptr) {
    for (const std::string& marker : format::stop_markers(*format)) {
      if (const auto id = tokenizer.control_token(marker)) add(*id);
    }
  }
  std::ranges::sort(ends);
  const auto twice = std::ranges::unique(ends);
  ends.erase(twice.begin(), twice.end());
  return ends;
}

// "" for a vocabulary without that token.
std::string token_text(const vocab::Tokenizer& tokenizer, std::optional<vocab::TokenId> id) {
  return id ? std::string(tokenizer.bytes(*id)) : std::string();
}

// Long enough for any marker that opens a reasoning section.
constexpr std::size_t kPromptTailBytes = 256;

// The format with calls in other forms; null if there is no format.
std::shared_ptr<const format::Format> with_others(const format::Format* own,
                                                  const ModelOptions& options,
                                                  format::AnswerMode mode) {
  if (own == nullptr) return nullptr;
  const bool has_others = options.generic_fallback && options.other_forms;
  return format::with_fallbacks(*own, has_others ? format::Fallbacks::all : format::Fallbacks::none,
                                mode);
}

// Whether the model reasons in a section of its own: the template or the vocabulary has its marker.
// A format that is defined in the configuration decides this itself.
bool has_reasoning(const format::Format* format, const ModelOptions& options,
                   std::string_view chat_template, const vocab::Tokenizer& tokenizer) {
  if (options.reasoning) return *options.reasoning;
  if (format == nullptr || options.own_format != nullptr) return true;
  return std::ranges::any_of(format->reasoning_open, [&](const std::string& marker) {
    const std::size_t end = marker.find_last_not_of(" \n");  // a template may write spaces apart
    const std::string_view word = std::string_view(marker).substr(0, end + 1);
    return chat_template.find(word) != std::string_view::npos ||
           tokenizer.control_token(word).has_value();
  });
}

class EngineModel final : public Model {
 public:
  EngineModel(ModelOptions options, std::shared_ptr<engine::Engine> engine,
              std::shared_ptr<const prompt::ChatTemplate> chat_template, bool reasons)
      : options_(std::move(options)),
        engine_(std::move(engine)),
        template_(std::move(chat_template)),
        format_(template_->format()),
        free_format_(with_others(format_.get(), options_, format::AnswerMode::free)),
        constrained_format_(with_others(format_.get(), options_, format::AnswerMode::held)),
        markers_(free_format_ == nullptr ? nullptr
                                         : std::make_shared<const std::vector<std::string>>(
                                               format::markers(*free_format_))),
        ends_(more_ends(options_, format_.get(), engine_->tokenizer())),
        sender_(make_prompt_sender(*engine_, options_.name)),
        constrainer_(make_constrainer({.model = options_.name,
                                       .engine = engine_->capabilities(),
                                       .tokenizer = engine_->tokenizer(),
                                       .format = format_},
                                      {.argument_order = options_.argument_order,
                                       .bounds = options_.bounds,
                                       .cache_bytes = options_.grammar_cache_bytes,
                                       .with_others = constrained_format_,
                                       .required_in_others = options_.required_in_other_forms,
                                       .reasoning = reasons,
                                       .ends = ends_})),
        control_markers_(
            control_markers(free_format_.get(), *constrainer_, *sender_, engine_->tokenizer())) {}

  const std::string& name() const override { return options_.name; }
  const std::vector<std::string>& aliases() const override { return options_.aliases; }
  const engine::Capabilities& capabilities() const override { return engine_->capabilities(); }
  engine::EngineStats stats() const override { return engine_->stats(); }
  engine::Engine* engine() const override { return engine_.get(); }
  const format::Format* format() const override { return format_.get(); }

  OrRefusal<Prepared> prepare(const ChatRequest& request) const override;
  OrRefusal<std::unique_ptr<Answer>> start(const ChatRequest& request,
                                           std::shared_ptr<message::ChatSink> sink) override {
    const Answerer answerer{options_.name, capabilities().kind, capabilities().is_remote};
    return start_in_span(request, answerer, std::move(sink),
                         [&](auto watched) { return start_run(request, std::move(watched)); });
  }
  GrammarCounts grammar_counts() const override { return constrainer_->counts(); }
  Prices prices() const override { return options_.prices; }

 private:
  OrRefusal<std::unique_ptr<Answer>> start_run(const ChatRequest& asked,
                                               std::shared_ptr<message::ChatSink> sink);
  OrRefusal<Prepared> prepare(const Ask& ask) const;
  OrRefusal<Prepared> prepare_asked(const Ask& ask) const;
  OrRefusal<Prepared> prepare_continuation(const Ask& ask) const;
  OrRefusal<Prepared> prepare_tokens(const Ask& ask) const;
  OrRefusal<prompt::Prompt> render(const Ask& ask) const;
  Expected<prompt::Prompt> render(const ChatRequest& request, bool offers_tools,
                                  bool adds_generation_prompt) const;
  message::KeptPrefix keep(const Ask& ask, const prompt::Prompt& prompt,
                           std::vector<vocab::TokenId>& tokens) const;
  void append_prefill(const Ask& ask, prompt::Prompt& prompt) const;
  void close_reasoning(prompt::Prompt& prompt) const;
  Status check_bytes(const prompt::Prompt& prompt) const;
  Result<void, Refusal> check_token(vocab::TokenId id, const std::string& param) const;
  OrRefusal<Constraint> constrain(const Ask& ask, const prompt::Prompt& prompt) const;
  OrRefusal<Opening> open_call(const Ask& ask, std::vector<vocab::TokenId>& ids) const;
  engine::GenerateRequest generate_request(const Ask& ask, const message::ChatSink& sink) const;
  [[nodiscard]] bool is_taught() const;
  [[nodiscard]] bool closes_calls(const Ask& ask) const;
  TurnOptions turn_options(const Ask& ask, const engine::GenerateRequest& generate,
                           Prepared prepared) const;
  std::vector<message::TokenSource> sources(const ChatRequest& request, const Prepared& prepared,
                                            std::span<const vocab::TokenId> tokens) const;
  message::RunBegin run_begin(const Prepared& prepared,
                              const std::vector<vocab::TokenId>& tokens) const;
  std::unique_ptr<CallCheck> check_of(const Ask& ask, bool is_constrained) const;

  const ModelOptions options_;
  const std::shared_ptr<engine::Engine> engine_;
  const std::shared_ptr<const prompt::ChatTemplate> template_;
  const std::shared_ptr<const format::Format> format_;  // null: tools are refused
  // With calls in other forms: for unconstrained answers, and for those constrained by masks.
  const std::shared_ptr<const format::Format> free_format_;
  const std::shared_ptr<const format::Format> constrained_format_;
  const std::shared_ptr<const std::vector<std::string>> markers_;  // of the format; null: none
  // Tokens that end a turn besides the tokenizer's own; sorted.
  const std::vector<vocab::TokenId> ends_;
  const std::unique_ptr<const PromptSender> sender_;
  const std::unique_ptr<const Constrainer> constrainer_;
  // Markers that the parser takes for markers only if they come as control tokens.
  const std::vector<std::string> control_markers_;
  const std::shared_ptr<CompiledSchemas> schemas_ = std::make_shared<CompiledSchemas>();
  const MadeBy made_by_;
};

// The template's text after the last piece of data, before the `prefill` bytes at the end. A
// section that is open there was opened by the template and not by text from outside.
std::string template_tail(const prompt::Prompt& prompt, std::size_t prefill) {
  const std::size_t end = prompt.text.size() - prefill;
  std::size_t begin = end - std::min(end, kPromptTailBytes);
  for (const jinja::Span& span : prompt.spans) {
    if (span.is_data && span.end <= end) begin = std::max(begin, span.end);
  }
  return prompt.text.substr(begin, end - begin);
}

// Renders the request with the beginning of the answer, and appends what the answer begins with.
OrRefusal<prompt::Prompt> EngineModel::render(const Ask& ask) const {
  const ChatRequest& request = ask.request;
  const bool writes_calls = format_ != nullptr && format::writes_calls(*format_);
  if (ask.offers_tools && !writes_calls) {
    const std::string_view why =
        format_ == nullptr
            ? "has a chat template of no known tool-call format, and generic_fallback is off"
            : "has a tool-call format without a way to write a call: no [[syntax]]";
    return refuse(
        Errc::unsupported,
        "model does not support tool calling: '" + options_.name + "' " + std::string(why), "tools",
        "tools_not_supported");
  }
  Expected<prompt::Prompt> rendered =
      render(request, ask.offers_tools, /*adds_generation_prompt=*/true);
  if (!rendered) {
    const bool is_large = rendered.error().code == Errc::limit_exceeded;
    return refuse(rendered.error().code, rendered.error().message, "messages",
                  is_large ? "context_length_exceeded" : "template_error");
  }
  for (const std::string& change : rendered->shaping) log::info(without_contents(change));
  append_prefill(ask, *rendered);
  return *std::move(rendered);
}

// Tools that were found by a search (Tool::is_listed is false) are described by a message, so the
// list of tools in the prompt stays the same from round to round.
Expected<prompt::Prompt> EngineModel::render(const ChatRequest& request, bool offers_tools,
                                             bool adds_generation_prompt) const {
  const vocab::Tokenizer& tokenizer = engine_->tokenizer();
  const prompt::PromptOptions options{.add_generation_prompt = adds_generation_prompt,
                                      .bos_token = token_text(tokenizer, tokenizer.bos()),
                                      .eos_token = token_text(tokenizer, tokenizer.eos())};
  const bool lists_all =
      offers_tools && std::ranges::all_of(request.tools, &message::Tool::is_listed);
  if (lists_all || request.tools.empty()) return template_->render(request, options);
  ChatRequest listed = request;
  std::erase_if(listed.tools,
                [&](const message::Tool& tool) { return !offers_tools || !tool.is_listed; });
  return template_->render(listed, options);
}

// Makes the prompt begin with the tokens of earlier answers, if the request has them
// (kept_tokens.h).
message::KeptPrefix EngineModel::keep(const Ask& ask, const prompt::Prompt& prompt,
                                      std::vector<vocab::TokenId>& tokens) const {
  if (ask.request.previous_token_ids.empty()) return {};
  if (!sender_->tells_tokens()) return nothing_kept(ask.request);
  const vocab::Tokenizer& tokenizer = engine_->tokenizer();
  return keep_tokens(
      ask.request, prompt, tokenizer,
      [&](const ChatRequest& request, bool adds_generation_prompt) {
        return render(request, ask.offers_tools, adds_generation_prompt);
      },
      [&](vocab::TokenId id) { return engine::ends_turn(ends_, tokenizer, id); }, tokens);
}

// Appends the prefill. An answer that has begun with text has no reasoning before it, nor has one
// that is a document from its first token on: if the template opens a reasoning section, it is
// closed.
void EngineModel::append_prefill(const Ask& ask, prompt::Prompt& prompt) const {
  const std::string& prefill = ask.request.prefill;
  const bool may_reason = ask.max_reasoning_tokens != 0U;
  if (prefill.empty() && !constrainer_->is_document(ask) && may_reason) return;
  close_reasoning(prompt);
  if (!prefill.empty()) append(prefill, /*is_data=*/true, prompt);
}

// Some templates end with the marker that opens a reasoning section.
void EngineModel::close_reasoning(prompt::Prompt& prompt) const {
  const bool is_reasoning =
      format_ != nullptr && format::starts_in_reasoning(*format_, template_tail(prompt, 0));
  if (is_reasoning) append(format_->reasoning_close.front() + "\n\n", /*is_data=*/false, prompt);
}

// If a call is demanded, writes its beginning into the prompt and returns what was written, so that
// the parser reads the whole call.
OrRefusal<Opening> EngineModel::open_call(const Ask& ask, std::vector<vocab::TokenId>& ids) const {
  if (!ask.demands_call || !options_.begin_required_call) return Opening{};
  const vocab::Tokenizer& tokenizer = engine_->tokenizer();
  const auto written = call_opening(
      *format_, tokenizer,
      ask.tools.size() == 1 ? std::string_view(ask.tools[0]->name) : std::string_view());
  if (!written) {
    return engine_refusal(written.error(), "tool_choice");
  }
  Opening opening;
  for (const vocab::TokenId id : *written) {
    ids.push_back(id);
    opening.emplace_back(tokenizer.bytes(id), tokenizer.is_control(id));
  }
  return opening;
}

// Whether only the prompt of the general format teaches the model how to call.
bool EngineModel::is_taught() const {
  const bool is_chosen = !options_.format.empty() || options_.own_format != nullptr;
  return !is_chosen && !template_->has_native_support();
}

// A small model that only the prompt teaches to call may never end a list.
bool EngineModel::closes_calls(const Ask& ask) const {
  const bool is_asked = ask.request.tool_choice.mode == ToolMode::required && is_taught();
  return ask.request.close_calls.value_or(options_.close_calls || is_asked);
}

// Who watches the answer may want more of its tokens than the client. An upstream is not asked for
// more, because it might refuse.
engine::GenerateRequest EngineModel::generate_request(const Ask& ask,
                                                      const message::ChatSink& sink) const {
  const auto watched = capabilities().is_remote ? 0 : static_cast<int>(sink.watched_logprobs());
  return {.sampling = ask.request.sampling,
          .max_tokens = ask.max_tokens,
          .logprobs = ask.request.logprobs || watched > 0,
          .top_logprobs = std::max(ask.request.top_logprobs, watched),
          .is_watched = sink.watches(),
          .time_limit = patience::time_left(),
          .must_be_constrained = !ask.is_any_text(),
          .ends = ends_,
          .markers = markers_,
          .ends_whole = closes_calls(ask),
          .closes_loops = ask.request.bounds.value_or(options_.bounds) == message::Bounds::usual,
          .ends_with_token = ask.request.tells_tokens};
}

TurnOptions EngineModel::turn_options(const Ask& ask, const engine::GenerateRequest& generate,
                                      Prepared prepared) const {
  const bool is_masked = generate.grammar != nullptr;
  const OtherForms others =
      is_masked ? ask.masked_other_forms(options_.required_in_other_forms) : ask.other_forms;
  const auto& with_others = is_masked ? constrained_format_ : free_format_;
  const auto& format = others == OtherForms::nowhere ? format_ : with_others;
  TurnOptions options{.format = ask.request.continuation ? nullptr : format,
                      .counts_tokens = sender_->tells_tokens()};
  options.drops_repeats = options_.drops_repeats.value_or(is_taught());
  options.parse.others_first = others == OtherForms::first;
  options.parse.control_markers = control_markers_;
  options.parse.schemas = std::move(prepared.constraint.schemas);
  options.parse.prompt_tail = template_tail(prepared.prompt, ask.request.prefill.size());
  take_request(ask, options_, is_masked, options);
  options.opening = std::move(prepared.opening);
  options.unenforced = std::move(prepared.constraint.unenforced);
  options.diagnostics = std::move(prepared.constraint.diagnostics);
  if (auto taint = sender_->taint(); taint && !ask.request.continuation) {
    options.diagnostics.push_back({std::string(kTaintUnenforced), *std::move(taint)});
  }
  const bool is_limited = capabilities().constrained_by == engine::ConstrainedBy::masks ||
                          ask.max_reasoning_tokens == 0U || ask.request.continuation;
  if (ask.max_reasoning_tokens && !is_limited) {
    options.diagnostics.push_back(reasoning_unlimited(capabilities().kind));
  }
  // Calls are checked even if an upstream was asked to constrain them.
  options.check = check_of(ask, is_masked);
  options.is_masked = is_masked;
  if (generate.printed != nullptr) options.when_constrained = message::Guarantee::upstream;
  if (!is_masked && generate.printed == nullptr) {
    for (const message::Tool* tool : ask.tools) {
      if (tool->grammar) options.unenforced.push_back(tool->name);
    }
  }
  return options;
}

// Checks calls if no grammar constrains them, if the grammar allows more than the schema, or if the
// parser might find a call in what the grammar takes for text.
std::unique_ptr<CallCheck> EngineModel::check_of(const Ask& ask, bool is_constrained) const {
  if (!ask.offers_tools) return nullptr;
  if (is_constrained && format::is_exact(*format_) && ask.demands_call) return nullptr;
  return make_check(ask, options_, schemas_);
}

// Refuses by bytes a prompt that cannot fit, since tokenising it would take long.
Status EngineModel::check_bytes(const prompt::Prompt& prompt) const {
  const std::size_t limit = engine_->capabilities().context_tokens;
  const std::size_t longest = engine_->tokenizer().max_token_bytes();
  if (longest == 0 || prompt.text.size() / longest < limit) return {};
  return Unexpected(Error{Errc::limit_exceeded,
                          "the prompt has " + std::to_string(prompt.text.size()) +
                              " bytes, but the model's context holds " + std::to_string(limit) +
                              " tokens of at most " + std::to_string(longest) + " bytes"});
}

// The text or tokens are the prompt itself: no template, no tools.
OrRefusal<Prepared> EngineModel::prepare_continuation(const Ask& ask) const {
  const message::Continuation& asked = *ask.request.continuation;
  Prepared prepared;
  prepared.prompt.text = asked.text;
  prepared.prompt.spans.push_back({0, asked.text.size(), true});
  if (Status fits = check_bytes(prepared.prompt); !fits) {
    return engine_refusal(fits.error(), "messages");
  }
  if (auto sent = sender_->check(asked); !sent) return Failure<Refusal>(std::move(sent.error()));
  OrRefusal<std::vector<vocab::TokenId>> tokens = tokens_of(asked, engine_->tokenizer());
  if (!tokens) return Failure<Refusal>(std::move(tokens.error()));
  prepared.tokens = *std::move(tokens);
  OrRefusal<Constraint> constraint = constrain(ask, prepared.prompt);
  if (!constraint) return Failure<Refusal>(std::move(constraint.error()));
  prepared.constraint = *std::move(constraint);
  return prepared;
}

Result<void, Refusal> EngineModel::check_token(vocab::TokenId id, const std::string& param) const {
  const std::size_t size = engine_->tokenizer().size();
  if (id >= 0 && static_cast<std::size_t>(id) < size) return {};
  return refuse(Errc::invalid,
                param + " has " + std::to_string(id) + ", which is no token of the model: it has " +
                    std::to_string(size),
                param, "invalid_value");
}

// The client has the prompt as tokens, so no template is rendered and nothing is tokenised: what an
// earlier answer was made from stays what it was.
OrRefusal<Prepared> EngineModel::prepare_tokens(const Ask& ask) const {
  const std::string param = "prompt_token_ids";
  if (!sender_->tells_tokens()) {
    return refuse(Errc::unsupported,
                  param + " needs an engine that takes tokens; that of '" + options_.name +
                      "' is '" + capabilities().kind + "'",
                  param, "unsupported_parameter");
  }
  const vocab::Tokenizer& tokenizer = engine_->tokenizer();
  Prepared prepared{.tokens = ask.request.prompt_token_ids};
  for (const vocab::TokenId id : prepared.tokens) {
    if (auto known = check_token(id, param); !known) {
      return Failure<Refusal>(std::move(known.error()));
    }
    prepared.prompt.text += tokenizer.bytes(id);
  }
  prepared.prompt.spans.push_back({0, prepared.prompt.text.size(), false});
  OrRefusal<Constraint> constraint = constrain(ask, prepared.prompt);
  if (!constraint) return Failure<Refusal>(std::move(constraint.error()));
  prepared.constraint = *std::move(constraint);
  if (prepared.constraint.grammar == nullptr && prepared.constraint.printed == nullptr) {
    OrRefusal<Opening> opening = open_call(ask, prepared.tokens);
    if (!opening) return Failure<Refusal>(std::move(opening.error()));
    prepared.opening = *std::move(opening);
  }
  return prepared;
}

OrRefusal<Constraint> EngineModel::constrain(const Ask& ask, const prompt::Prompt& prompt) const {
  return constrainer_->of(ask, template_tail(prompt, ask.request.prefill.size()));
}

OrRefusal<Prepared> EngineModel::prepare(const ChatRequest& request) const {
  return prepare(Ask(request, options_));
}

// The tokenizer of an upstream takes its time from the answer's time limit.
OrRefusal<Prepared> EngineModel::prepare(const Ask& ask) const {
  const patience::Scope scope({.deadline = patience::after(options_.time_limit)});
  OrRefusal<Prepared> prepared = prepare_asked(ask);
  if (!prepared && patience::Clock::now() >= patience::current().deadline) {
    return refuse(Errc::unavailable,
                  "the prompt took longer to tokenise than server.request_timeout_s allows", "",
                  "timeout");
  }
  return prepared;
}

OrRefusal<Prepared> EngineModel::prepare_asked(const Ask& ask) const {
  if (ask.request.continuation) return prepare_continuation(ask);
  if (!ask.request.prompt_token_ids.empty()) return prepare_tokens(ask);
  OrRefusal<prompt::Prompt> prompt = render(ask);
  if (!prompt) return Failure<Refusal>(std::move(prompt.error()));
  // A call as JSON in a schema, for an engine that knows schemas alone. Reasoning has no place in
  // it.
  const auto calls = constrainer_->demanded_call(ask);
  if (calls) close_reasoning(*prompt);
  if (Status fits = check_bytes(*prompt); !fits) return engine_refusal(fits.error(), "messages");
  std::vector<vocab::TokenId> tokens;
  if (Status done = prompt::tokenize(engine_->tokenizer(), *prompt, tokens); !done) {
    return engine_refusal(std::move(done.error()), "messages");
  }
  for (const vocab::TokenId id : ask.request.previous_token_ids) {
    if (auto known = check_token(id, "tenon.previous_token_ids"); !known) {
      return Failure<Refusal>(std::move(known.error()));
    }
  }
  message::KeptPrefix prefix = keep(ask, *prompt, tokens);
  OrRefusal<Constraint> constraint = constrain(ask, *prompt);
  if (!constraint) return Failure<Refusal>(std::move(constraint.error()));
  if (calls) {
    if (Status done = engine_->tokenizer().encode(calls->before, vocab::Controls::on,
                                                  /*at_start=*/false, tokens);
        !done) {
      return engine_refusal(std::move(done.error()), "tool_choice");
    }
    // The markers before the call are a part of the prompt, so the schema holds for all that is
    // generated.
    constraint->printed = std::make_shared<const std::string>(json::to_string(calls->schema));
    return Prepared{.prompt = *std::move(prompt),
                    .opening = {{calls->before, false}},
                    .tokens = std::move(tokens),
                    .constraint = *std::move(constraint),
                    .prefix = std::move(prefix)};
  }
  // A grammar demands the call already, and lets the model reason before it.
  OrRefusal<Opening> opening;
  if (constraint->grammar == nullptr && constraint->printed == nullptr) {
    opening = open_call(ask, tokens);
  }
  if (!opening) return Failure<Refusal>(std::move(opening.error()));
  return Prepared{.prompt = *std::move(prompt),
                  .opening = *std::move(opening),
                  .tokens = std::move(tokens),
                  .constraint = *std::move(constraint),
                  .prefix = std::move(prefix)};
}

// Where the tokens of the prompt come from. Only the number is known of tokens that the client has
// given, or that were kept from earlier answers; the others cover the last bytes of the prompt's
// text.
std::vector<message::TokenSource> EngineModel::sources(
    const ChatRequest& request, const Prepared& prepared,
    std::span<const vocab::TokenId> tokens) const {
  const vocab::Tokenizer& tokenizer = engine_->tokenizer();
  const bool is_kept = prepared.prefix.of > 0 && prepared.prefix.why.empty();
  const std::size_t given = request.prompt_token_ids.empty() ? (is_kept ? prepared.prefix.kept : 0)
                                                             : request.prompt_token_ids.size();
  if (given == 0) return token_sources(prepared.prompt, request, tokens, tokenizer);
  std::vector<message::TokenSource> all{
      {.from = message::TokenSource::From::given, .tokens = static_cast<std::uint32_t>(given)}};
  const auto rest = tokens.subspan(given);
  std::size_t bytes = 0;
  for (const vocab::TokenId id : rest) bytes += tokenizer.bytes(id).size();
  const prompt::Prompt& prompt = prepared.prompt;
  const auto more =
      token_sources(rest_of(prompt, prompt.text.size() - std::min(bytes, prompt.text.size())),
                    request, rest, tokenizer);
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

// What a recording is told of the run.
message::RunBegin EngineModel::run_begin(const Prepared& prepared,
                                         const std::vector<vocab::TokenId>& tokens) const {
  message::RunBegin run{
      .made_by = made_by_.of(options_, *engine_, template_->source(), format_.get()),
      .text = prepared.prompt.text,
      .tokens = tokens,
      .changes = prepared.prompt.shaping};
  if (!capabilities().is_remote) {
    for (const vocab::TokenId id : tokens) {
      run.lengths.push_back(static_cast<std::uint32_t>(engine_->tokenizer().bytes(id).size()));
    }
  }
  for (const jinja::Span& span : prepared.prompt.spans) {
    run.spans.push_back({.begin = span.begin, .end = span.end, .is_data = span.is_data});
  }
  for (const auto& [bytes, unused] : prepared.opening) run.opening += bytes;
  return run;
}

// The order matters: `generate` takes over what `prepared` has, the recording sees the prompt
// before the engine does, and the turn must be whole before the engine calls it from its thread.
OrRefusal<std::unique_ptr<Answer>> EngineModel::start_run(const ChatRequest& asked,
                                                          std::shared_ptr<message::ChatSink> sink) {
  const patience::Scope scope({.deadline = patience::after(options_.time_limit)});
  message::Loop loop = loop_of(asked.messages);
  const auto quiet = stopped(asked, loop, options_.on_loop);
  const ChatRequest& request = quiet ? *quiet : asked;
  const Ask ask(request, options_);
  OrRefusal<Prepared> prepared = prepare(ask);
  if (!prepared) return Failure<Refusal>(std::move(prepared.error()));
  engine::GenerateRequest generate = generate_request(ask, *sink);
  sender_->put(request, *prepared, generate);
  generate.grammar = std::move(prepared->constraint.grammar);
  generate.printed = std::move(prepared->constraint.printed);
  const Status checked =
      engine::check_request(generate, engine_->capabilities(), engine_->tokenizer());
  if (!checked) return engine_refusal(checked.error(), checked.error().path);

  if (sink->watches()) sink->on_run(run_begin(*prepared, generate.prompt));
  std::shared_ptr<message::AnswerTokens> tokens;
  if (request.tells_tokens && sender_->tells_tokens()) {
    tokens = std::make_shared<message::AnswerTokens>();
    tokens->prompt = generate.prompt;
    if (!capabilities().is_remote) tokens->sources = sources(request, *prepared, tokens->prompt);
  }
  message::KeptPrefix prefix = std::move(prepared->prefix);
  TurnOptions options = turn_options(ask, generate, *std::move(prepared));
  options.prefix = std::move(prefix);
  if (request.tells_tokens && tokens == nullptr) {
    options.diagnostics.push_back(
        {"no_tokens", "the engine '" + capabilities().kind + "' tells no tokens"});
  }
  options.tokens = std::move(tokens);
  options.loop = std::move(loop);
  auto turn = std::make_shared<Turn>(std::move(options), std::move(sink));
  const std::size_t prompt_tokens = generate.prompt.size();
  Expected<std::unique_ptr<engine::Run>> run = engine_->start(std::move(generate), turn);
  if (!run) {
    // The request itself is within its limits, so the limit is that of the queue.
    const bool is_busy = run.error().code == Errc::limit_exceeded;
    if (!is_busy) return engine_refusal(std::move(run.error()), "");
    return refuse(run.error().code, std::move(run.error().message), "", "engine_busy");
  }
  turn->run().attach(*std::move(run));
  return answer_of(std::move(turn), prompt_tokens);
}

// Null if no format is named: then it is detected.
Expected<std::shared_ptr<const format::Format>> named_format(const ModelOptions& options) {
  if (options.own_format != nullptr || options.format.empty()) return options.own_format;
  auto named = format::named(options.format);
  if (!named) return Unexpected(Error{Errc::invalid, named.error().message});
  return named;
}

// Warns if a format is named although the template writes calls in another one, which the model was
// trained on.
void warn_of_other_calls(const std::string& where, const format::Format& named,
                         const prompt::ChatTemplate& chat_template) {
  const format::Detection found = chat_template.detect();
  if (found.by != format::DecidedBy::call) return;
  const std::string& written = format::info(*found.format).name;
  const std::string& name = format::info(named).name;
  const auto call = chat_template.write_turn({{"", "get_weather", R"({"city": "Paris"})"}});
  // The named format may read what the template writes, although it has another name.
  if (written == name || !call || format::read_back(chat_template.format(), *call)) return;
  log::warn(where + "its chat template writes calls as '" + written +
            "' does, not as tool_call_format '" + name + "'");
}

// A template may have been changed so that a word in a message brings text that the model takes for
// its own template's. Switches such as /no_think work the same way, so that it is told, no more.
void tell_words(const std::string& where, const prompt::ChatTemplate& chat_template) {
  constexpr std::size_t kMostTold = 8;
  std::size_t told = 0;
  for (const prompt::WordGate& gate : prompt::word_gates(chat_template)) {
    if (gate.adds.empty() || told == kMostTold) continue;
    ++told;
    log::info(where + "where a message of the " + gate.role + " holds " + json::quoted(gate.word) +
              ", its chat template writes " + json::quoted(gate.adds) +
              " (`tenon inspect` lists these words)");
  }
}

}  // namespace

Refusal no_prompts(const Model& model) {
  if (model.takes_rlm()) {
    return {.error = {Errc::unsupported,
                      "a recursive model has no single prompt: ask its root model for prompts, "
                      "tokens and continuations"},
            .param = "model",
            .code = "unsupported_parameter"};
  }
  return {.error = {Errc::unsupported, "the engine of '" + model.name() + "', '" +
                                           model.capabilities().kind +
                                           "', takes messages: prompts and tokens are its own"},
          .param = "model",
          .code = "unsupported_parameter"};
}

double Prices::cost_of(const message::Usage& usage) const {
  constexpr double kMillion = 1e6;
  const double fresh = static_cast<double>(usage.prompt_tokens) - usage.cached_tokens;
  return (fresh * input + usage.cached_tokens * cached_input + usage.completion_tokens * output) /
         kMillion;
}

Expected<std::shared_ptr<Model>> Model::create(ModelOptions options,
                                               std::shared_ptr<engine::Engine> engine) {
  const std::string where = "model '" + options.name + "': ";
  if (engine->capabilities().takes == engine::Takes::messages) {
    auto named = named_format(options);
    if (!named) return Unexpected(Error{named.error().code, where + named.error().message});
    return make_message_model(std::move(options), std::move(engine), *named);
  }
  std::string source =
      options.chat_template.empty() ? std::string(engine->chat_template()) : options.chat_template;
  if (source.empty()) {
    log::warn(where +
              "it comes without a chat template, and none was given: the plain one is used");
    source = prompt::plain_template();
  }
  if (source == prompt::plain_template()) options.turn_begins = prompt::plain_template_turns();
  auto format = named_format(options);
  if (!format) return Unexpected(Error{format.error().code, where + format.error().message});
  const vocab::Tokenizer& tokenizer = engine->tokenizer();
  const auto in_vocabulary = [&tokenizer](std::string_view marker) {
    return tokenizer.control_token(marker).has_value();
  };
  auto compiled =
      prompt::ChatTemplate::compile(source, {.name = "the chat template of '" + options.name + "'",
                                             .bos_token = token_text(tokenizer, tokenizer.bos()),
                                             .eos_token = token_text(tokenizer, tokenizer.eos()),
                                             .format = *format,
                                             .clues = {.in_vocabulary = in_vocabulary,
                                                       .imported = options.imported,
                                                       .model_name = options.name},
                                             .generic_fallback = options.generic_fallback});
  if (!compiled) return Unexpected(std::move(compiled).error());
  if (*format != nullptr) warn_of_other_calls(where, **format, **compiled);
  tell_words(where, **compiled);
  const bool reasons =
      has_reasoning((*compiled)->format().get(), options, source, engine->tokenizer());
  return std::make_shared<EngineModel>(std::move(options), std::move(engine), *std::move(compiled),
                                       reasons);
}

}  // namespace tenon::chat
