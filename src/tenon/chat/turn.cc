#include "tenon/chat/turn.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "tenon/base/log.h"

// How tokens become events
//
// The engine's thread calls on_token(), on_reasoning(), on_call() and on_end(). Text goes through
// the parser (format/stream_parser.cc), whose events pass_all() takes; pieces of calls that an
// engine reports itself go through ToldCalls. Both meet in pass(), so that the client sees one call
// after the other: told calls wait in told_ while the parser is inside a call, and text beside an
// open told call waits in asides_. From pass() on, content goes through the stop matcher and then
// to the sink. A call may first be held back as a possible repeat of the last one (holds_repeat);
// then its arguments are repaired as they pass (repairer_) and validated when they are whole
// (end_call). guarantee_ starts at `masked` and is weakened by each thing that no mask enforced.
// is_over_ says that the answer is complete although the engine may still send tokens: a stop
// string, a first call that is the only one wanted, or a second repeat.

namespace tenon::chat {

using message::ChatEvent;
using message::FinishReason;
using message::Guarantee;

namespace {

// Text that only looks like a call, or a call in another form, is no error (docs/formats.md).
log::Level level_of(std::string_view diagnostic) {
  if (diagnostic == "near_miss") return log::Level::debug;
  return diagnostic == "fallback_format" ? log::Level::info : log::Level::warn;
}

bool is_text(const ChatEvent& event) {
  return std::holds_alternative<message::ContentDelta>(event) ||
         std::holds_alternative<message::ReasoningDelta>(event);
}

// Where an answer ends: at the client's texts and at those of the template.
std::vector<std::string> ends_of(const TurnOptions& options) {
  std::vector<std::string> ends = options.stop;
  ends.insert(ends.end(), options.turn_begins.begin(), options.turn_begins.end());
  return ends;
}

message::Diagnostic repetitions_closed(std::uint32_t count) {
  return {"repetition_closed",
          count == 1
              ? "a part of the answer repeated itself and was closed; text of it may be missing"
              : std::to_string(count) +
                    " parts of the answer repeated themselves and were closed; text of them may be "
                    "missing"};
}

}  // namespace

Turn::Turn(TurnOptions options, std::shared_ptr<message::ChatSink> sink)
    : request_(log::about()),
      sink_(std::move(sink)),
      is_watched_(sink_->watches()),
      stops_(ends_of(options)),
      stop_(std::move(options.stop)),
      opening_(std::move(options.opening)),
      parallel_(options.parallel_tool_calls),
      max_calls_(options.max_calls),
      loop_(std::move(options.loop)),
      prefix_(std::move(options.prefix)),
      told_tokens_(std::move(options.tokens)),
      drops_repeats_(options.drops_repeats),
      counts_tokens_(options.counts_tokens),
      wants_logprobs_(options.logprobs),
      unenforced_(std::move(options.unenforced)),
      has_response_format_(options.has_response_format),
      text_schema_(std::move(options.text_schema)),
      when_constrained_(options.when_constrained),
      is_masked_(options.is_masked),
      forwards_(options.parse.any_tool),
      diagnostics_(std::move(options.diagnostics)),
      check_(std::move(options.check)) {
  if (options.tells_calls && !options.parse.tools.empty()) {
    markers_.emplace(markers_of_all_formats());
  }
  if (options.tells_calls) told_calls_ = std::make_unique<ToldCalls>(options.parse);
  if (options.format != nullptr) {
    parser_ =
        std::make_unique<format::StreamParser>(std::move(options.format), std::move(options.parse));
  }
}

void Turn::on_token(const engine::Token& token) {
  const log::About about(request_);
  if (is_over_) return;
  begin();
  tokens_ += token.count;
  pending_tokens_ += token.count;
  if (is_watched_) {
    sink_->on_made({.id = token.id,
                    .bytes = token.bytes,
                    .is_control = token.is_control,
                    .count = token.count,
                    .legal = token.legal,
                    .logprob = token.logprob,
                    .top_is_legal = token.top_is_legal});
  }
  if (token.logprob != nullptr && wants_logprobs_) keep_logprob(*token.logprob);
  if (told_tokens_ != nullptr) {
    told_tokens_->output.push_back(token.id);
    if (token.logprob != nullptr && wants_logprobs_) {
      told_tokens_->logprobs.push_back(token.logprob->logprob);
    }
  }
  if (token.bytes.empty() || has_to_wait(token.bytes, /*is_reasoning=*/false)) return;
  feed(token.bytes, token.is_control);
}

// Who watches the answer may have asked for more of the likeliest tokens than the client.
void Turn::keep_logprob(const message::TokenLogprob& logprob) {
  logprobs_.push_back(logprob);
  auto& top = logprobs_.back().top;
  if (top.size() > *wants_logprobs_) top.resize(*wants_logprobs_);
}

void Turn::on_upstream(const message::UpstreamPart& part) {
  const log::About about(request_);
  if (is_watched_ && !is_over_) sink_->on_upstream(part);
}

// Comes from engines that report no tokens, so a piece counts as one.
void Turn::on_reasoning(std::string_view text) {
  const log::About about(request_);
  if (is_over_ || text.empty()) return;
  begin();
  if (is_watched_) sink_->on_piece({.is_reasoning = true, .text = text});
  ++tokens_;
  ++pending_tokens_;
  if (has_to_wait(text, /*is_reasoning=*/true)) return;
  pass_reasoning(std::string(text));
}

void Turn::pass_reasoning(std::string text) {
  interrupt_text(/*is_marker=*/false);
  told_.emplace_back(message::ReasoningDelta{std::move(text)});
  pass_waiting();
}

// Text that the parser holds back came before what is reported now, so it is passed on first.
void Turn::interrupt_text(bool is_marker) {
  if (parser_ == nullptr) return;
  parser_->interrupt(is_marker, events_);
  pass_all();
}

// Keeps text that comes while a told call is open. Only engines that report calls make anything
// wait, and they report no control tokens.
bool Turn::has_to_wait(std::string_view text, bool is_reasoning) {
  if (told_calls_ == nullptr) return false;
  std::vector<ChatEvent> events;
  told_calls_->interrupt(events);
  pass_told(events);
  if (!told_calls_->is_open()) return false;
  if (asides_.empty() || asides_.back().is_reasoning != is_reasoning) {
    asides_.push_back({.is_reasoning = is_reasoning});
  }
  asides_.back().text += text;
  return true;
}

// Passes the text that waited for the end of a told call.
void Turn::pass_asides() {
  for (const Aside& aside : std::exchange(asides_, {})) {
    if (aside.is_reasoning) {
      pass_reasoning(aside.text);
    } else {
      feed(aside.text, /*is_control=*/false);
    }
  }
}

// A piece of a call that the upstream reports by itself. Text that comes while such a call is open
// waits (asides_) until its end, because a call's events must not be interrupted.
void Turn::on_call(const engine::CallPiece& piece) {
  const log::About about(request_);
  if (is_over_ || told_calls_ == nullptr) return;
  begin();
  if (is_watched_) {
    sink_->on_piece({.index = piece.index, .name = piece.name, .arguments = piece.arguments});
  }
  ++tokens_;
  ++pending_tokens_;
  interrupt_text(/*is_marker=*/true);
  std::vector<ChatEvent> events;
  told_calls_->feed(piece, events);
  // If text waits, a piece that completes the call is its last one.
  if (!asides_.empty()) told_calls_->interrupt(events);
  pass_told(events);
  if (!told_calls_->is_open()) pass_asides();
}

// Calls come one after the other: a call of the text that has begun comes first, and no other event
// comes inside it.
void Turn::pass_told(std::vector<ChatEvent>& events) {
  std::ranges::move(events, std::back_inserter(told_));
  pass_waiting();
}

void Turn::pass_waiting() {
  if (is_parser_in_call_) return;
  for (ChatEvent& event : told_) pass(event);
  told_.clear();
}

// Text that was held back is given out, except after a failure or a cancellation, where it may be
// half of a marker. The guarantee is decided here, since only the end tells whether a mask held all
// of the answer.
void Turn::on_end(const engine::RunEnd& end) {
  const log::About about(request_);
  if (!is_over_) {
    begin();
    const bool was_cut = end.reason != FinishReason::stop;
    if (told_calls_ != nullptr) {
      std::vector<ChatEvent> events;
      told_calls_->finish(was_cut, events);
      pass_told(events);
      pass_asides();
    }
    if (parser_ != nullptr) {
      parser_->finish(was_cut, events_);
      // Text that was held back until now may be half a marker or half a call.
      const bool broke_off =
          end.reason == FinishReason::error || end.reason == FinishReason::cancelled;
      if (broke_off) std::erase_if(events_, is_text);
      if (broke_off && markers_) markers_->drop();
      pass_all();
    } else {
      std::string rest;
      sanitizer_.finish(rest);
      pass_content(std::move(rest));
    }
    flush_content();
  }
  if (is_watched_) {
    sink_->on_run_end({.reason = end.reason,
                       .usage = end.usage,
                       .is_constrained = end.is_constrained,
                       .unconstrained_because = end.unconstrained_because,
                       .error = end.error,
                       .attempts = end.attempts,
                       .closed_loops = end.closed_loops});
  }
  if (end.closed_loops > 0) {
    sink_->on_event(repetitions_closed(end.closed_loops), {});
  }
  if (!end.unconstrained_because.empty()) {
    log::warn("not_held: " + std::string(log::content(end.unconstrained_because)));
    sink_->on_event(message::Diagnostic{"not_held", end.unconstrained_because}, {});
  }
  message::Finish finish{
      .reason = reason(end), .usage = usage(end), .error = end.error, .denial = end.denial};
  // The beginning of another turn is the end of this one, and no stop string of the client's.
  if (std::ranges::find(stop_, stops_.matched()) != stop_.end()) {
    finish.stop_sequence = stops_.matched();
  }
  finish.guarantee = guarantee(finish, end.is_constrained);
  if (calls_ > 0) finish.format = claimed_by_;
  finish.tokens = told_tokens_;
  finish.loop = loop_;
  finish.prefix = prefix_;
  is_over_ = true;
  // The sink may own the answer, which owns this turn, so the sink is released before the last
  // event returns.
  const std::shared_ptr<message::ChatSink> sink = std::move(sink_);
  sink->on_event(finish, logprobs_);
}

// Reasoning is counted here, by the parser's events, if each piece has its tokens. An engine that
// gives only its usage may not count it; then it is estimated, a piece as one token.
message::Usage Turn::usage(const engine::RunEnd& end) const {
  message::Usage usage = end.usage;
  if (counts_tokens_) {
    usage.reasoning_tokens = reasoning_tokens_;
    // Tokens that the engine made before it learned that the answer is over do not count.
    if (is_over_) usage.completion_tokens = std::min(usage.completion_tokens, tokens_);
  } else if (usage.reasoning_tokens == 0 && reasoning_tokens_ > 0) {
    usage.reasoning_tokens = std::min(usage.completion_tokens, reasoning_tokens_);
    usage.is_estimated = true;
  }
  return usage;
}

// For an answer with calls, the weakest of what was found and of how it was constrained. For text,
// a response format that was cut or stopped early fits nothing.
Guarantee Turn::guarantee(const message::Finish& finish, bool is_constrained) {
  if (calls_ > 0) {
    // Without a check, calls that no mask constrained were not validated.
    const Guarantee free = check_ == nullptr ? Guarantee::unenforced : Guarantee::validated;
    return std::min(guarantee_, is_constrained ? when_constrained_ : free);
  }
  const bool is_whole = finish.reason == FinishReason::stop && finish.stop_sequence.empty();
  if (!has_response_format_) return is_constrained ? when_constrained_ : Guarantee::unenforced;
  return is_whole ? guarantee_of_text(is_constrained) : Guarantee::unenforced;
}

// For text in a response format, which is validated even if an upstream was asked to constrain it.
Guarantee Turn::guarantee_of_text(bool is_constrained) {
  const bool is_in_full = std::ranges::find(unenforced_, std::string()) == unenforced_.end();
  if (text_schema_ == nullptr)
    return is_constrained && is_in_full ? when_constrained_ : Guarantee::unenforced;
  const std::string fault = fault_of(text_, *text_schema_);
  if (fault.empty()) return is_constrained && is_in_full ? when_constrained_ : Guarantee::validated;
  tell("invalid_content", "the answer does not fit the response format: " + fault);
  return Guarantee::unenforced;
}

// The opening that the model is assumed to have written is fed like its tokens, on the same thread.
void Turn::begin() {
  for (const message::Diagnostic& diagnostic : diagnostics_) sink_->on_event(diagnostic, {});
  diagnostics_.clear();
  const Opening opening = std::move(opening_);
  opening_.clear();
  for (const auto& [bytes, is_control] : opening) feed(bytes, is_control);
}

// Without a format there is nothing to parse: bytes become whole characters, and content.
void Turn::feed(std::string_view bytes, bool is_control) {
  if (parser_ == nullptr) {
    std::string text;
    sanitizer_.feed(bytes, text);
    pass_content(std::move(text));
    return;
  }
  parser_->feed(bytes, is_control, events_);
  pass_all();
}

// Passes on what the parser has found.
void Turn::pass_all() {
  for (ChatEvent& event : events_) {
    if (std::holds_alternative<message::CallBegin>(event)) {
      is_parser_in_call_ = true;
      if (calls_ == 0) claimed_by_ = parser_->claimed_by();
    }
    const bool is_end = std::holds_alternative<message::CallEnd>(event);
    pass(event);
    if (is_end) is_parser_in_call_ = false;
    if (!told_.empty()) pass_waiting();
  }
  events_.clear();
}

// All events of the parser pass here. Content goes on to the stop strings, diagnostics are logged
// and may weaken the guarantee, and a call or reasoning first flushes the content before it.
void Turn::pass(ChatEvent& event) {
  if (is_over_) return;
  if (auto* content = std::get_if<message::ContentDelta>(&event)) {
    pass_content(std::move(content->text));
    return;
  }
  if (const auto* diagnostic = std::get_if<message::Diagnostic>(&event)) {
    log::write(level_of(diagnostic->code),
               diagnostic->code + ": " + std::string(log::content(diagnostic->message)));
    if (diagnostic->code == format::kNameFixed) weaken(Guarantee::repaired);
    // Printed grammars have no other forms.
    if (diagnostic->code == "fallback_format" && !is_masked_) weaken(Guarantee::validated);
    return sink_->on_event(event, {});
  }
  // A stop string must be contiguous content: a call or reasoning in between interrupts it.
  flush_content();
  if (std::holds_alternative<message::ReasoningDelta>(event)) reasoning_tokens_ += pending_tokens_;
  if (std::holds_alternative<message::ReasoningDelta>(event)) return emit(event);
  pass_call(event);
}

void Turn::pass_call(ChatEvent& event) {
  if (drops_repeats_ && holds_repeat(event)) return;
  pass_to_call(event);
}

// Keeps the event back if its call may be a repeat of the last one, and returns whether it did. As
// soon as the call differs, the events that were kept back are passed on.
bool Turn::holds_repeat(ChatEvent& event) {
  const auto* begin = std::get_if<message::CallBegin>(&event);
  const auto* arguments = std::get_if<message::CallArguments>(&event);
  const auto* end = std::get_if<message::CallEnd>(&event);
  const bool may_repeat =
      begin != nullptr ? calls_ > 0 && begin->name == last_.name : !held_back_.empty();
  if (may_repeat && begin != nullptr) held_bytes_ = 0;
  if (may_repeat && end != nullptr) {
    if (!end->incomplete && held_bytes_ == last_.arguments.size()) {
      drop_repeat();
      return true;
    }
  } else if (may_repeat) {
    // The same beginning as the last call's arguments so far: the event waits.
    const std::string_view text = arguments == nullptr ? "" : std::string_view(arguments->text);
    if (std::string_view(last_.arguments).substr(held_bytes_).starts_with(text)) {
      held_bytes_ += text.size();
      held_back_.push_back(std::move(event));
      return true;
    }
  }
  // It is another call, or a longer one: it becomes the last call, as the model wrote it.
  std::vector<ChatEvent> held = std::exchange(held_back_, {});
  held.push_back(event);
  for (const ChatEvent& each : held) {
    if (const auto* first = std::get_if<message::CallBegin>(&each)) {
      last_ = {.name = first->name};
      repeats_ = 0;
    } else if (const auto* more = std::get_if<message::CallArguments>(&each)) {
      last_.arguments += more->text;
    }
  }
  held.pop_back();
  for (ChatEvent& each : held) pass_to_call(each);
  return false;
}

void Turn::drop_repeat() {
  held_back_.clear();
  logprobs_.clear();  // they belong to the dropped call
  ++repeats_;
  tell("repeated_call", "a call of '" + last_.name + "' was the one before once more");
  if (repeats_ > 1) stop_generation();
}

void Turn::pass_to_call(ChatEvent& event) {
  // Parser and ToldCalls count on their own, so the index is set here.
  if (auto* begin = std::get_if<message::CallBegin>(&event)) {
    begin->index = static_cast<std::uint32_t>(calls_);
    return begin_call(*begin);
  }
  const auto index = static_cast<std::uint32_t>(calls_ - 1);
  if (auto* arguments = std::get_if<message::CallArguments>(&event)) {
    arguments->index = index;
    return pass_arguments(std::move(*arguments));
  }
  if (auto* end = std::get_if<message::CallEnd>(&event)) {
    end->index = index;
    end_call(*end);
  }
}

// Decides how far the call's arguments can be trusted, and whether they are repaired: not if a mask
// constrained them.
void Turn::begin_call(const message::CallBegin& begin) {
  ++calls_;
  call_ = {.name = begin.name};
  const bool is_loose = std::ranges::find(unenforced_, begin.name) != unenforced_.end();
  if (is_loose) {
    const bool is_judged = check_ != nullptr && check_->can_judge(begin.name);
    weaken(is_judged ? Guarantee::validated : Guarantee::unenforced);
  }
  // Nothing is known about a tool that the client did not send.
  const bool is_stranger = forwards_ && schema_of(begin.name) == nullptr;
  if (is_stranger) weaken(Guarantee::unenforced);
  // Arguments that a mask constrained are valid; rewriting them would only weaken the guarantee.
  if (check_ != nullptr && !is_stranger && (is_loose || !is_masked_)) {
    repairer_ = check_->repairer(begin.name, known_schema_of(begin.name));
  }
  emit(begin);
}

// call_.arguments has what the client gets, which end_call() validates.
void Turn::pass_arguments(message::CallArguments arguments) {
  if (repairer_ != nullptr) {
    std::string repaired;
    repairer_->feed(arguments.text, repaired);
    arguments.text = std::move(repaired);
  }
  if (arguments.text.empty()) return;
  if (check_ != nullptr) call_.arguments += arguments.text;
  emit(std::move(arguments));
}

// The repairer gives out what it has held, then its repairs are told. Arguments are checked after
// repair, as the client gets them. The answer ends here if only one call was allowed, or at the
// limit of calls, which stops a model that calls without end.
void Turn::end_call(const message::CallEnd& end) {
  const auto repairer = std::move(repairer_);
  if (repairer != nullptr) {
    message::CallArguments rest{.index = end.index};
    repairer->finish(end.incomplete, rest.text);
    pass_arguments(std::move(rest));
  }
  emit(end);
  if (repairer != nullptr) {
    for (const repair::Repair& repair : repairer->repairs()) {
      weaken(Guarantee::repaired);
      const bool is_shown = log::content(repair.message) == repair.message;
      log::info("[NORMALIZATION] " + (is_shown ? repair.message : repair.masked));
      sink_->on_event(message::Diagnostic{repair.kind, repair.message}, {});
    }
    for (const std::string& member : repairer->unplaced()) {
      tell("unplaced_argument", "the call was cut before it had a place for " + member);
    }
  }
  if (end.incomplete) weaken(Guarantee::unenforced);
  if (check_ != nullptr && !end.incomplete) {
    std::string fault = check_->fault(call_.name, known_schema_of(call_.name), call_.arguments);
    if (!fault.empty()) {
      weaken(Guarantee::unenforced);
      tell("invalid_arguments", std::move(fault));
    }
  }
  if (end.incomplete) return;
  if (!parallel_) return stop_generation();
  if (max_calls_ == 0 || calls_ < max_calls_) return;
  tell("call_limit", "the answer ended at " + std::to_string(max_calls_) +
                         " calls; tenon.max_calls, or max_calls in the configuration, allows more");
  stop_generation();
}

const json::Value* Turn::schema_of(std::string_view tool) const {
  return told_calls_ != nullptr ? told_calls_->schema_of(tool) : parser_->schema_of(tool);
}

// Null instead of no schema: any arguments are valid.
const json::Value& Turn::known_schema_of(std::string_view tool) const {
  static const json::Value kNone;
  const json::Value* schema = schema_of(tool);
  return schema == nullptr ? kNone : *schema;
}

void Turn::weaken(Guarantee to) {
  guarantee_ = std::min(guarantee_, to);
}

// Diagnostics of this file go the way of the parser's, so they are logged as well.
void Turn::tell(std::string code, std::string message) {
  ChatEvent told = message::Diagnostic{std::move(code), std::move(message)};
  pass(told);
}

// Content passes the hold of markers, the stop strings, and then goes out.
void Turn::pass_content(std::string text) {
  if (markers_) text = markers_->pass(std::move(text));
  search_stops(std::move(text));
}

void Turn::search_stops(std::string text) {
  if (text.empty()) return;
  if (!stops_.is_active()) return emit(message::ContentDelta{std::move(text)});
  std::string visible;
  const bool stopped = stops_.feed(text, visible);
  if (!visible.empty()) emit(message::ContentDelta{std::move(visible)});
  if (!stopped) return;
  logprobs_.clear();  // they belong to the stop string
  stop_generation();
}

// Something other than content comes, or the end: what is held back cannot become a marker or a
// stop string any more.
void Turn::flush_content() {
  if (is_over_) return;
  if (markers_) search_stops(markers_->release());
  if (is_over_ || !stops_.is_active()) return;
  std::string held;
  stops_.flush(held);
  if (!held.empty()) emit(message::ContentDelta{std::move(held)});
}

// All log probabilities since the last event go with this one.
void Turn::emit(const ChatEvent& event) {
  if (text_schema_ != nullptr) {
    if (const auto* content = std::get_if<message::ContentDelta>(&event)) text_ += content->text;
  }
  sink_->on_event(event, logprobs_);
  logprobs_.clear();
  pending_tokens_ = 0;
}

// An answer that was over before the engine ended is complete, whatever the engine says about being
// cancelled.
FinishReason Turn::reason(const engine::RunEnd& end) const {
  if (!is_over_ && end.reason != FinishReason::stop) return end.reason;
  return calls_ > 0 ? FinishReason::tool_calls : FinishReason::stop;
}

// The answer is complete, so the engine need not go on. Its on_end brings the usage.
void Turn::stop_generation() {
  is_over_ = true;
  run_.cancel();
}

namespace {

class TurnAnswer final : public Answer {
 public:
  TurnAnswer(std::shared_ptr<Turn> turn, std::size_t prompt_tokens)
      : turn_(std::move(turn)), prompt_tokens_(static_cast<std::uint32_t>(prompt_tokens)) {}
  ~TurnAnswer() override { turn_->run().detach(); }
  TurnAnswer(const TurnAnswer&) = delete;
  TurnAnswer& operator=(const TurnAnswer&) = delete;

  void cancel() override { turn_->run().cancel(); }
  void pause() override { turn_->run().set_paused(true); }
  void resume() override { turn_->run().set_paused(false); }
  [[nodiscard]] std::uint32_t prompt_tokens() const override { return prompt_tokens_; }

 private:
  std::shared_ptr<Turn> turn_;
  const std::uint32_t prompt_tokens_;
};

}  // namespace

std::unique_ptr<Answer> answer_of(std::shared_ptr<Turn> turn, std::size_t prompt_tokens) {
  return std::make_unique<TurnAnswer>(std::move(turn), prompt_tokens);
}

}  // namespace tenon::chat
