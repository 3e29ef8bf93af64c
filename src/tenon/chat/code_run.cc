#include "tenon/chat/code_run.h"

#include <algorithm>
#include <iterator>

#include "tenon/base/ids.h"
#include "tenon/base/log.h"
#include "tenon/json/value.h"

// A run has three kinds of threads: the interpreter's, which calls ask() and end(); those of tools
// that run here, which call answered(); and the interpreter's alarms. The lock is held for the
// run's own members only: calls to the interpreter, to tools and to `done` are made without it.
//
// Calls and their answers are found again by name and arguments (key_of), the first one first. A
// client may have written the arguments anew, with members in another order and 1 instead of 1.0.

namespace tenon::chat {
namespace {

using Clock = std::chrono::steady_clock;
using message::CodeCall;
using message::ToolCall;

json::Value with_plain_numbers(const json::Value& value) {
  if (const json::Array* const items = value.if_array()) {
    json::Array out;
    for (const json::Value& item : *items) out.push_back(with_plain_numbers(item));
    return out;
  }
  if (const json::Object* const members = value.if_object()) {
    json::Object out;
    for (const json::Member& member : *members) {
      out.set(member.key, with_plain_numbers(member.value));
    }
    return out;
  }
  if (const json::Number* const number = value.if_number(); number != nullptr) {
    if (const auto integer = number->to_int64()) return json::Value(*integer);
  }
  return value;
}

std::string key_of(const std::string& tool, const std::string& arguments) {
  const auto value = json::parse(arguments);
  return tool + '\n' +
         (value ? json::dumps(with_plain_numbers(*value), {.sort_keys = true}) : arguments);
}

Expected<std::string> text_of(const ToolResult& result) {
  if (result.is_error) return Unexpected(Error{Errc::unavailable, result.output});
  return result.output;
}

CodeOutcome failed(const std::string& why) {
  return {.result = {.out = {}, .err = "Error: " + why, .is_error = true}, .waits = {}, .ran = {}};
}

}  // namespace

void CodeNotes::keep(const std::vector<ToolCall>& calls,
                     std::shared_ptr<const CodeAnswers> answers) {
  std::size_t bytes = 0;
  for (const auto& [key, result] : *answers) bytes += key.size() + result.output.size();
  const std::lock_guard lock(mutex_);
  for (const ToolCall& call : calls) {
    // They share the answers, which are counted once.
    entries_.push_back({call.id, answers, std::exchange(bytes, 0)});
    bytes_ += entries_.back().bytes;
  }
  while (entries_.size() > kMaxEntries || bytes_ > kMaxBytes) {
    bytes_ -= entries_.front().bytes;
    entries_.pop_front();
  }
}

std::shared_ptr<const CodeAnswers> CodeNotes::find(const std::string& call_id) const {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(entries_, call_id, &Entry::id);
  return found == entries_.end() ? nullptr : found->answers;
}

CodeRun::CodeRun(std::shared_ptr<CodeInterpreter> interpreter, Options options, Done done)
    : interpreter_(std::move(interpreter)),
      options_(std::move(options)),
      done_(std::move(done)),
      check_(nullptr, {}, options_.schemas) {}

void CodeRun::start(std::shared_ptr<CodeInterpreter> interpreter, Options options, Done done) {
  const std::shared_ptr<CodeRun> run(
      new CodeRun(std::move(interpreter), std::move(options), std::move(done)));
  run->begin();
}

void CodeRun::begin() {
  bool has_own = false;  // it may call tools that run here
  for (const message::Tool& tool : options_.functions->tools()) {
    has_own = has_own || options_.runs_here(tool.name);
  }
  // The last wait has the notes of all before it.
  std::shared_ptr<const CodeAnswers> notes;
  if (!options_.earlier.empty()) notes = options_.notes->find(options_.earlier.back().call.id);
  if (!options_.earlier.empty() && has_own && notes == nullptr) {
    return done_(failed(
        "what this code did before it waited is not known any more, so it was not gone on with. "
        "Nothing was called again. Run it anew if that does no harm."));
  }
  if (notes != nullptr) known_ = answers_ = *notes;
  for (const CodeCall& call : options_.earlier) {
    if (!call.result) continue;
    known_.emplace_back(
        key_of(call.call.name, call.call.arguments),
        ToolResult{
            .tool_call_id = call.call.id, .output = *call.result, .is_error = call.is_error});
  }
  used_.resize(known_.size());
  const auto self = shared_from_this();
  auto started = interpreter_->start(
      {.functions = options_.functions->source(),
       .code = options_.code,
       .limits = options_.limits,
       .cancel = options_.cancel,
       .ask =
           [self](std::string tool, std::string arguments, const CodeInterpreter::Answer& answer) {
             self->ask(std::move(tool), std::move(arguments), answer);
           },
       .done = [self](Expected<CodeResult> result) { self->end(std::move(result)); }});
  if (!started) return done_(failed(started.error().message));
  std::shared_ptr<void> deadline;
  if (options_.deadline != Clock::time_point::max()) {
    deadline = interpreter_->alarm(options_.deadline, [stop = *started] { stop(); });
  }
  bool is_paused = false;
  {
    const std::lock_guard lock(mutex_);
    if (!is_over_) {
      stop_ = *started;
      deadline_ = std::move(deadline);
    }
    is_paused = is_paused_;
  }
  if (is_paused) (*started)();  // it was to stop before it was known how
}

// Why a call is not made; "": it is. Called with the lock.
std::string CodeRun::refusal_of(const std::string& tool, std::string_view arguments) {
  if (++calls_ > options_.limits.max_calls) {
    return "this run has made the " + std::to_string(options_.limits.max_calls) +
           " calls that it may make";
  }
  bytes_ += arguments.size();
  if (bytes_ > options_.limits.max_bytes) {
    return "the arguments and results of this run's calls have reached the limit of " +
           std::to_string(options_.limits.max_bytes) + " bytes";
  }
  if (tool == CodeFunctions::kDocs) return {};
  const message::Tool* const known = options_.functions->find(tool);
  if (known == nullptr) return "there is no tool " + json::quoted(tool) + " that code may call";
  const auto read = json::parse(arguments);
  if (!read || read->if_object() == nullptr) {
    return "the arguments of " + tool + " are not a JSON object";
  }
  return check_.fault(tool, known->parameters, arguments);
}

void CodeRun::ask(std::string tool, std::string arguments, const CodeInterpreter::Answer& answer) {
  ToolCall call{.id = {}, .name = std::move(tool), .arguments = std::move(arguments)};
  std::optional<Expected<std::string>> given;
  bool is_ours = false;
  std::string key;
  {
    const std::lock_guard lock(mutex_);
    if (is_over_ || is_paused_) return;  // the code has ended, or will in a moment
    if (std::string why = refusal_of(call.name, call.arguments); !why.empty()) {
      given = Unexpected(Error{Errc::invalid, std::move(why)});
    } else if (call.name == CodeFunctions::kDocs) {
      const auto query = json::parse(call.arguments);
      const json::Value* const words = query ? query->find("query") : nullptr;
      given = options_.functions->docs(
          words != nullptr && words->if_string() != nullptr ? *words->if_string() : "");
    } else {
      key = key_of(call.name, call.arguments);
      for (std::size_t i = 0; i < known_.size() && !given; ++i) {
        if (used_[i] || known_[i].first != key) continue;
        used_[i] = true;
        bytes_ += known_[i].second.output.size();
        given = text_of(known_[i].second);
      }
      call.id = random_id(options_.id_prefix);
      is_ours = options_.runs_here(call.name);
      if (!given && is_ours) ++running_;
      if (!given && !is_ours) waits_.push_back(call);
    }
  }
  if (given) return answer(std::move(*given));
  if (!is_ours) return settle_later();
  options_.run_here(call, [self = shared_from_this(), key, call, answer](ToolResult result) {
    self->answered(key, call, std::move(result), answer);
  });
}

void CodeRun::answered(const std::string& key, ToolCall call, ToolResult result,
                       const CodeInterpreter::Answer& answer) {
  Expected<std::string> text = text_of(result);
  bool settles = false;
  {
    const std::lock_guard lock(mutex_);
    --running_;
    bytes_ += result.output.size();
    if (bytes_ > options_.limits.max_bytes) {
      text = Unexpected(
          Error{Errc::limit_exceeded, "the results of this run's calls have reached the limit of " +
                                          std::to_string(options_.limits.max_bytes) + " bytes"});
    }
    answers_.emplace_back(key, result);
    ran_.emplace_back(std::move(call), std::move(result));
    settles = !waits_.empty();
  }
  answer(std::move(text));
  if (settles) settle_later();
}

// Each call of the client's begins the wait anew.
void CodeRun::settle_later() {
  auto alarm = interpreter_->alarm(Clock::now() + kSettle, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->settle();
  });
  const std::lock_guard lock(mutex_);
  alarm_.swap(alarm);  // the earlier one ends without the lock
}

void CodeRun::settle() {
  CodeInterpreter::Stop stop;
  {
    const std::lock_guard lock(mutex_);
    // A call that runs here settles when it has ended.
    if (is_over_ || is_paused_ || waits_.empty() || running_ > 0) return;
    is_paused_ = true;
    stop = stop_;
  }
  if (stop) stop();
}

void CodeRun::end(Expected<CodeResult> result) {
  CodeOutcome outcome;
  Done done;
  std::shared_ptr<void> alarms[2];  // end without the lock
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
    stop_ = nullptr;
    alarms[0] = std::move(alarm_);
    alarms[1] = std::move(deadline_);
    done = std::move(done_);
    outcome.ran = std::move(ran_);
    if (is_paused_ && !result) {
      outcome.waits = std::move(waits_);
      // The others are made again when the code runs anew.
      if (!options_.parallel) outcome.waits.resize(1);
      options_.notes->keep(outcome.waits, std::make_shared<const CodeAnswers>(std::move(answers_)));
    } else if (!result) {
      outcome.result = failed(result.error().message).result;
    } else {
      outcome.result = *std::move(result);
    }
  }
  done(std::move(outcome));
}

}  // namespace tenon::chat
