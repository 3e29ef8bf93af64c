#include "tenon/rlm/repl.h"

#include <algorithm>
#include <cerrno>
#include <map>
#include <mutex>
#include <utility>

#include <sys/eventfd.h>
#include <unistd.h>

#include "tenon/base/utf8.h"
#include "tenon/rlm/spawn.h"

// The host's side of a REPL. The protocol is a frame of JSON in each direction: a command (load,
// run, variable, ...), then its answer. While a cell runs, the worker also sends questions
// (start_call), several at a time if its code has threads; the answers come from other threads and
// are passed through Inbox, which wakes the thread that waits for the worker.
//
// run() is the loop of a cell: it waits for a frame or an answer, whichever comes first, forwards
// both, and watches the time. CellClock measures the clock while the cell computes and the worker's
// CPU time while the cell waits for answers, so a slow sub-model does not use up a cell's time. At
// the limit the worker is interrupted once, and killed if it does not stop.
//
// The code of a cell can change the worker's own Python, so every frame is treated as hostile: its
// size, the number of open questions, and the length of every text are checked here again.

namespace tenon::rlm {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::chrono::seconds kSendWait{30};    // for a worker to take a short command
constexpr std::chrono::milliseconds kLook{200};  // the longest interval for checking CPU time
// And the shortest, because CPU time may not advance.
constexpr std::chrono::milliseconds kMoment{10};
constexpr std::size_t kBytesPerSecond = std::size_t{20} << 20;  // the least speed of a load
constexpr std::size_t kMaxOpenCalls = 256;  // one for each thread, and threads are bounded too
constexpr std::size_t kMaxStaleFrames = 256;
constexpr std::size_t kEnvelope = 1024;  // bytes of a frame besides its texts

std::string text_of(const json::Value& frame, std::string_view key) {
  const json::Value* value = frame.find(key);
  return value != nullptr && value->if_string() != nullptr ? *value->if_string() : "";
}

// 0 for a member that is missing, negative or no number: a cell may have written the frame.
std::size_t count_of(const json::Value& frame, std::string_view key) {
  const json::Value* value = frame.find(key);
  if (value == nullptr || value->if_number() == nullptr) return 0;
  return static_cast<std::size_t>(
      std::max<std::int64_t>(0, value->if_number()->to_int64().value_or(0)));
}

bool is_op(const json::Value& frame, std::string_view op) {
  return text_of(frame, "op") == op;
}

// 1500 ms is "1.5 s", 60000 ms is "60 s".
std::string seconds_text(milliseconds time) {
  std::string text = std::to_string(static_cast<double>(time.count()) / 1000);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text + " s";
}

// The first `most` characters; `cut` grows by the number of characters that are missing.
std::string first_of(std::string text, std::size_t most, std::size_t* cut = nullptr) {
  if (text.size() <= most) return text;
  std::size_t bytes = 0;
  for (std::size_t chars = 0; chars < most && bytes < text.size(); ++chars) {
    bytes += std::max<std::size_t>(utf8::decode(std::string_view(text).substr(bytes)).length, 1);
  }
  if (cut != nullptr) *cut += utf8::length(std::string_view(text).substr(bytes));
  text.resize(std::min(bytes, text.size()));
  return text;
}

std::string error_of(const json::Value& frame) {
  return first_of(text_of(frame, "error"), Repl::kMaxErrorChars);
}

// The most bytes that the text can have in JSON.
std::size_t escaped_size(std::string_view text) {
  std::size_t size = text.size() + 3;
  for (const char byte : text) {
    if (byte == '"' || byte == '\\' || byte == '\n' || byte == '\t') {
      size += 1;
    } else if (static_cast<unsigned char>(byte) < 0x20 || byte == 0x7F) {
      size += 5;
    }
  }
  return size;
}

json::Array names_of(std::span<const std::string> names) {
  return {names.begin(), names.end()};
}

}  // namespace

// Passes answers from any threads to the thread that runs the cell.
class Repl::Inbox {
 public:
  using Id = std::uint64_t;

  Inbox() : wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

  void put(Id id, std::vector<std::string> texts) {
    {
      const std::lock_guard lock(mutex_);
      const auto call = open_.find(id);
      if (call == open_.end() || call->second.is_answered) return;  // the cell is over
      call->second.is_answered = true;
      // The worker's code indexes the list by its prompts, so its length must be theirs.
      texts.resize(call->second.prompts, "Error: there is no answer");
      answers_.emplace_back(id, std::move(texts));
    }
    ring();
  }
  /// False: the id is in use.
  bool open(Id id, std::size_t prompts) {
    const std::lock_guard lock(mutex_);
    return open_.emplace(id, Call{prompts}).second;
  }
  std::vector<std::pair<Id, std::vector<std::string>>> take() {
    std::uint64_t count = 0;
    [[maybe_unused]] const auto read = ::read(wake_.get(), &count, sizeof(count));
    const std::lock_guard lock(mutex_);
    for (const auto& [id, texts] : answers_) open_.erase(id);
    return std::exchange(answers_, {});
  }
  void close_all() {
    take();
    const std::lock_guard lock(mutex_);
    open_.clear();
  }
  [[nodiscard]] std::size_t open_calls() const {
    const std::lock_guard lock(mutex_);
    return open_.size();
  }
  void ring() const {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = write(wake_.get(), &one, sizeof(one));
  }
  [[nodiscard]] int wake() const { return wake_.get(); }
  [[nodiscard]] const CancelToken& stop() const { return stop_; }

 private:
  // A question of the cell that has no answer yet, and the number of its prompts.
  struct Call {
    std::size_t prompts;
    bool is_answered = false;
  };
  mutable std::mutex mutex_;
  // Taken out by take(): until then a question counts as open, although its answer may be there.
  std::map<Id, Call> open_;
  std::vector<std::pair<Id, std::vector<std::string>>> answers_;
  // An eventfd: readable while there are answers or interrupt() was called.
  Descriptor wake_;
  CancelToken stop_;
};

// The time that a cell has left: the clock's, except while a question is open. Then the worker's
// CPU time counts, because a thread that waits for an answer must not let other threads compute for
// free.
class Repl::CellClock {
 public:
  CellClock(const Worker& worker, Clock::duration left)
      : worker_(&worker), left_(left), now_(Clock::now()), cpu_(worker.cpu_time()) {}

  /// When to check again.
  [[nodiscard]] TimePoint next(bool is_asking) const {
    return now_ + (is_asking ? std::clamp<Clock::duration>(left_, kMoment, kLook) : left_);
  }
  /// Counts the time since the last call.
  void tick(bool is_asking) {
    const TimePoint now = Clock::now();
    const std::chrono::nanoseconds cpu = worker_->cpu_time();
    // The worker's CPU time is 0 once it has ended, and must not give time back.
    left_ -= is_asking ? std::max(cpu - cpu_, std::chrono::nanoseconds(0)) : now - now_;
    now_ = now;
    cpu_ = cpu;
  }
  [[nodiscard]] bool is_over() const { return left_ <= Clock::duration(0); }

 private:
  const Worker* worker_;
  Clock::duration left_;
  TimePoint now_;
  std::chrono::nanoseconds cpu_;
};

Repl::Repl(std::unique_ptr<Worker> worker)
    : worker_(std::move(worker)), inbox_(std::make_shared<Inbox>()) {}
Repl::~Repl() = default;

// Interrupts the worker once, at the deadline.
Expected<json::Value> Repl::answer_of(std::string_view op, const Wait& wait, milliseconds grace) {
  Wait now = wait;
  bool is_stopped = false;
  // A thread of an earlier cell may have sent a question at its last moment.
  for (std::size_t stale = 0; stale < kMaxStaleFrames; ++stale) {
    auto frame = worker_->receive(now);
    if (!frame && frame.error().code == Errc::limit_exceeded && !is_stopped) {
      is_stopped = true;
      now.deadline = Clock::now() + grace;
      worker_->interrupt();
      continue;
    }
    if (!frame) {
      kill();
      return frame;
    }
    // receive() returns null only if a token was set: this wait has no descriptor to wake it.
    if (frame->is_null()) {
      kill();
      return Unexpected(Error{Errc::unavailable, "the session was interrupted"});
    }
    if (is_op(*frame, "failed") && is_stopped && text_of(*frame, "kind") == "KeyboardInterrupt") {
      return Unexpected(Error{Errc::limit_exceeded, "it was stopped at its time limit"});
    }
    if (is_op(*frame, op) || is_op(*frame, "failed")) return frame;
    // A question that came too late is dropped; its thread ends with the next cell (stop_threads in
    // worker.py).
    if (!is_op(*frame, "call")) break;
  }
  kill();
  return Unexpected(Error{Errc::invalid, "the worker broke the protocol: another answer than \"" +
                                             std::string(op) + "\""});
}

// Sends one frame and waits for its answer, named by `answer` ("seeded", "value"). A "failed" of
// the worker becomes Errc::invalid and leaves the worker alive.
Expected<json::Value> Repl::command(const json::Object& frame, std::string_view answer,
                                    const CellLimits& limits, const CancelToken* cancel) {
  const Wait wait{
      .deadline = Clock::now() + limits.wall, .cancel = cancel, .stop = &inbox_->stop()};
  if (Status sent = worker_->send(json::to_string(frame), wait); !sent) {
    kill();
    return Unexpected(sent.error());
  }
  auto reply = answer_of(answer, wait, limits.grace);
  if (reply && is_op(*reply, "failed")) {
    return Unexpected(Error{Errc::invalid, error_of(*reply)});
  }
  return reply;
}

Expected<Loaded> Repl::load(std::span<const std::string> names, std::string_view kind,
                            std::span<const std::string_view> texts, const CellLimits& limits,
                            const CancelToken* cancel) {
  std::size_t bytes = 0;
  json::Array sizes;
  for (const std::string_view text : texts) {
    bytes += text.size();
    sizes.emplace_back(std::uint64_t{text.size()});
  }
  const json::Object header{
      {"op", "load"}, {"names", names_of(names)}, {"kind", kind}, {"sizes", std::move(sizes)}};
  const Wait wait{
      .deadline = Clock::now() + limits.wall + std::chrono::seconds(bytes / kBytesPerSecond),
      .cancel = cancel,
      .stop = &inbox_->stop()};
  // A pipe holds 64 KiB; with 1 MiB the two processes change places less often while a context of
  // many megabytes passes.
  worker_->widen(true);
  Status sent = worker_->send(json::to_string(header), wait);
  for (std::size_t i = 0; sent && i < texts.size(); ++i) sent = worker_->send_bytes(texts[i], wait);
  if (!sent) {
    kill();
    return Unexpected(sent.error());
  }
  const auto answer = answer_of("loaded", wait, limits.grace);
  if (!answer) return Unexpected(answer.error());
  worker_->widen(false);
  if (is_op(*answer, "failed")) {
    const bool is_memory = text_of(*answer, "kind") == "MemoryError";
    return Unexpected(is_memory ? Error{Errc::limit_exceeded,
                                        "the worker's memory does not hold what is loaded (" +
                                            std::to_string(bytes) + " bytes); allow it more"}
                                : Error{Errc::invalid, error_of(*answer)});
  }
  return Loaded{first_of(text_of(*answer, "type"), kMaxNameChars), count_of(*answer, "length")};
}

Expected<Loaded> Repl::load_text(std::span<const std::string> names, std::string_view text,
                                 const CellLimits& limits, const CancelToken* cancel) {
  return load(names, "text", {&text, 1}, limits, cancel);
}
Expected<Loaded> Repl::load_list(std::span<const std::string> names,
                                 std::span<const std::string_view> texts, const CellLimits& limits,
                                 const CancelToken* cancel) {
  return load(names, "list", texts, limits, cancel);
}
Expected<Loaded> Repl::load_json(std::span<const std::string> names, std::string_view json,
                                 const CellLimits& limits, const CancelToken* cancel) {
  return load(names, "json", {&json, 1}, limits, cancel);
}

Status Repl::seed(std::uint64_t value, const CellLimits& limits, const CancelToken* cancel) {
  if (auto seeded = command({{"op", "seed"}, {"value", value}}, "seeded", limits, cancel);
      !seeded) {
    return Unexpected(seeded.error());
  }
  return {};
}

Status Repl::define(std::string_view source, const CellLimits& limits, const CancelToken* cancel) {
  if (auto defined = command({{"op", "functions"}, {"source", source}}, "defined", limits, cancel);
      !defined) {
    return Unexpected(defined.error());
  }
  return {};
}

// Reads {"op": "call", "id": 3, "kind": "llm", "prompts": ["..."], "model": null} and passes it on.
// The prompts are moved out of the frame, because they may be megabytes.
Status Repl::start_call(json::Value& frame, SubCalls& sub_calls, CellResult& result) {
  const auto broken = [this](std::string_view how) {
    kill();
    return Unexpected(Error{Errc::invalid, "the worker broke the protocol: " + std::string(how)});
  };
  SubCall call;
  const std::string kind = text_of(frame, "kind");
  if (kind != "llm" && kind != "rlm" && kind != "tool") return broken("a question of no kind");
  call.kind = kind == "llm"   ? SubCall::Kind::llm
              : kind == "rlm" ? SubCall::Kind::rlm
                              : SubCall::Kind::tool;
  json::Value* prompts = frame.find("prompts");
  if (prompts == nullptr || prompts->if_array() == nullptr || prompts->if_array()->empty()) {
    return broken("a question without prompts");
  }
  for (json::Value& prompt : *prompts->if_array()) {
    if (prompt.if_string() == nullptr) return broken("a prompt that is no text");
    call.prompts.push_back(std::move(*prompt.if_string()));
  }
  if (json::Value* model = frame.find("model"); model != nullptr && model->if_string() != nullptr) {
    call.model = std::move(*model->if_string());
  }
  const std::uint64_t id = count_of(frame, "id");
  if (inbox_->open_calls() >= kMaxOpenCalls) return broken("too many questions at the same time");
  if (!inbox_->open(id, call.prompts.size())) return broken("two questions with one number");
  result.sub_calls += call.prompts.size();
  sub_calls.ask(std::move(call), [inbox = inbox_, id](std::vector<std::string> texts) {
    inbox->put(id, std::move(texts));
  });
  return {};
}

// Sends what has arrived in the inbox as {"op": "reply", "id": 3, "texts": [...]}. Answers that do
// not fit in one frame become errors, because the worker would end at a longer one.
Status Repl::send_answers(const CancelToken* cancel) {
  for (auto& [id, texts] : inbox_->take()) {
    std::size_t bytes = 0;
    for (const std::string& text : texts) bytes += escaped_size(text);
    if (bytes > Worker::kMaxFrameBytes - kEnvelope) {
      for (std::string& text : texts) text = "Error: the answers are too long together";
    }
    const json::Object reply{
        {"op", "reply"}, {"id", id}, {"texts", json::Array(texts.begin(), texts.end())}};
    if (Status sent = worker_->send(
            json::to_string(reply),
            {.deadline = Clock::now() + kSendWait, .cancel = cancel, .stop = &inbox_->stop()});
        !sent) {
      kill();
      return sent;
    }
  }
  return {};
}

// Runs until the cell has ended.
Expected<json::Value> Repl::run(SubCalls& sub_calls, const CellLimits& limits,
                                const CancelToken* cancel, CellResult& result) {
  CellClock clock(*worker_, limits.wall);
  bool is_stopped = false;
  while (true) {
    // After the interrupt the clock counts in any case, so that the cell cannot win time by asking
    // again.
    const bool is_asking = !is_stopped && inbox_->open_calls() > 0;
    const Wait wait{.deadline = clock.next(is_asking),
                    .wake = inbox_->wake(),
                    .cancel = cancel,
                    .stop = &inbox_->stop()};
    auto frame = worker_->receive(wait);
    clock.tick(is_asking);
    const bool is_silent = !frame && frame.error().code == Errc::limit_exceeded;
    if (!frame && !is_silent) return frame;
    if (frame && (is_op(*frame, "done") || is_op(*frame, "failed"))) {
      result.is_timed_out = is_stopped && text_of(*frame, "kind") == "KeyboardInterrupt";
      return frame;
    }
    if (clock.is_over() && !is_stopped) {  // also if it never stops asking
      is_stopped = true;
      clock = CellClock(*worker_, limits.grace);
      worker_->interrupt();
    } else if (clock.is_over()) {
      kill();
      return Unexpected(Error{Errc::limit_exceeded,
                              "the cell ran longer than its time limit of " +
                                  seconds_text(limits.wall) +
                                  " and did not stop when it was interrupted; its worker was "
                                  "killed, and its variables are lost"});
    }
    // The deadline of this wait was only a moment to look at the CPU time.
    if (is_silent) continue;
    if (frame->is_null()) {
      if (wait.is_cancelled()) {
        kill();
        return Unexpected(Error{Errc::unavailable, "the cell was interrupted"});
      }
      if (Status sent = send_answers(cancel); !sent) return Unexpected(sent.error());
    } else if (is_op(*frame, "call")) {
      if (Status asked = start_call(*frame, sub_calls, result); !asked) {
        return Unexpected(asked.error());
      }
    } else {
      kill();
      return Unexpected(
          Error{Errc::invalid, "the worker broke the protocol: \"" + text_of(*frame, "op") + "\""});
    }
  }
}

Expected<CellResult> Repl::run_cell(std::string_view code, SubCalls& sub_calls,
                                    const CellLimits& limits, const CancelToken* cancel) {
  const TimePoint begun = Clock::now();
  const json::Object frame{{"op", "run"},
                           {"number", ++cells_},
                           {"code", code},
                           {"max_output", std::uint64_t{limits.max_output_chars}}};
  if (Status sent =
          worker_->send(json::to_string(frame),
                        {.deadline = begun + kSendWait, .cancel = cancel, .stop = &inbox_->stop()});
      !sent) {
    kill();
    return Unexpected(sent.error());
  }
  CellResult result;
  const auto done = run(sub_calls, limits, cancel, result);
  // Answers that arrive after this find no open question, and are dropped.
  inbox_->close_all();
  if (!done) return Unexpected(done.error());
  // The characters that the worker counted, less those that it sent.
  const auto cut = [&done](std::string_view key, std::string_view text_key) {
    const std::size_t all = count_of(*done, key);
    return all - std::min(all, count_of(*done, text_key));
  };
  result.out_cut = cut("stdout_size", "stdout_kept");
  result.err_cut = cut("stderr_size", "stderr_kept");
  // The worker has cut the texts already, unless a cell has changed its code.
  result.out = first_of(text_of(*done, "stdout"), limits.max_output_chars, &result.out_cut);
  result.err = first_of(text_of(*done, "stderr"), limits.max_output_chars, &result.err_cut);
  result.error = error_of(*done);
  result.error_kind = first_of(text_of(*done, "kind"), kMaxNameChars);
  if (result.is_timed_out) {
    result.error +=
        "\nThe cell was stopped at its time limit of " + seconds_text(limits.wall) + ".";
  }
  if (const json::Value* answer = done->find("final");
      answer != nullptr && answer->if_string() != nullptr) {
    result.final_answer = first_of(*answer->if_string(), limits.max_final_chars);
  }
  result.duration = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - begun);
  return result;
}

void Repl::interrupt() {
  inbox_->stop().cancel();
  inbox_->ring();
}

Expected<std::optional<std::string>> Repl::variable(std::string_view name, std::size_t max_chars,
                                                    const CellLimits& limits,
                                                    const CancelToken* cancel) {
  const auto value = command({{"op", "get"}, {"name", name}, {"max", std::uint64_t{max_chars}}},
                             "value", limits, cancel);
  if (!value) return Unexpected(value.error());
  const json::Value* found = value->find("found");
  if (found == nullptr || found->if_bool() == nullptr || !*found->if_bool()) {
    return std::optional<std::string>();
  }
  return first_of(text_of(*value, "text"), max_chars);
}

Expected<std::vector<Variable>> Repl::variables(const CellLimits& limits,
                                                const CancelToken* cancel) {
  const auto answer = command({{"op", "vars"}}, "variables", limits, cancel);
  if (!answer) return Unexpected(answer.error());
  std::vector<Variable> result;
  if (const json::Value* all = answer->find("variables"); all != nullptr && all->if_object()) {
    for (const json::Member& one : *all->if_object()) {
      if (result.size() == kMaxVariables) break;
      const std::string* type = one.value.if_string();
      result.push_back({first_of(one.key, kMaxNameChars),
                        type != nullptr ? first_of(*type, kMaxNameChars) : ""});
    }
  }
  return result;
}

bool Repl::is_alive() {
  return worker_->is_alive();
}

void Repl::kill() {
  worker_->kill();
}

}  // namespace tenon::rlm
