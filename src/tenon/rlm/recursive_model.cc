#include "tenon/rlm/recursive_model.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <utility>

#include "tenon/base/ids.h"
#include "tenon/base/log.h"
#include "tenon/base/trace.h"
#include "tenon/base/utf8.h"
#include "tenon/chat/model_pair.h"
#include "tenon/chat/spans.h"
#include "tenon/rlm/trace_file.h"

// The recursive model as a chat::Model. start() decides what a request is: a request with results
// of calls goes on with the session that made the calls (find, match); any other request begins a
// session. Sessions are found by the ids of their calls, and belong to an owner and a model.
//
// A client may send the same request again because the answer was lost. `answered` and
// `answered_hash` of the session recognise that: with the same results it gets the answer again
// without a new run (ToldAnswer), with other results it is refused or begins anew, because a
// session cannot go back.
//
// Answering is one request: it runs rlm::Run on a thread of the host, passes events of the trace
// on as reasoning if the client wants that, stores the session, and only then tells the client
// the end, so that a client that has an answer can always go on from it. If the run fails, the
// session in the store stays as it was when it paused.

namespace tenon::rlm {
namespace {

using chat::Refusal;
using message::ChatRequest;
using message::FinishReason;
using Clock = std::chrono::steady_clock;

template <class T>
using OrRefusal = Result<T, Refusal>;

Failure<Refusal> refuse(std::string message, std::string param, std::string code,
                        Errc errc = Errc::invalid) {
  return Failure<Refusal>(
      {.error = {errc, std::move(message)}, .param = std::move(param), .code = std::move(code)});
}

// Describes an event in a line or two, for people who watch.
// {"type": "sub_call", "kind": "llm", "prompt_chars": 900, "response": "blue"} becomes "[llm_query
// of 900 characters: blue]\n". "": the event is not shown (metadata, pause, final, ...).
std::string summary_of(const json::Object& event) {
  const auto text = [&](std::string_view key) -> std::string {
    const json::Value* found = event.find(key);
    return found != nullptr && found->if_string() != nullptr ? *found->if_string() : "";
  };
  const auto number = [&](std::string_view key) {
    const json::Value* found = event.find(key);
    return found != nullptr && found->if_number() != nullptr ? found->if_number()->text : "0";
  };
  const std::string type = text("type");
  if (type == "iteration") return "[turn " + number("iteration") + "]\n" + text("response") + "\n";
  if (type == "sub_call") {
    return "[" + text("kind") + "_query of " + number("prompt_chars") +
           " characters: " + cut_text(text("response"), 200) + "]\n";
  }
  if (type == "compaction") {
    const std::string failed = text("failed");
    if (!failed.empty()) return "[earlier turns could not be summed up: " + failed + "]\n";
    return "[earlier turns are summed up]\n" + cut_text(text("summary"), 2000) + "\n";
  }
  if (type == "cells") {
    std::string all;
    for (const json::Value& cell : *event.find("cells")->if_array()) {
      for (const std::string_view key : {"stdout", "stderr", "error"}) {
        const json::Value* said = cell.find(key);
        if (said == nullptr || said->if_string() == nullptr || said->if_string()->empty()) continue;
        all += "[" + std::string(key) + "] " + cut_text(*said->if_string(), 2000) + "\n";
      }
    }
    return all;
  }
  return {};
}

// The session has what is needed of the messages, which may be long.
ChatRequest without_messages(const ChatRequest& request) {
  return {.model = request.model,
          .tools = request.tools,
          .tool_choice = request.tool_choice,
          .parallel_tool_calls = request.parallel_tool_calls,
          .sampling = request.sampling,
          .max_tokens = request.max_tokens,
          .template_kwargs = request.template_kwargs,
          .normalize = request.normalize,
          .argument_order = request.argument_order,
          .close_calls = request.close_calls,
          .bounds = request.bounds,
          .call_id_prefix = request.call_id_prefix,
          .owner = request.owner};
}

// The arguments come in one piece: they were complete before the client hears of them.
void tell_calls(message::ChatSink& sink, const std::vector<message::ToolCall>& calls) {
  for (std::uint32_t i = 0; i < calls.size(); ++i) {
    sink.on_event(message::CallBegin{i, calls[i].id, calls[i].name}, {});
    if (!calls[i].arguments.empty()) {
      sink.on_event(message::CallArguments{i, calls[i].arguments}, {});
    }
    sink.on_event(message::CallEnd{i, false}, {});
  }
}

/// One request: from its start to its last event.
class Answering : public std::enable_shared_from_this<Answering> {
 public:
  Answering(std::shared_ptr<Host> host, std::shared_ptr<Bounds> bounds,
            std::unique_ptr<Session> session, const ChatRequest& request,
            std::shared_ptr<message::ChatSink> sink)
      : host_(std::move(host)),
        bounds_(std::move(bounds)),
        session_(std::move(session)),
        request_(without_messages(request)),
        sink_(std::move(sink)),
        about_(log::about()),
        span_(chat::agent_span(request.model)),
        trace_(span_ ? span_.context() : trace::current()) {}

  /// `told` is rlm.events: how the client is told what happens.
  void listen(const RecursiveOptions& options, std::string_view told);
  /// What run() continues with. Without this call it begins the session.
  void resume_with(std::vector<message::Message> results, std::string others, std::string hash) {
    results_ = std::move(results);
    others_ = std::move(others);
    hash_ = std::move(hash);
  }
  /// Takes the session back from a request that never ran.
  std::unique_ptr<Session> take_session() { return std::move(session_); }
  void with_context(Task task) { context_.emplace(std::move(task)); }
  void ask_again(std::string question) { again_ = std::move(question); }
  /// The session stays after the answer.
  void keep() { keeps_ = true; }

  void cancel() {
    bounds_->is_cancelled = true;
    bounds_->halt();
  }
  void run();

 private:
  void finish(Outcome outcome);
  void end(message::Finish finish);
  void fail(Outcome outcome, message::Finish last);
  [[nodiscard]] json::Object report(const std::string& forced) const;
  void trace_end(std::string_view type, const json::Object& more);

  const std::shared_ptr<Host> host_;
  const std::shared_ptr<Bounds> bounds_;
  std::unique_ptr<Session> session_;
  ChatRequest request_;
  std::shared_ptr<message::ChatSink> sink_;
  // The log prefix and the span of the client's request, which the run's thread takes over.
  const std::string about_;
  trace::Span span_;  // ends with the last event
  const trace::Context trace_;
  // What the request brings: results of calls in the order of session_->calls, other text of the
  // user, and the hash of both (Session::answered_hash).
  std::vector<message::Message> results_;
  std::string others_;
  std::string hash_;
  // Another context than the session has; nullopt: it stays.
  std::optional<Task> context_;
  std::optional<std::string> again_;  // another question to a session that was kept
  bool keeps_ = false;
};

void Answering::listen(const RecursiveOptions& options, std::string_view told) {
  if (!options.trajectory_dir.empty()) {
    const auto file =
        TraceFile::open(std::filesystem::path(options.trajectory_dir) / (session_->id + ".jsonl"));
    if (file) {
      bounds_->trace->listen([file = *file](const json::Object& event) { file->add(event); });
    } else {
      log::error("rlm: no trace can be written: " + file.error().message);
    }
  }
  if (options.logs_turns) {
    bounds_->trace->listen([about = about_](const json::Object& event) {
      const log::About scope(about);
      const std::string text = summary_of(event);
      if (!text.empty()) log::info("rlm: " + std::string(log::content(text)));
    });
  }
  if (options.listener) bounds_->trace->listen(options.listener);
  if (told != "reasoning" && told != "json") return;
  // The trace's own lock admits one thread at a time, and close() comes before the last event.
  bounds_->trace->listen([sink = sink_, is_json = told == "json"](const json::Object& event) {
    std::string text = is_json ? json::to_string(event) + "\n" : summary_of(event);
    if (!text.empty()) sink->on_event(message::ReasoningDelta{std::move(text)}, {});
  });
}

// Becomes `tenon.rlm` of the answer. Sub-calls and cost are those of this request alone; turns and
// compactions are the session's.
json::Object Answering::report(const std::string& forced) const {
  const RunFacts own = bounds_->own();
  json::Object report{{"session", session_->id},
                      {"iterations", session_->turns},
                      {"sub_calls", own.sub_calls},
                      {"tier", host_->tier()}};
  if (session_->compactions > 0) report.set("compactions", session_->compactions);
  if (bounds_->spent().cost > 0) report.set("cost", own.cost);
  if (!forced.empty()) report.set("forced", forced);
  return report;
}

// The trace is closed first, so that no reasoning comes after Finish. sink_ becomes null, by which
// run() sees that the client has had its last event.
void Answering::end(message::Finish finish) {
  bounds_->trace->close();
  chat::end_agent_span(span_, finish);
  const auto sink = std::move(sink_);
  sink->on_event(finish, {});
}

void Answering::run() {
  const log::About about(about_);
  const trace::Scope scope(trace_);
  Outcome outcome;
  try {
    const auto alarm =
        host_->alarm(Clock::now() + bounds_->limits.max_time, [weak = std::weak_ptr(bounds_)] {
          const auto bounds = weak.lock();
          if (bounds == nullptr) return;
          bounds->is_late = true;
          bounds->halt();
        });
    if (again_) session_->spent = {};  // each question has limits of its own
    bounds_->go_on_from(session_->spent);
    Run run(host_, bounds_, bounds_->token(), *session_, request_);
    if (context_) run.change_context(*std::move(context_));
    if (session_->messages.empty()) {
      run.begin();
    } else if (again_) {
      run.ask_again(*again_);
    } else {
      session_->answered_hash = hash_;
      run.resume(results_, others_);
    }
    outcome = run.run();
  } catch (const std::exception& thrown) {
    outcome = {.kind = Outcome::Kind::failure, .error = {Errc::unavailable, thrown.what()}};
  }
  try {
    finish(std::move(outcome));
  } catch (const std::exception& thrown) {
    log::error(std::string("rlm: a run could not be ended: ") + thrown.what());
    if (sink_ == nullptr) return;  // the client has its last event
    end({.reason = FinishReason::error,
         .error = {Errc::unavailable, "the run could not be ended"}});
  }
}

void Answering::trace_end(std::string_view type, const json::Object& more) {
  const RunFacts spent = bounds_->spent();
  json::Object event{{"type", type}, {"depth", 0}, {"session", session_->id}};
  for (const json::Member& member : more) event.set(member.key, member.value);
  event.set("usage", json::Object{{"prompt_tokens", spent.usage.prompt_tokens},
                                  {"completion_tokens", spent.usage.completion_tokens},
                                  {"sub_calls", spent.sub_calls},
                                  {"cost", spent.cost}});
  bounds_->trace->add(event);
  bounds_->trace->close();
}

// The session is in the store before the client is told the outcome.
void Answering::finish(Outcome outcome) {
  message::Finish last{.usage = bounds_->own().usage, .rlm = report(outcome.forced)};
  session_->spent = bounds_->spent();
  if (outcome.kind == Outcome::Kind::calls) {
    trace_end("pause", {{"iteration", session_->turns}});
    session_->state = Session::State::paused;
    const std::vector<message::ToolCall> calls = session_->calls;
    last.reason = FinishReason::tool_calls;
    last.guarantee = session_->guarantee;
    last.format = session_->format;
    host_->keep(std::move(session_));
    for (const auto& diagnostic : outcome.diagnostics) sink_->on_event(diagnostic, {});
    tell_calls(*sink_, calls);
    return end(std::move(last));
  }
  if (outcome.kind != Outcome::Kind::answer) return fail(std::move(outcome), std::move(last));
  json::Object told{{"iterations", session_->turns}, {"answer", outcome.text}};
  if (!outcome.forced.empty()) told.set("forced", outcome.forced);
  trace_end("final", told);
  last.reason = outcome.is_cut ? FinishReason::length : FinishReason::stop;
  session_->final_text = outcome.text;
  session_->forced = outcome.forced;
  session_->reason = last.reason;
  // A conversation that has filled the context has room for no other question.
  if (keeps_ && outcome.forced != kContext) {
    session_->state = Session::State::open;
    host_->keep(std::move(session_));
  } else if (!session_->answered.empty() || again_) {
    // Only the client that has brought results can bring them again, and it then gets the same
    // answer.
    session_->state = Session::State::over;
    session_->task = {};  // the session cannot go on
    session_->messages.clear();
    session_->cells.clear();
    session_->tool_results.clear();
    host_->keep(std::move(session_));
  }
  if (!outcome.text.empty()) sink_->on_event(message::ContentDelta{std::move(outcome.text)}, {});
  end(std::move(last));
}

// The session, if it was paused, stays as it was then, because its results may come again.
void Answering::fail(Outcome outcome, message::Finish last) {
  trace_end("error", {{"message", outcome.error.message}});
  session_.reset();
  last.reason =
      outcome.kind == Outcome::Kind::cancelled ? FinishReason::cancelled : FinishReason::error;
  last.error = std::move(outcome.error);
  end(std::move(last));
}

class RecursiveAnswer final : public chat::Answer {
 public:
  explicit RecursiveAnswer(std::shared_ptr<Answering> answering)
      : answering_(std::move(answering)) {}
  // A client that goes away destroys its answer, and that must end the run.
  ~RecursiveAnswer() override { answering_->cancel(); }
  RecursiveAnswer(const RecursiveAnswer&) = delete;
  RecursiveAnswer& operator=(const RecursiveAnswer&) = delete;

  void cancel() override { answering_->cancel(); }
  // Everything is sent at once, so there is nothing to pause.
  void pause() override {}
  void resume() override {}

 private:
  const std::shared_ptr<Answering> answering_;
};

/// The answer of a session that already has it.
class ToldAnswer final : public chat::Answer {
 public:
  void cancel() override {}
  void pause() override {}
  void resume() override {}
};

class RecursiveModel final : public chat::Model {
 public:
  RecursiveModel(RecursiveOptions options, std::shared_ptr<Host> host)
      : options_(std::move(options)), host_(std::move(host)) {
    capabilities_.kind = "rlm";
  }

  const std::string& name() const override { return options_.name; }
  const std::vector<std::string>& aliases() const override { return options_.aliases; }
  const engine::Capabilities& capabilities() const override { return capabilities_; }
  engine::EngineStats stats() const override { return {}; }
  engine::Engine* engine() const override { return nullptr; }
  const format::Format* format() const override { return nullptr; }
  OrRefusal<chat::Prepared> prepare(const ChatRequest& /*request*/) const override {
    return refuse("a recursive model has no single prompt: ask its root model", "model",
                  "unsupported_parameter", Errc::unsupported);
  }
  chat::GrammarCounts grammar_counts() const override { return {}; }
  bool takes_rlm() const override { return true; }

  OrRefusal<std::unique_ptr<chat::Answer>> start(const ChatRequest& request,
                                                 std::shared_ptr<message::ChatSink> sink) override;

 private:
  /// A session with which the request goes on.
  struct Found {
    std::unique_ptr<Session> session;
    std::vector<message::Message> results;  // one for each waiting call
    std::string hash;                       // of all messages that came with them
    bool is_told = false;                   // the session has had these results already
    bool is_question = false;               // another question to a session that was kept
  };
  [[nodiscard]] OrRefusal<std::optional<Found>> find(const ChatRequest& request,
                                                     const Results& results) const;
  [[nodiscard]] OrRefusal<std::optional<Found>> match(std::unique_ptr<Session> session,
                                                      const Results& results, bool is_named) const;
  [[nodiscard]] OrRefusal<std::unique_ptr<chat::Answer>> run(
      const ChatRequest& request, std::shared_ptr<message::ChatSink> sink, const RunLimits& limits,
      std::optional<Found> found, const Results& results);
  [[nodiscard]] std::string name_of(const ChatRequest& request) const;
  [[nodiscard]] OrRefusal<std::unique_ptr<Session>> new_session(const ChatRequest& request) const;

  const RecursiveOptions options_;
  const std::shared_ptr<Host> host_;
  engine::Capabilities capabilities_;
};

std::string joined(const std::vector<std::string>& words) {
  std::string all;
  for (const std::string& word : words) all += (all.empty() ? "" : ", ") + word;
  return all;
}

// Fields that only a single turn can obey are refused: a recursive model takes many turns, and the
// client would not learn that they have no effect.
OrRefusal<void> check(const ChatRequest& request) {
  const auto no = [](const std::string& param) -> OrRefusal<void> {
    return chat::refuse_field(
        Errc::unsupported, param,
        " belongs to a single turn of a model, and a recursive model takes many",
        "unsupported_parameter");
  };
  if (request.continuation) return no("prompt");
  if (!request.prefill.empty()) return no("messages");
  if (!request.stop.empty()) return no("stop");
  if (request.logprobs) return no("logprobs");
  if (request.tells_tokens) return no("tenon.tokens");
  if (!request.prompt_token_ids.empty()) return no("prompt_token_ids");
  if (!request.previous_token_ids.empty()) return no("tenon.previous_token_ids");
  if (request.response_format.kind != message::ResponseFormat::Kind::text) {
    return no("response_format");
  }
  return {};
}

// The name of the model whose sessions the request may continue: an alias is the same model,
// another pair of models is another model.
std::string RecursiveModel::name_of(const ChatRequest& request) const {
  return options_.root.empty() ? request.model : options_.name;
}

// The session with which the request goes on, if there is one.
OrRefusal<std::optional<RecursiveModel::Found>> RecursiveModel::find(const ChatRequest& request,
                                                                     const Results& results) const {
  const json::Value* named = request.rlm.find("session");
  const bool is_named = named != nullptr && named->if_string() != nullptr;
  // The name in rlm.session counts first; without it the id of the first result of ours says which
  // session it is.
  std::string id = is_named ? *named->if_string() : "";
  for (const message::Message* result : results.results) {
    if (id.empty()) id = session_of_call(result->tool_call_id);
  }
  if (id.empty()) return std::optional<Found>();
  std::unique_ptr<Session> session;
  switch (host_->take(id, request.owner, name_of(request), session)) {
    case Host::Taking::busy:
      return refuse(
          "the session of these results goes on already, with another request: repeat this one, "
          "and "
          "get that one's answer",
          "", "engine_busy", Errc::limit_exceeded);
    case Host::Taking::failed:
      return refuse("the sessions that wait for results cannot be read now", "", "engine_error",
                    Errc::unavailable);
    case Host::Taking::none:
      if (!is_named) return std::optional<Found>();
      return refuse(
          "rlm.session: no session of that name waits for results or a question here; leave it out "
          "to begin one",
          "rlm.session", "invalid_value");
    case Host::Taking::found:
      break;
  }
  return match(std::move(session), results, is_named);
}

// Compares the results with the calls of the session. The session is given back if they do not
// belong to it.
OrRefusal<std::optional<RecursiveModel::Found>> RecursiveModel::match(
    std::unique_ptr<Session> session, const Results& results, bool is_named) const {
  if (session->state == Session::State::open && results.results.empty()) {
    return std::optional<Found>(Found{.session = std::move(session), .is_question = true});
  }
  if (is_named && session->state == Session::State::over && results.results.empty()) {
    host_->give_back(std::move(session));
    return refuse("rlm.session: this session is over, and takes no other question", "rlm.session",
                  "invalid_value");
  }
  std::vector<std::string> said{results.said()};
  // Keyed by the id of the call, so the hash below does not depend on the order of the results.
  std::map<std::string, const message::Message*> by_call;
  std::string twice;
  for (const message::Message* result : results.results) {
    const auto [place, is_new] = by_call.emplace(result->tool_call_id, result);
    if (!is_new) twice = result->tool_call_id;
  }
  // The request may hold more results than the last calls; these must be among them.
  const auto has_all = [&](const std::vector<std::string>& calls) {
    return !calls.empty() &&
           std::ranges::all_of(calls, [&](const auto& call) { return by_call.contains(call); });
  };
  for (const auto& [call, result] : by_call) {
    said.push_back(call);
    said.push_back(result->text());
    if (!result->extra.empty()) said.push_back(json::to_string(result->extra));
  }
  Found found{.hash = hash_of(said)};
  const auto refused = [&](const std::string& why) {
    host_->give_back(std::move(session));
    return chat::refuse_field(Errc::invalid, "messages", ": " + why, "invalid_value");
  };
  std::vector<std::string> waiting;
  std::vector<std::string> missing;
  for (const message::ToolCall& call : session->calls) {
    waiting.push_back(call.id);
    if (!by_call.contains(call.id)) missing.push_back(call.name + " (" + call.id + ")");
  }
  // At least one waiting call has its result. Then the request means to go on, and what is missing
  // is an error; else it may repeat an earlier request, or be of another history.
  const bool is_any = missing.size() < waiting.size();
  if (!is_any && has_all(session->answered)) {
    // The same results again, or other ones in their place, which would be another continuation.
    if (found.hash == session->answered_hash) {
      found.is_told = true;
      found.session = std::move(session);
      return std::optional<Found>(std::move(found));
    }
    host_->give_back(std::move(session));
    return std::optional<Found>();
  }
  if (!is_any) {
    // The results are for earlier calls, in a history that went another way.
    const bool is_over =
        session->state == Session::State::over || session->state == Session::State::open;
    if (is_named && !is_over)
      return refused("these calls wait for their results: " + joined(missing));
    host_->give_back(std::move(session));
    return std::optional<Found>();
  }
  if (!missing.empty()) {
    return refused("these calls wait for their results, too: " + joined(missing));
  }
  if (!twice.empty()) return refused("there are two results of the call " + twice);
  for (const auto& [call, result] : by_call) {
    if (std::ranges::find(waiting, call) == waiting.end()) {
      return refused("there is a result of " + call + ", which is no call that waits for one");
    }
  }
  for (const std::string& call : waiting) found.results.push_back(*by_call.at(call));
  found.session = std::move(session);
  return std::optional<Found>(std::move(found));
}

bool keeps(const ChatRequest& request) {
  const json::Value* keep = request.rlm.find("keep");
  return keep != nullptr && *keep == json::Value(true);
}

OrRefusal<std::unique_ptr<Session>> RecursiveModel::new_session(const ChatRequest& request) const {
  auto session = std::make_unique<Session>();
  session->id = new_session_id();
  session->owner = request.owner;
  session->model = name_of(request);
  session->root = options_.root;
  session->sub = options_.sub;
  if (session->root.empty()) {
    const auto pair =
        chat::split_pair(request.model, [&](std::string_view name) { return host_->has(name); });
    if (!pair) return refuse("there is no pair " + request.model, "model", "model_not_found");
    session->root = pair->root;
    session->sub = pair->sub;
  }
  if (session->sub.empty()) session->sub = session->root;
  fill_random(reinterpret_cast<unsigned char*>(&session->seed), sizeof session->seed);
  session->task = task_of(request.messages, request.rlm.find("context"));
  // A session that cannot pause is never looked for again.
  const bool may_pause =
      (!request.tools.empty() || keeps(request)) && !session->task.context.empty();
  if (may_pause) session->context_hash = hash_of(session->task.context);
  return session;
}

// Sends the answer that the session has already given, to a client that did not receive it.
std::unique_ptr<chat::Answer> tell_again(const Session& session, message::ChatSink& sink) {
  message::Finish last{.guarantee = session.guarantee, .format = session.format};
  last.rlm = {{"session", session.id}, {"iterations", session.turns}, {"repeated", true}};
  if (!session.forced.empty()) last.rlm.set("forced", session.forced);
  last.reason = session.calls.empty() ? session.reason : FinishReason::tool_calls;
  tell_calls(sink, session.calls);
  if (!session.final_text.empty()) sink.on_event(message::ContentDelta{session.final_text}, {});
  sink.on_event(last, {});
  return std::make_unique<ToldAnswer>();
}

// The question with which the session began: the messages before its first call.
std::vector<message::Message> first_of(const std::vector<message::Message>& messages,
                                       const std::string& session) {
  const auto is_its = [&](const message::Message& message) {
    return std::ranges::any_of(message.tool_calls, [&](const message::ToolCall& call) {
      return session_of_call(call.id) == session;
    });
  };
  return {messages.begin(), std::ranges::find_if(messages, is_its)};
}

// Whether the request brings a context as such, in rlm.context or as system messages, rather than
// as the conversation before its question.
bool has_own_context(const ChatRequest& request) {
  const json::Value* context = request.rlm.find("context");
  return (context != nullptr && !context->is_null()) ||
         std::ranges::any_of(request.messages, [](const message::Message& message) {
           return message.role == message::Role::system || message.role == message::Role::developer;
         });
}

// What a request brings.
enum class Asking : std::uint8_t {
  first,
  another,
  results,  // of calls, perhaps with words of the user
};

// A message without text asks nothing, and the root model would look for a question for all of its
// turns. A question beside a context of its own, and one more question, cannot become part of the
// context.
OrRefusal<void> check_question(const ChatRequest& request, Asking asking) {
  if (asking == Asking::results) return {};
  const auto last = std::find_if(
      request.messages.rbegin(), request.messages.rend(),
      [](const message::Message& message) { return message.role == message::Role::user; });
  const bool is_there = last != request.messages.rend();
  const std::string question = is_there ? last->text() : "";
  const bool is_blank = question.find_first_not_of(" \t\r\n") == std::string::npos;
  if (asking == Asking::another && is_blank) {
    return chat::refuse_field(Errc::invalid, "messages",
                              ": there is no further question for the session of rlm.session",
                              "invalid_value");
  }
  if (is_there && is_blank) {
    return chat::refuse_field(Errc::invalid, "messages",
                              ": the last message of the user has no text: ask a question, or "
                              "leave the message out if the context says what to do",
                              "invalid_value");
  }
  const json::Value* const context = request.rlm.find("context");
  const bool is_beside = context != nullptr && !context->is_null();
  if (asking == Asking::first && !is_beside) return {};
  if (utf8::length(question) <= kMaxQuestionChars) return {};
  return chat::refuse_field(Errc::invalid, "messages",
                            ": a question beside rlm.context, or to a session that was kept, may "
                            "have " +
                                std::to_string(kMaxQuestionChars) + " characters",
                            "invalid_value");
}

OrRefusal<std::unique_ptr<chat::Answer>> RecursiveModel::start(
    const ChatRequest& request, std::shared_ptr<message::ChatSink> sink) {
  if (auto checked = check(request); !checked) {
    return Failure<Refusal>(std::move(checked.error()));
  }
  // Everything that can be refused without the session is refused first: from find() on, each way
  // out must give the session back.
  auto limits = request_limits(request.rlm, options_);
  if (!limits) return Failure<Refusal>(std::move(limits.error()));
  const Results results = results_of(request.messages);
  auto found = find(request, results);
  if (!found) return Failure<Refusal>(std::move(found.error()));
  const Asking asking = !*found                 ? Asking::first
                        : (*found)->is_question ? Asking::another
                                                : Asking::results;
  if (auto checked = check_question(request, asking); !checked) {
    if (*found) host_->give_back(std::move((*found)->session));
    return Failure<Refusal>(std::move(checked.error()));
  }
  if (*found && (*found)->is_told) {
    auto told = tell_again(*(*found)->session, *sink);
    host_->give_back(std::move((*found)->session));
    return told;
  }
  return run(request, std::move(sink), *limits, *std::move(found), results);
}

OrRefusal<std::unique_ptr<chat::Answer>> RecursiveModel::run(
    const ChatRequest& request, std::shared_ptr<message::ChatSink> sink, const RunLimits& limits,
    std::optional<Found> found, const Results& results) {
  auto bounds = std::make_shared<Bounds>(limits);
  bounds->unsafe_local = options_.unsafe_local;
  std::unique_ptr<Session> session;
  std::optional<Task> context;
  std::optional<std::string> again;
  if (found) {
    session = std::move(found->session);
    // A client that sends another context than before wants to replace it; a client need not send
    // it again.
    Task task = task_of(first_of(request.messages, session->id), request.rlm.find("context"));
    if (found->is_question) {
      again = std::move(task.question);
      // Without a context of its own the request has only the conversation so far before it.
      if (!has_own_context(request)) task.context.clear();
    }
    if (!task.context.empty() && hash_of(task.context) != session->context_hash) {
      context = std::move(task);
    }
  } else {
    auto made = new_session(request);
    if (!made) return Failure<Refusal>(std::move(made.error()));
    session = *std::move(made);
    if (!results.results.empty()) {
      sink->on_event(message::Diagnostic{"new_run",
                                         "no session waits here for these results: they are the "
                                         "history of a new run"},
                     {});
    }
  }
  bounds->client = sink;
  auto answering =
      std::make_shared<Answering>(host_, bounds, std::move(session), request, std::move(sink));
  if (keeps(request)) answering->keep();
  if (again) {
    answering->ask_again(*std::move(again));
    if (context) answering->with_context(*std::move(context));
  } else if (found) {
    answering->resume_with(std::move(found->results), results.said(), std::move(found->hash));
    if (context) answering->with_context(*std::move(context));
  }
  const json::Value* events = request.rlm.find("events");
  const std::string* const told = events == nullptr ? nullptr : events->if_string();
  answering->listen(options_, told == nullptr ? std::string_view() : std::string_view(*told));
  const bool is_posted =
      host_->post([answering] { answering->run(); }, [answering] { answering->cancel(); });
  if (!is_posted) {
    if (found) host_->give_back(answering->take_session());
    return refuse(
        "all places for runs of recursive models are taken (server.max_recursive_runs): try again "
        "later",
        "", "engine_busy", Errc::limit_exceeded);
  }
  return std::make_unique<RecursiveAnswer>(std::move(answering));
}

}  // namespace

// Here only the types of the fields that are no limits are checked. `context` may be any value, and
// whether there is a session of that name is found out later (find). read_limits() reads the rest.
OrRefusal<RunLimits> request_limits(const json::Value& rlm, const RecursiveOptions& options) {
  RunLimits limits = options.limits;
  if (rlm.is_null()) return limits;
  if (rlm.if_object() == nullptr) return refuse("rlm must be an object", "rlm", "invalid_type");
  if (const json::Value* keep = rlm.find("keep");
      keep != nullptr && !keep->is_null() && keep->if_bool() == nullptr) {
    return refuse("rlm.keep must be true or false", "rlm.keep", "invalid_type");
  }
  for (const std::string key : {"session", "events"}) {
    const json::Value* value = rlm.find(key);
    if (value == nullptr || value->is_null()) continue;
    const std::string param = "rlm." + key;
    if (value->if_string() == nullptr) {
      return refuse(param + " must be a string", param, "invalid_type");
    }
    const std::string& text = *value->if_string();
    if (key == "events" && text != "none" && text != "reasoning" && text != "json") {
      return refuse(param + " must be none, reasoning or json", param, "invalid_value");
    }
  }
  if (auto read = read_limits(rlm, options.most, limits); !read) {
    return Failure<Refusal>(std::move(read.error()));
  }
  return limits;
}

std::shared_ptr<chat::Model> make_recursive_model(RecursiveOptions options,
                                                  std::shared_ptr<Host> host) {
  return std::make_shared<RecursiveModel>(std::move(options), std::move(host));
}

}  // namespace tenon::rlm
