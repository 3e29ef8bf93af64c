#include "tenon/chat/code_run.h"

#include <algorithm>
#include <set>

#include "tenon/base/ids.h"
#include "tenon/json/value.h"
#include "tenon/schema/values.h"

// A run has three kinds of threads: the interpreter's, which calls ask() and end(); those of tools
// that run here, which call answered(); and the interpreter's alarms. The lock is held for the
// run's own members only: calls to the interpreter, to tools and to `done` are made without it, and
// arguments are read and validated without it, because all runs have one thread for their alarms.
//
// Calls and their answers are found again by name and arguments (key_of), the first one first. A
// client may have written the arguments anew, with members in another order and 1 instead of 1.0.
// A new call of a tool that runs here is held until all known answers of that tool are asked for:
// it may be one of them that a clock has changed, and must not be made twice.
//
// The result waits for calls that still run here (tell), so that each is told and audited.

namespace tenon::chat {
namespace {

using Clock = std::chrono::steady_clock;
using message::CodeCall;
using message::ToolCall;

std::string key_of(const std::string& tool, const std::string& arguments) {
  const auto value = json::parse(arguments);
  return tool + '\n' + (value ? schema::canonical_text(*value) : arguments);
}

std::string tool_of(const std::string& key) {
  return key.substr(0, key.find('\n'));
}

Expected<std::string> text_of(const ToolResult& result) {
  if (result.is_error) return Unexpected(Error{Errc::unavailable, result.output});
  return result.output;
}

CodeOutcome failed(const std::string& why) {
  return {.result = {.out = {}, .err = "Error: " + why, .is_error = true}};
}

}  // namespace

void CodeNotes::keep(const std::string& owner, const std::vector<ToolCall>& calls,
                     std::shared_ptr<const CodeAnswers> answers) {
  Entry entry{.owner = owner, .call_ids = {}, .answers = std::move(answers)};
  for (const auto& [key, result] : *entry.answers) entry.bytes += key.size() + result.output.size();
  for (const ToolCall& call : calls) {
    entry.call_ids.push_back(call.id);
    entry.bytes += call.id.size();
  }
  const std::lock_guard lock(mutex_);
  bytes_ += entry.bytes;
  entries_.push_back(std::move(entry));
  while (entries_.size() > kMaxEntries || bytes_ > kMaxBytes) {
    bytes_ -= entries_.front().bytes;
    entries_.pop_front();
  }
}

std::shared_ptr<const CodeAnswers> CodeNotes::find(const std::string& owner,
                                                   const std::string& call_id) const {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(entries_, [&](const Entry& entry) {
    return entry.owner == owner &&
           std::ranges::find(entry.call_ids, call_id) != entry.call_ids.end();
  });
  return found == entries_.end() ? nullptr : found->answers;
}

void CodeNotes::forget(const std::string& owner, const std::vector<CodeCall>& calls) {
  std::set<std::string_view> ids;
  for (const CodeCall& call : calls) ids.insert(call.call.id);
  const std::lock_guard lock(mutex_);
  std::erase_if(entries_, [&](const Entry& entry) {
    const bool is_theirs =
        entry.owner == owner &&
        std::ranges::any_of(entry.call_ids, [&](const auto& id) { return ids.contains(id); });
    if (is_theirs) bytes_ -= entry.bytes;
    return is_theirs;
  });
}

CodeRun::CodeRun(std::shared_ptr<CodeInterpreter> interpreter, Options options, Done done)
    : interpreter_(std::move(interpreter)),
      options_(std::move(options)),
      check_(nullptr, {}, options_.schemas),
      done_(std::move(done)) {}

void CodeRun::start(std::shared_ptr<CodeInterpreter> interpreter, Options options, Done done) {
  const std::shared_ptr<CodeRun> run(
      new CodeRun(std::move(interpreter), std::move(options), std::move(done)));
  run->begin();
}

void CodeRun::begin() {
  has_own_ = std::ranges::any_of(options_.functions->tools(), [this](const message::Tool& tool) {
    return options_.runs_here(tool.name);
  });
  // The last wait has the notes of all before it.
  std::shared_ptr<const CodeAnswers> notes;
  if (!options_.earlier.empty() && has_own_) {
    notes = options_.notes->find(options_.owner, options_.earlier.back().call.id);
  }
  if (!options_.earlier.empty() && has_own_ && notes == nullptr) {
    return done_(failed(
        "what this code did before it waited is not known any more, so the run was ended. Nothing "
        "was called again. Run it anew if that does no harm."));
  }
  if (notes != nullptr) {
    answers_ = *notes;
    for (const auto& [key, result] : answers_) know(key, tool_of(key), result);
  }
  for (const CodeCall& call : options_.earlier) {
    if (!call.result) continue;
    know(key_of(call.call.name, call.call.arguments), call.call.name,
         {.tool_call_id = call.call.id, .output = *call.result, .is_error = call.is_error});
  }
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
  if (!started) {
    // What the client has sent would be lost, so that it may send it again.
    if (!options_.earlier.empty()) return done_({.not_run = started.error()});
    return done_(failed(started.error().message));
  }
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

void CodeRun::know(const std::string& key, const std::string& tool, const ToolResult& result) {
  known_[key].push_back(result);
  if (options_.runs_here(tool)) ++own_known_[tool];
}

std::string CodeRun::over_bytes() const {
  return "the arguments and results of this run's calls have reached the limit of " +
         std::to_string(options_.limits.max_bytes) + " bytes";
}

// Counts a call with so many bytes of arguments. Why it is not made; "": nothing is against it.
std::string CodeRun::count(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  if (++calls_ > options_.limits.max_calls) {
    return "this run has made the " + std::to_string(options_.limits.max_calls) +
           " calls that it may make";
  }
  bytes_ += bytes;
  return bytes_ > options_.limits.max_bytes ? over_bytes() : "";
}

// Why a call cannot be made; "": it can.
std::string CodeRun::refusal_of(const ToolCall& call) {
  const message::Tool* const known = options_.functions->find(call.name);
  if (known == nullptr) {
    return "there is no tool " + json::quoted(call.name) + " that code may call";
  }
  const auto read = json::parse(call.arguments);
  if (!read || read->if_object() == nullptr) {
    return "the arguments of " + call.name + " are not a JSON object";
  }
  return check_.fault(call.name, known->parameters, call.arguments);
}

// The answer that a call had before the code waited. Called with the lock.
std::optional<Expected<std::string>> CodeRun::take_known(const std::string& key,
                                                         const std::string& tool) {
  const auto found = known_.find(key);
  if (found == known_.end()) return std::nullopt;
  const ToolResult result = std::move(found->second.front());
  found->second.pop_front();
  if (found->second.empty()) known_.erase(found);
  const auto own = own_known_.find(tool);
  if (own != own_known_.end() && --own->second == 0) own_known_.erase(own);
  bytes_ += result.output.size();
  if (bytes_ > options_.limits.max_bytes) {
    return Unexpected(Error{Errc::limit_exceeded, over_bytes()});
  }
  return text_of(result);
}

// The held calls that can be no call of before. Called with the lock.
std::vector<CodeRun::Own> CodeRun::take_ready() {
  std::vector<Own> ready;
  std::vector<Own> held;
  for (Own& own : held_) {
    (own_known_.contains(own.call.name) ? held : ready).push_back(std::move(own));
  }
  held_ = std::move(held);
  running_ += ready.size();
  return ready;
}

void CodeRun::ask(std::string tool, std::string arguments, const CodeInterpreter::Answer& answer) {
  ToolCall call{.id = {}, .name = std::move(tool), .arguments = std::move(arguments)};
  std::string why = count(call.arguments.size());
  if (why.empty() && call.name == CodeFunctions::kDocs) {
    const auto query = json::parse(call.arguments);
    const json::Value* const words = query ? query->find("query") : nullptr;
    return answer(options_.functions->docs(
        words != nullptr && words->if_string() != nullptr ? *words->if_string() : ""));
  }
  if (why.empty()) why = refusal_of(call);
  if (!why.empty()) return answer(Unexpected(Error{Errc::invalid, std::move(why)}));
  const std::string key = key_of(call.name, call.arguments);
  call.id = random_id(options_.id_prefix);
  const bool is_own = options_.runs_here(call.name);
  std::optional<Expected<std::string>> given;
  std::vector<Own> ready;
  bool settles = false;
  {
    const std::lock_guard lock(mutex_);
    if (is_over_ || is_paused_) return;  // the code has ended, or will in a moment
    given = take_known(key, call.name);
    if (!given && is_own) held_.push_back({.key = key, .call = call, .answer = answer});
    if (!given && !is_own) waits_.push_back(call);
    ready = take_ready();
    settles = !waits_.empty() || !held_.empty();
  }
  if (given) answer(std::move(*given));
  for (Own& own : ready) run_here(std::move(own));
  if (settles) settle_later();
}

void CodeRun::run_here(Own own) {
  const ToolCall call = own.call;
  options_.run_here(call, [self = shared_from_this(), own = std::move(own)](ToolResult result) {
    self->answered(own, std::move(result));
  });
}

void CodeRun::answered(const Own& own, ToolResult result) {
  ToolResult told = result;  // and told again when the code runs anew
  bool settles = false;
  bool is_last = false;
  {
    const std::lock_guard lock(mutex_);
    --running_;
    bytes_ += result.output.size();
    if (bytes_ > options_.limits.max_bytes) {
      told.output = over_bytes();
      told.is_error = true;
    }
    answers_.emplace_back(own.key, told);
    ran_.emplace_back(own.call, std::move(result));
    settles = !waits_.empty() || !held_.empty();
    is_last = result_ && running_ == 0;
  }
  own.answer(text_of(told));
  if (is_last) return tell();
  if (settles) settle_later();
}

// Each call begins the wait anew.
void CodeRun::settle_later() {
  std::chrono::milliseconds wait = kSettle;
  {
    const std::lock_guard lock(mutex_);
    if (!known_.empty()) wait = kSettleAnew;
  }
  auto alarm = interpreter_->alarm(Clock::now() + wait, [weak = weak_from_this()] {
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
    const bool is_silent = waits_.empty() && held_.empty();
    if (is_over_ || is_paused_ || is_silent || running_ > 0) return;
    is_paused_ = true;
    if (!known_.empty()) {
      changed_ = "this code did something else than before it waited: a call of " +
                 json::quoted(tool_of(known_.begin()->first)) +
                 " was not made again, so the run was ended. What code calls must not depend on "
                 "clocks, random names or the like.";
    }
    stop = stop_;
  }
  if (stop) stop();
}

void CodeRun::end(Expected<CodeResult> result) {
  std::shared_ptr<void> alarms[2];  // end without the lock, as what was held does
  std::vector<Own> held;
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
    stop_ = nullptr;
    alarms[0] = std::move(alarm_);
    alarms[1] = std::move(deadline_);
    held.swap(held_);
    result_ = std::move(result);
    if (running_ > 0) return;  // the last of those calls tells
  }
  tell();
}

// The code is over, and no call of it runs.
void CodeRun::tell() {
  CodeOutcome outcome;
  Done done;
  CodeAnswers answers;
  {
    const std::lock_guard lock(mutex_);
    done = std::move(done_);
    answers = std::move(answers_);
    outcome.ran = std::move(ran_);
    if (*result_) {
      outcome.result = **std::move(result_);
    } else if (!changed_.empty()) {
      outcome.result = failed(changed_).result;
    } else if (is_paused_) {
      outcome.waits = std::move(waits_);
      // The others are made again when the code runs anew.
      if (!options_.parallel) outcome.waits.resize(1);
    } else {
      outcome.result = failed(result_->error().message).result;
    }
  }
  if (has_own_) {
    options_.notes->forget(options_.owner, options_.earlier);
    if (!outcome.waits.empty()) {
      options_.notes->keep(options_.owner, outcome.waits,
                           std::make_shared<const CodeAnswers>(std::move(answers)));
    }
  }
  done(std::move(outcome));
}

}  // namespace tenon::chat
