#include "trace_view.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <utility>
#include <variant>

#include "prompt_view.h"
#include "terminal.h"
#include <unistd.h>

#include "tenon/chat/call_check.h"
#include "tenon/chat/model_before.h"
#include "tenon/json/value.h"
#include "tenon/schema/schema.h"

// What `--trace` prints about an answer: the prompt with the origin of its bytes, a line for each
// token and event with its time, and at the end why a call failed, if one did. TracedModel puts a
// TraceSink between the model and its client, which notes all that passes and hands it on.

namespace tenon::app {
namespace {

using message::FinishReason;

// "   12.3 ms"
std::string time_of(AnswerTrace::Clock::duration at) {
  const double ms = std::chrono::duration<double, std::milli>(at).count();
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%9.1f ms", ms);
  return text.data();
}

// "── timeline, 12 tokens ─────": the line is 78 columns wide.
std::string heading(const std::string& title) {
  constexpr std::size_t kWidth = 78;
  std::string line = "── " + title + " ";
  for (std::size_t i = title.size() + 4; i < kWidth; ++i) line += "─";
  return line + "\n";
}

// A text in one line, with its line ends and control characters as escapes.
std::string in_quotes(std::string_view text) {
  return printable(json::quoted(text), /*keeps_lines=*/false);
}

// The first bytes, at the border of a character.
std::string first_of(std::string_view text, std::size_t most) {
  if (text.size() <= most) return std::string(text);
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xC0U) == 0x80U) --most;
  return std::string(text.substr(0, most)) + "...";
}

// The rest of a line about an event. std::visit() needs a function for each kind, so a new kind of
// event does not compile without one.
struct Describe {
  std::string operator()(const message::ContentDelta& delta) const {
    return "content " + in_quotes(delta.text);
  }
  std::string operator()(const message::ReasoningDelta& delta) const {
    return "reasoning " + in_quotes(delta.text);
  }
  std::string operator()(const message::CallBegin& begin) const {
    return "call " + std::to_string(begin.index) + " begins: " + in_quotes(begin.name);
  }
  std::string operator()(const message::CallArguments& arguments) const {
    return "call " + std::to_string(arguments.index) + " arguments " + in_quotes(arguments.text);
  }
  std::string operator()(const message::CallEnd& end) const {
    return "call " + std::to_string(end.index) + (end.incomplete ? " is cut" : " ends");
  }
  std::string operator()(const message::ServerTools& tools) const {
    return "server " + in_quotes(tools.server) +
           (tools.error.empty() ? " has " + std::to_string(tools.tools.size()) + " tools"
                                : ": " + tools.error);
  }
  std::string operator()(const message::ServerCallBegin& begin) const {
    return "server " + in_quotes(begin.tool.server) + " runs " + in_quotes(begin.tool.tool);
  }
  std::string operator()(const message::ServerCallArguments& arguments) const {
    return "its arguments " + in_quotes(arguments.text);
  }
  std::string operator()(const message::ServerCallResult& result) const {
    return (result.is_error ? "its error " : "its result ") + in_quotes(result.output);
  }
  std::string operator()(const message::ApprovalsWanted& wanted) const {
    return std::to_string(wanted.calls.size()) + " calls wait for approval";
  }
  std::string operator()(const message::Diagnostic& diagnostic) const {
    return diagnostic.code + ": " + diagnostic.message;
  }
  std::string operator()(const message::Finish& finish) const {
    return "finish " + std::string(message::finish_reason_name(finish.reason));
  }
};

std::vector<std::string> texts_of(const json::Object& object, std::string_view key) {
  std::vector<std::string> texts;
  const json::Value* const list = object.find(key);
  if (list == nullptr || list->if_array() == nullptr) return texts;
  for (const json::Value& one : *list->if_array()) {
    if (one.if_string() != nullptr) texts.push_back(*one.if_string());
  }
  return texts;
}

std::string plural(std::size_t count, std::string_view what) {
  return std::to_string(count) + " " + std::string(what) + (count == 1 ? "" : "s");
}

}  // namespace

AnswerTrace::AnswerTrace(const message::ChatRequest& request)
    : tools_(request.tools), mode_(request.tool_choice.mode), max_tokens_(request.max_tokens) {}

void AnswerTrace::add(Row row) {
  if (rows_.size() < kMaxRows) {
    rows_.push_back(std::move(row));
  } else {
    ++left_out_;
  }
}

void AnswerTrace::run(const message::RunBegin& run) {
  runs_.push_back(run);
  if (run.made_by != nullptr) controls_ = texts_of(*run.made_by, "controls");
}

void AnswerTrace::made(const message::MadeToken& token, Clock::duration at) {
  tokens_ += token.count;
  add({.at = at,
       .token = token.bytes.empty() ? "(end of turn)" : in_quotes(token.bytes),
       .legal = token.legal,
       .is_control = token.is_control});
}

void AnswerTrace::piece(const message::MadePiece& piece, Clock::duration at) {
  const std::string_view text = piece.is_reasoning ? piece.text : piece.arguments;
  const std::string what = piece.is_reasoning ? "reasoning" : "call " + std::to_string(piece.index);
  add({.at = at, .token = in_quotes(text) + " (" + what + ", as the server tells it)"});
}

void AnswerTrace::event(const message::ChatEvent& event, Clock::duration at) {
  fold_.add(event);
  constexpr std::size_t kLongest = 200;
  add({.at = at, .what = first_of(printable(std::visit(Describe{}, event), false), kLongest)});
}

void AnswerTrace::refused(std::string_view why) {
  refusal_ = why;
}

// An answer may have several runs, for example a second try; each has its prompt.
std::string AnswerTrace::prompt_text(bool has_colours) const {
  std::string out;
  for (const message::RunBegin& run : runs_) {
    std::string title = "prompt";
    if (!run.tokens.empty()) title += ", " + plural(run.tokens.size(), "token");
    out += heading(title);
    if (run.text.empty()) {
      out += "The engine makes it from the messages.\n";
    } else if (has_colours) {
      std::vector<jinja::Span> spans;
      for (const message::PromptSpan& span : run.spans) {
        spans.push_back({.begin = span.begin, .end = span.end, .is_data = span.is_data});
      }
      out += coloured(run.text, spans, controls_) + "\n";
    } else {
      // Without colours each stretch says where it comes from.
      for (const message::PromptSpan& span : run.spans) {
        out += (span.is_data ? "data     " : "template ") +
               in_quotes(std::string_view(run.text).substr(span.begin, span.end - span.begin)) +
               "\n";
      }
    }
    for (const std::string& change : run.changes) out += "shaped: " + printable(change) + "\n";
    if (!run.opening.empty()) {
      out += "written for the model, since a call is demanded: " + in_quotes(run.opening) + "\n";
    }
  }
  return out;
}

// Tokens stand at the margin, events behind an arrow: an event follows the token that made it.
std::string AnswerTrace::timeline() const {
  std::string out = heading("timeline, " + plural(tokens_, "token"));
  for (const Row& row : rows_) {
    if (row.token.empty()) {
      out += time_of(row.at) + "      -> " + row.what + "\n";
      continue;
    }
    out += time_of(row.at) + "  " + row.token;
    if (row.is_control) out += "  control";
    if (row.legal) out += "  " + std::to_string(*row.legal) + " legal";
    out += "\n";
  }
  if (left_out_ > 0) out += "... and " + plural(left_out_, "further line") + "\n";
  return out;
}

// What an engineer would look for: refusals, diagnostics, calls that were cut or do not fit their
// tool, loops, and an answer without any call although there were tools.
std::vector<std::string> AnswerTrace::faults() const {
  std::vector<std::string> faults;
  if (!refusal_.empty()) faults.push_back("the request was refused: " + refusal_);
  const message::Finish& finish = fold_.finish();
  const auto& calls = fold_.message().tool_calls;
  for (const message::Diagnostic& one : fold_.diagnostics()) {
    faults.push_back(one.code + ": " + one.message);
  }
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const std::string which = "call " + std::to_string(i) + ", " + json::quoted(calls[i].name);
    if (fold_.incomplete()[i]) {
      const bool is_length = finish.reason == FinishReason::length;
      faults.push_back(which + ", is cut: " +
                       (!is_length ? "the model ended its answer within it"
                        : max_tokens_
                            ? "the answer has reached its limit of " + plural(*max_tokens_, "token")
                            : std::string("the context is full")));
      continue;
    }
    const auto tool = std::ranges::find(tools_, calls[i].name, &message::Tool::name);
    if (tool == tools_.end()) {
      faults.push_back(which + ": the request has no such tool");
      continue;
    }
    const auto schema = schema::Schema::compile(tool->parameters);
    if (tool->parameters.is_null() || !schema) continue;
    const std::string fault = chat::fault_of(calls[i].arguments, **schema);
    if (!fault.empty()) faults.push_back(which + ": " + fault);
  }
  if (finish.reason == FinishReason::error) {
    faults.push_back("the engine failed: " + finish.error.message);
  }
  if (finish.loop.repeats > 1) {
    faults.push_back("the conversation is in a loop: " + json::quoted(finish.loop.tool) +
                     " was called " + std::to_string(finish.loop.repeats) +
                     " times with the same results");
  }
  const bool has_ended = finish.reason == FinishReason::stop ||
                         finish.reason == FinishReason::length ||
                         finish.reason == FinishReason::tool_calls;
  if (!tools_.empty() && calls.empty() && refusal_.empty() && has_ended) {
    faults.push_back(
        mode_ == message::ToolMode::none        ? "no call: the request forbids calls"
        : finish.reason == FinishReason::length ? "no call: the answer was cut before there was one"
        : mode_ == message::ToolMode::required  ? "no call, although one was demanded"
                                                : "no call: the model chose to answer in words");
  }
  return faults;
}

// The finish reason, what the answer took, and a line with "!" for each fault.
std::string AnswerTrace::ending() const {
  const message::Finish& finish = fold_.finish();
  std::string out = heading("end");
  if (refusal_.empty()) {
    out += "finish reason " + std::string(message::finish_reason_name(finish.reason)) +
           ", guarantee " + std::string(message::guarantee_name(finish.guarantee));
    if (!finish.format.empty()) out += ", format " + finish.format;
    out += "; prompt " + plural(finish.usage.prompt_tokens, "token") + " (" +
           std::to_string(finish.usage.cached_tokens) + " cached), answer " +
           plural(finish.usage.completion_tokens, "token") + "\n";
  }
  for (const std::string& fault : faults()) out += "! " + printable(fault, false) + "\n";
  return out;
}

std::string AnswerTrace::text(bool has_colours) const {
  return prompt_text(has_colours) + timeline() + ending();
}

namespace {

class TraceSink final : public message::ChatSink {
 public:
  TraceSink(const message::ChatRequest& request, std::shared_ptr<message::ChatSink> sink,
            std::function<void(const AnswerTrace&)> tell)
      : trace_(request), sink_(std::move(sink)), tell_(std::move(tell)) {}

  // Tokens and runs are told only to a sink that asks for them.
  bool watches() const override { return true; }
  void on_run(const message::RunBegin& run) override { trace_.run(run); }
  void on_made(const message::MadeToken& token) override { trace_.made(token, now()); }
  void on_piece(const message::MadePiece& piece) override { trace_.piece(piece, now()); }
  void on_event(const message::ChatEvent& event,
                const std::vector<message::TokenLogprob>& logprobs) override {
    trace_.event(event, now());
    if (!std::holds_alternative<message::Finish>(event)) return sink_->on_event(event, logprobs);
    tell_(trace_);
    // Nothing of the client is kept behind its last event.
    const auto sink = std::move(sink_);
    sink->on_event(event, logprobs);
  }
  void refused(std::string_view why) {
    trace_.refused(why);
    tell_(trace_);
  }

 private:
  [[nodiscard]] AnswerTrace::Clock::duration now() const {
    return AnswerTrace::Clock::now() - begun_;
  }

  AnswerTrace trace_;
  std::shared_ptr<message::ChatSink> sink_;  // null after the last event
  const std::function<void(const AnswerTrace&)> tell_;
  const AnswerTrace::Clock::time_point begun_ = AnswerTrace::Clock::now();
};

class TracedModel final : public chat::ModelBefore {
 public:
  TracedModel(std::shared_ptr<chat::Model> inner, std::function<void(const AnswerTrace&)> tell)
      : ModelBefore(std::move(inner)), tell_(std::move(tell)) {}

  Result<std::unique_ptr<chat::Answer>, chat::Refusal> start(
      const message::ChatRequest& request, std::shared_ptr<message::ChatSink> sink) override {
    const auto watching = std::make_shared<TraceSink>(request, std::move(sink), tell_);
    auto started = inner_->start(request, watching);
    if (!started) watching->refused(started.error().error.message);
    return started;
  }

 private:
  const std::function<void(const AnswerTrace&)> tell_;
};

}  // namespace

std::shared_ptr<chat::Model> with_trace(std::shared_ptr<chat::Model> model,
                                        std::function<void(const AnswerTrace&)> tell) {
  return std::make_shared<TracedModel>(std::move(model), std::move(tell));
}

bool paints_traces() {
  return isatty(STDERR_FILENO) == 1 && std::getenv("NO_COLOR") == nullptr;
}

void print_trace(const AnswerTrace& trace) {
  std::cout << std::flush;  // what comes before it stands before it
  std::cerr << trace.text(paints_traces()) << std::flush;
}

}  // namespace tenon::app
