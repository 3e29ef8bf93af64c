#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "command.h"
#include "conversation.h"
#include "recursive_choice.h"
#include "terminal.h"
#include <unistd.h>

#include "tenon/base/utf8.h"
#include "tenon/chat/event_queue.h"
#include "tenon/config/config.h"
#include "tenon/config/files.h"
#include "tenon/config/models.h"
#include "tenon/rlm/protocol.h"
#include "tenon/rlm/trace_file.h"

// `tenon rlm`: questions to a recursive model. The first question comes with the context; later
// ones go on in the same session, whose Python variables still exist (next_request). While a run
// lasts, its events go to a trace file and are shown on a terminal (View).

namespace tenon::app {
namespace {

struct RlmOptions {
  std::vector<std::string> questions;
  std::vector<std::string> context;  // files; "-" is stdin
  std::string json_context;          // file with a JSON value; instead of `context`
  bool names_files = false;          // the context is a dict from each file's name to its text
  RecursiveChoice choice;
  std::string trace;  // file for the events; "": none
  bool json = false;
  bool quiet = false;
  std::optional<std::int64_t> max_iterations;
  std::optional<std::int64_t> max_depth;
  std::optional<double> cell_timeout;
  std::optional<double> compact_at;
};

/// Shows what happens as it happens, in colours.
class View {
 public:
  explicit View(bool has_colours) : has_colours_(has_colours) {}

  // The events are those of a trajectory, see docs/rlm.md.
  void show(const json::Object& event) {
    const std::string type = text(event, "type");
    const json::Value* depth = event.find("depth");
    const bool is_child = depth != nullptr && *depth != json::Value(0);
    const std::string indent = is_child ? "    " : "";
    if (type == "iteration") {
      line(indent + "── turn " + number(event, "iteration"), kBold);
      line(rlm::cut_text(text(event, "response"), kMost), "");
    } else if (type == "cells") {
      for (const json::Value& cell : *event.find("cells")->if_array()) {
        const json::Object& one = *cell.if_object();
        if (const std::string out = text(one, "stdout"); !out.empty()) line(cut(out), kDim);
        if (const std::string err = text(one, "stderr"); !err.empty()) line(cut(err), kRed);
        if (const std::string error = text(one, "error"); !error.empty()) line(cut(error), kRed);
      }
    } else if (type == "compaction") {
      const std::string failed = text(event, "failed");
      line(indent + "── earlier turns " +
               (failed.empty() ? "are summed up" : "could not be summed up: " + failed),
           failed.empty() ? kBold : kRed);
      if (failed.empty()) line(cut(text(event, "summary")), kDim);
    } else if (type == "sub_call") {
      const std::string response = text(event, "response");
      line(indent + "   " + text(event, "kind") + "_query, " + number(event, "prompt_chars") +
               " characters, " + number(event, "duration_ms") +
               " ms: " + rlm::cut_text(response.substr(0, response.find('\n')), 80),
           response.starts_with("Error: ") ? kRed : kBlue);
    }
  }

 private:
  static constexpr std::size_t kMost = 4000;
  static constexpr std::string_view kBold = "\x1b[1m";
  static constexpr std::string_view kDim = "\x1b[2m";
  static constexpr std::string_view kRed = "\x1b[31m";
  static constexpr std::string_view kBlue = "\x1b[34m";

  static std::string text(const json::Object& from, std::string_view key) {
    const json::Value* found = from.find(key);
    return found != nullptr && found->if_string() != nullptr ? *found->if_string() : "";
  }
  static std::string number(const json::Object& from, std::string_view key) {
    const json::Value* found = from.find(key);
    return found != nullptr && found->if_number() != nullptr ? found->if_number()->text : "0";
  }
  static std::string cut(std::string text) {
    while (text.ends_with('\n')) text.pop_back();
    return rlm::cut_text(text, kMost);
  }
  void line(const std::string& what, std::string_view colour) const {
    const bool is_coloured = has_colours_ && !colour.empty();
    std::cerr << (is_coloured ? colour : "") << shown(what, STDERR_FILENO)
              << (is_coloured ? "\x1b[0m" : "") << '\n';
  }

  const bool has_colours_;
};

/// Tells on stderr now and then that a run goes on, since a turn may take minutes.
class Progress {
 public:
  /// The next question is asked now.
  void begin() {
    begun_ = Clock::now();
    next_ = begun_ + WaitNotice::kMoment;
    turns_ = 0;
  }
  /// Called by the thread of the run with each of its events.
  void add(const json::Object& event) {
    const json::Value* const type = event.find("type");
    const json::Value* const depth = event.find("depth");
    if (type != nullptr && *type == json::Value("iteration") && depth != nullptr &&
        *depth == json::Value(0)) {
      ++turns_;
    }
  }
  /// Called again and again while the answer is waited for.
  void look() {
    constexpr std::chrono::seconds kBetween{30};
    const auto now = Clock::now();
    if (now < next_) return;
    next_ = now + kBetween;
    const int turns = turns_;
    std::cerr << "tenon: at work for "
              << std::chrono::duration_cast<std::chrono::seconds>(now - begun_).count() << " s, "
              << turns << (turns == 1 ? " turn" : " turns") << " so far" << std::endl;
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point begun_;
  Clock::time_point next_;
  std::atomic<int> turns_ = 0;
};

/// The context that `options` give as a value; null: the context is text.
OrComplaint<json::Value> value_of(const RlmOptions& options) {
  if (!options.json_context.empty()) {
    const auto text = config::read_input(options.json_context);
    if (!text) return complaint(kBadInput, text.error().message);
    auto value = json::parse(utf8::sanitized(*text));
    if (!value) return complaint(kBadInput, options.json_context + ": " + value.error().message);
    return *std::move(value);
  }
  if (!options.names_files) return json::Value();
  json::Object files;
  for (const std::string& file : options.context) {
    const auto text = config::read_input(file);
    if (!text) return complaint(kBadInput, text.error().message);
    files.set(file, utf8::sanitized(*text));
  }
  return json::Value(std::move(files));
}

/// The request of the first question.
OrComplaint<message::ChatRequest> rlm_request_of(const RlmOptions& options) {
  message::ChatRequest request{.model = "rlm"};
  auto value = value_of(options);
  if (!value) return Failure<Complaint>(std::move(value.error()));
  if (value->is_null()) {
    for (const std::string& file : options.context) {
      const auto text = config::read_input(file);
      if (!text) return complaint(kBadInput, text.error().message);
      request.messages.push_back(
          {.role = message::Role::system, .content = utf8::sanitized(*text)});
    }
  }
  request.messages.push_back({.role = message::Role::user, .content = options.questions.front()});
  json::Object limits;
  if (!value->is_null()) limits.set("context", *std::move(value));
  // A session is kept only if there is a further question.
  if (options.questions.size() > 1) limits.set("keep", true);
  if (options.max_iterations) limits.set("max_iterations", *options.max_iterations);
  if (options.max_depth) limits.set("max_depth", *options.max_depth);
  if (options.cell_timeout) limits.set("cell_timeout", *options.cell_timeout);
  if (options.compact_at) limits.set("compact_at", *options.compact_at);
  if (!limits.empty()) request.rlm = std::move(limits);
  return request;
}

/// The request of a later question, to the session of the earlier ones.
message::ChatRequest next_request(const message::ChatRequest& before, const std::string& question,
                                  const std::string& session) {
  message::ChatRequest request{.model = before.model};
  request.messages = {{.role = message::Role::user, .content = question}};
  json::Object limits{{"session", session}};
  for (const json::Member& member : *before.rlm.if_object()) {
    // The context is in the session already.
    if (member.key != "context" && member.key != "session") limits.set(member.key, member.value);
  }
  request.rlm = std::move(limits);
  return request;
}

std::string text_of(const json::Object& from, std::string_view key) {
  const json::Value* found = from.find(key);
  return found != nullptr && found->if_string() != nullptr ? *found->if_string() : "";
}

std::string counted(const json::Object& rlm, std::string_view key, std::string_view what) {
  const json::Value* found = rlm.find(key);
  const std::string count =
      found != nullptr && found->if_number() != nullptr ? found->if_number()->text : "0";
  return count + " " + std::string(what) + (count == "1" ? "" : "s");
}

// "3 turns, 1 sub-call, 120 tokens".
std::string spent(const message::Finish& finish) {
  return counted(finish.rlm, "iterations", "turn") + ", " +
         counted(finish.rlm, "sub_calls", "sub-call") + ", " +
         std::to_string(finish.usage.prompt_tokens + finish.usage.completion_tokens) + " tokens";
}

// Returns kNegative if a limit was reached, and the answer had to be demanded.
int print_rlm(const RlmOptions& options, const message::Fold& answer) {
  const message::Finish& finish = answer.finish();
  if (finish.reason == message::FinishReason::error) {
    return complain({kEngine, finish.error.message + " (" + spent(finish) + ")"});
  }
  const std::string text = answer.message().text();
  const std::string forced = text_of(finish.rlm, "forced");
  if (options.json) {
    json::Object out{{"answer", text}, {"finish_reason", finish_reason_name(finish.reason)}};
    for (const json::Member& member : finish.rlm) out.set(member.key, member.value);
    out.set("usage", json::Object{{"prompt_tokens", finish.usage.prompt_tokens},
                                  {"completion_tokens", finish.usage.completion_tokens}});
    std::cout << json::to_string(out) << '\n';
  } else {
    std::cout << shown(text, STDOUT_FILENO) << '\n';
    if (!options.quiet) {
      std::cerr << "(" << spent(finish)
                << (forced.empty() ? "" : "; the answer was demanded: " + forced) << ")" << '\n';
    }
  }
  return forced.empty() ? kOk : kNegative;
}

int ended_by(int signal, std::string_view spent) {
  return complain({kSignal + signal, "the run was ended by a signal" +
                                         (spent.empty() ? "" : " (" + std::string(spent) + ")")});
}

// `session` becomes that of the answer.
int answer(const RlmOptions& options, chat::Model& model, const message::ChatRequest& request,
           Progress& progress, std::string& session) {
  // An upstream may take long to end its run.
  constexpr std::chrono::seconds kPatience{3};
  constexpr std::chrono::milliseconds kMoment{50};
  const Interruption interruption(/*ends=*/true);
  progress.begin();
  auto queue = std::make_shared<chat::EventQueue>();
  auto running = model.start(request, queue);
  if (!running) return complain(complaint_of(running.error()));
  message::Fold fold;
  std::optional<std::chrono::steady_clock::time_point> latest;
  while (true) {
    // The first signal cancels the run, and the answer tells what was spent; if the run does not
    // end within kPatience, the program ends without that.
    if (interruption.token().is_cancelled() && !latest) {
      latest = std::chrono::steady_clock::now() + kPatience;
      (*running)->cancel();
    }
    for (const message::ChatEvent& event : queue->wait(kMoment)) {
      fold.add(event);
      if (!std::holds_alternative<message::Finish>(event)) continue;
      session = text_of(fold.finish().rlm, "session");
      const int signal = interruption.signal();
      return signal > 0 ? ended_by(signal, spent(fold.finish())) : print_rlm(options, fold);
    }
    if (!options.quiet) progress.look();
    if (latest && std::chrono::steady_clock::now() > *latest) {
      std::_Exit(ended_by(interruption.signal(), ""));
    }
  }
}

int run_rlm(const RlmOptions& options) {
  const auto is_empty = [](const std::string& question) {
    return question.find_first_not_of(" \t\r\n") == std::string::npos;
  };
  if (std::ranges::any_of(options.questions, is_empty)) {
    return complain({kUsage, "a question is empty: say what to find out"});
  }
  const auto config = recursive_config(options.choice);
  if (!config) return complain(config.error());
  auto chosen = choose_recursive(options.choice, *config);
  if (!chosen) return complain(chosen.error());
  const auto request = rlm_request_of(options);
  if (!request) return complain(request.error());

  std::shared_ptr<rlm::TraceFile> trace;
  if (!options.trace.empty()) {
    auto opened = rlm::TraceFile::open(options.trace, rlm::TraceFile::Mode::replace);
    if (!opened) return complain({kBadInput, opened.error().message});
    trace = *std::move(opened);
  }
  View view(has_colours() && isatty(STDERR_FILENO) == 1);
  const bool is_live = !options.quiet && isatty(STDERR_FILENO) == 1;
  Progress progress;
  chosen->listener = [&](const json::Object& event) {
    progress.add(event);
    if (trace != nullptr) trace->add(event);
    if (is_live) view.show(event);
  };
  const auto model = config::load_recursive(*config, *std::move(chosen));
  if (!model) return complain(model.error());
  std::string session;
  int status = answer(options, **model, *request, progress, session);
  for (std::size_t i = 1; i < options.questions.size(); ++i) {
    if (status != kOk && status != kNegative) return status;
    const int next = answer(options, **model, next_request(*request, options.questions[i], session),
                            progress, session);
    // A limit that an earlier question has reached stays the status, unless a later one fails.
    status = next == kOk ? status : next;
  }
  return status;
}

}  // namespace

Command add_rlm(App tenon) {
  const App app = tenon.add_subcommand(
      "rlm", "Answers a question about a context of any length by a recursive model");
  auto options = std::make_shared<RlmOptions>();
  app.add_option("question", options->questions,
                 "What to find out; further questions go on with the context and the variables")
      .required();
  const Option context =
      app.add_option("--context", options->context,
                     "File with the context, - for stdin; several files are a list of texts")
          .allow_extra_args(false);
  app.add_flag("--files", options->names_files,
               "The context is a dict from the name of each --context to its text");
  app.add_option("--json-context", options->json_context,
                 "File with a JSON value that is the context, as a dict or a list")
      .excludes(context);
  add_recursive_choice(app, options->choice);
  app.add_option("--trace", options->trace, "File for what happens, as JSON lines");
  app.add_option("--max-iterations", options->max_iterations, "Turns of the root model");
  app.add_option("--max-depth", options->max_depth, "2: rlm_query begins runs of its own");
  app.add_option("--cell-timeout", options->cell_timeout, "Seconds for a block of code");
  app.add_option("--compact-at", options->compact_at,
                 "Part of the root model's context at which earlier turns are summed up; 0: never");
  app.add_flag("--json", options->json, "The answer, with what it took, as a JSON object");
  app.add_flag("-q,--quiet", options->quiet, "Nothing but the answer");
  app.footer(
      "On a terminal the turns are shown as they happen (stderr); the answer goes to stdout.\n"
      "Exit status 1: a limit was reached, and the answer is what there was until then.\n"
      "docs/rlm.md explains how it works.\n"
      "Example:\n  tenon rlm --config tenon.toml --context book.txt \"Who is the murderer?\"");
  return {app, [options] { return run_rlm(*options); }};
}

}  // namespace tenon::app
