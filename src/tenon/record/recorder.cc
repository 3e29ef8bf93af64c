#include "tenon/record/recorder.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tenon/base/descriptor.h"
#include "tenon/base/hex.h"
#include "tenon/base/log.h"
#include "tenon/base/utf8.h"
#include "tenon/record/folder.h"

// How a recording is written
//
// The threads of an answer append lines to the buffer of its file, under the file's mutex, and
// nothing else: they never wait for the disk. One thread of the recorder goes round the open files
// five times a second, takes their buffers and writes them. An answer that has ended is written at
// once and its file is closed. Before a file is made, the oldest ones are deleted until all are
// within the limits; the folder is read once, when the recorder is opened.

namespace tenon::record {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;

constexpr std::chrono::milliseconds kRound{200};  // between two writes of an open file

std::string system_error() {
  return std::strerror(errno);  // NOLINT(concurrency-mt-unsafe): glibc's is thread-safe
}

std::string hex_of(std::string_view bytes) {
  std::string digits;
  for (const char byte : bytes) append_hex(digits, static_cast<unsigned char>(byte));
  return digits;
}

// One line being written: Line(out).text("event", "content").number("at", 5) appends
// {"event":"content","at":5} and a line feed, which the destructor writes. It goes into `out`
// directly, without a json::Object, because there is a line for each token.
class Line {
 public:
  explicit Line(std::string& out) : out_(out) { out_ += '{'; }
  ~Line() { out_ += "}\n"; }
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;

  /// Bytes that are not UTF-8 become U+FFFD.
  Line& text(std::string_view name, std::string_view value) {
    json::append_quoted(key(name), value);
    return *this;
  }
  Line& number(std::string_view name, std::int64_t value) {
    char digits[24];
    const auto end = std::to_chars(digits, std::end(digits), value).ptr;
    key(name).append(digits, end);
    return *this;
  }
  Line& flag(std::string_view name, bool value) {
    key(name) += value ? "true" : "false";
    return *this;
  }
  Line& json(std::string_view name, const json::Value& value) {
    json::append(key(name), value);
    return *this;
  }
  /// Bytes of a token: as text, or in hexadecimal digits where they are not whole characters.
  Line& bytes(std::string_view value) {
    if (utf8::is_valid(value)) return text("text", value);
    return text("hex", hex_of(value));
  }

  /// Writes the key of the next member, a name of ours that needs no escapes. The caller appends
  /// its value, which must be JSON.
  std::string& key(std::string_view name) {
    out_ += is_first_ ? "\"" : ",\"";
    is_first_ = false;
    out_ += name;
    return out_ += "\":";
  }

 private:
  std::string& out_;
  bool is_first_ = true;
};

template <class Number>
void put_numbers(std::string& out, const std::vector<Number>& numbers) {
  out += '[';
  for (const Number number : numbers) {
    if (out.back() != '[') out += ',';
    out += std::to_string(number);
  }
  out += ']';
}

std::int64_t now_us() {
  return std::chrono::duration_cast<microseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// O_NOFOLLOW: a link that lies in the folder under this name does not redirect the recording. The
// lock says that the file is being written (record/folder.cc); the kernel takes it away with the
// process, however that ends. A file system without locks does without.
int open_file(const std::string& path) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW,
                          S_IRUSR | S_IWUSR);
  if (file >= 0) static_cast<void>(::flock(file, LOCK_EX | LOCK_NB));
  return file;
}

// A failure shows when a file in it is opened.
void make_folder(const fs::path& folder) {
  std::error_code ignored;
  if (fs::create_directory(folder, ignored)) fs::permissions(folder, fs::perms::owner_all, ignored);
}

bool is_open_elsewhere(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  return file.is_open() && is_being_written(file.get());
}

// Strands inside of choices have numbers that no choice has. A recursive model asks its models
// several things at once for one choice, and the runs of each strand follow each other.
constexpr unsigned kFirstInside = 1U << 16;

}  // namespace

struct Recording::State {
  State(const RecorderOptions& chosen, std::int64_t unix_us) : options(chosen), began_us(unix_us) {}

  /// Appends the line that `write` makes. A line that would pass the limit is left out, and a line
  /// that says so is the last of the file; it may make the file a little larger than the limit.
  template <class Write>
  void add(Write write) {
    const std::lock_guard lock(mutex);
    if (is_full || is_over) return;
    const std::size_t before = waiting.size();
    write(waiting);
    if (written + waiting.size() <= options.max_file_bytes) return;
    waiting.resize(before);
    Line(waiting).text("cut", "the recording is as large as one may be");
    is_full = true;
  }
  [[nodiscard]] std::int64_t at() const {  // us since the answer began, for the member `at`
    return std::chrono::duration_cast<microseconds>(Clock::now() - began).count();
  }
  /// The present run of a strand. Call it under the lock.
  [[nodiscard]] std::uint32_t run_of(unsigned strand) const {
    const auto found = strands.find(strand);
    return found == strands.end() ? 0 : found->second.run;
  }
  /// Keeps what the last line tells. Call it under the lock.
  void note(const message::ChatEvent& event);
  void note_tool(std::string_view name);
  void fail(std::string_view message);
  /// Writes what waits. False: it failed, or the answer is over and all of it is written.
  bool write_out();

  const RecorderOptions options;
  const bool has_contents = log::content("x") == "x";  // fixed when the answer begins
  const std::int64_t began_us;
  const Clock::time_point began = Clock::now();
  std::string path;
  std::function<void()> wake;  // the recorder's thread; set before the first line

  std::mutex mutex;         // guards the members below
  std::string waiting;      // whole lines that are not in the file yet
  std::size_t written = 0;  // bytes in the file, or about to be
  bool is_full = false;     // nothing more is recorded; also after a failure to write
  bool is_over = false;     // no line may follow
  // For the last line, which tells what the answer was.
  std::uint64_t tokens = 0;
  std::uint64_t repairs = 0;
  std::uint64_t calls = 0;
  std::vector<std::string> tools;  // of the calls, the first of them
  std::size_t tool_bytes = 0;      // in `tools`
  std::string guarantee;
  std::string error;
  struct Strand {
    unsigned choice = 0;
    std::string part = {};  // "": the choice itself
    std::uint32_t run = 0;  // the present one
  };
  std::map<unsigned, Strand> strands;
  unsigned next_inside = kFirstInside;
  std::uint32_t runs = 0;  // how many there were; a run's number is its place among them
  std::map<const json::Object*, std::uint32_t> makers;    // the number of each line `made_by`
  std::vector<std::shared_ptr<const json::Object>> kept;  // so that no address comes twice

  int file = -1;  // used by the recorder's thread alone
};

void Recording::State::note_tool(std::string_view name) {
  // The last line must fit into what record/list.cc reads of a file's end.
  constexpr std::size_t kMostTools = 64;
  constexpr std::size_t kMostToolBytes = 4096;
  ++calls;
  if (tools.size() == kMostTools || tool_bytes + name.size() > kMostToolBytes) return;
  tools.emplace_back(name);
  tool_bytes += name.size();
}

void Recording::State::note(const message::ChatEvent& event) {
  if (const auto* begin = std::get_if<message::CallBegin>(&event)) {
    note_tool(begin->name);
  } else if (const auto* server_call = std::get_if<message::ServerCallBegin>(&event)) {
    note_tool(server_call->tool.tool);
  } else if (const auto* diagnostic = std::get_if<message::Diagnostic>(&event)) {
    const bool tells_a_tool =
        diagnostic->code == "ran_tool" || diagnostic->code == "remembered_tool";
    // These two report a call of ours, not something that was repaired.
    if (!tells_a_tool) ++repairs;
  } else if (const auto* finish = std::get_if<message::Finish>(&event)) {
    guarantee = message::guarantee_name(finish->guarantee);
    if (finish->reason == message::FinishReason::error) fail(finish->error.message);
  }
}

// The first message is the cause of those that follow.
void Recording::State::fail(std::string_view message) {
  constexpr std::size_t kMostBytes = 400;
  if (!error.empty()) return;
  error = utf8::sanitized(message.substr(0, kMostBytes));  // which may make it longer
  error.resize(std::min(error.size(), kMostBytes));
  error.resize(error.size() - utf8::open_tail(error));
}

// Takes the buffer under the lock and writes it without, so that a slow disk delays no token.
// is_over is read together with the buffer: no line can come after the last one that is taken.
bool Recording::State::write_out() {
  std::string bytes;
  bool ends = false;
  {
    const std::lock_guard lock(mutex);
    bytes.swap(waiting);
    written += bytes.size();
    ends = is_over;
  }
  std::string_view rest = bytes;
  while (!rest.empty()) {
    const ssize_t done = ::write(file, rest.data(), rest.size());
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) {
      log::warn("recording '" + path + "': " + system_error() + "; the rest is not recorded");
      ends = true;
      const std::lock_guard lock(mutex);
      is_full = true;
      break;
    }
    rest.remove_prefix(static_cast<std::size_t>(done));
  }
  if (ends) {
    ::close(file);
    file = -1;
  }
  return !ends;
}

Recording::Recording(std::shared_ptr<State> state) : state_(std::move(state)) {}

// An answer that is given up without an end is over as well.
Recording::~Recording() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->is_over = true;
  }
  state_->wake();
}

std::uint32_t Recording::logprobs() const {
  return state_->has_contents ? state_->options.logprobs : 0;
}

// The line `run`. What makes the answer (`made_by`: template, format, options) is large and the
// same for all runs of a model, so it stands once in a line before, and runs give its number.
void Recording::run(unsigned strand, const message::RunBegin& run) {
  const std::int64_t at = state_->at();
  const bool has_contents = state_->has_contents;
  state_->add([&](std::string& out) {
    State& state = *state_;
    std::uint32_t maker = 0;
    if (run.made_by != nullptr) {
      const auto [known, is_new] =
          state.makers.emplace(run.made_by.get(), static_cast<std::uint32_t>(state.makers.size()));
      maker = known->second;
      if (is_new) {
        state.kept.push_back(run.made_by);
        // A line of its own, before the line of the run that gives its number.
        out += "{\"made_by\":";
        json::append(out, json::Value(*run.made_by));
        out += "}\n";
      }
    }
    const auto [found, is_first] = state.strands.try_emplace(strand, State::Strand{strand});
    found->second.run = state.runs++;
    Line line(out);
    line.number("run", found->second.run).number("at", at).number("choice", found->second.choice);
    if (!found->second.part.empty()) line.text("part", found->second.part);
    line.number("made_by", maker);
    if (has_contents) line.text("text", run.text);
    // [[0,12,"template"],[12,20,"data"]]: bytes of the prompt, and where they come from.
    std::string& spans = line.key("spans");
    spans += '[';
    for (const message::PromptSpan& span : run.spans) {
      if (spans.back() != '[') spans += ',';
      spans += '[' + std::to_string(span.begin) + ',' + std::to_string(span.end) +
               (span.is_data ? ",\"data\"]" : ",\"template\"]");
    }
    spans += ']';
    if (has_contents) {
      put_numbers(line.key("ids"), run.tokens);
      if (!run.lengths.empty()) put_numbers(line.key("lengths"), run.lengths);
    } else {
      line.number("tokens", static_cast<std::int64_t>(run.tokens.size()));
    }
    if (!run.changes.empty()) {
      json::Array changes;
      for (const std::string& change : run.changes) changes.emplace_back(change);
      if (has_contents) line.json("changes", changes);
    }
    if (has_contents && !run.opening.empty()) line.text("opening", run.opening);
  });
}

unsigned Recording::inside(unsigned choice, std::string_view part) {
  const std::lock_guard lock(state_->mutex);
  const unsigned strand = state_->next_inside++;
  state_->strands.emplace(strand, State::Strand{choice, std::string(part)});
  return strand;
}

void Recording::made(unsigned strand, const message::MadeToken& token) {
  const std::int64_t at = state_->at();
  const bool has_contents = state_->has_contents;
  state_->add([&](std::string& out) {
    state_->tokens += token.count;
    Line line(out);
    // Without contents no id is written, because ids are as good as the text.
    line.number("token", has_contents ? token.id : -1).number("at", at);
    line.number("run", state_->run_of(strand));
    if (has_contents) {
      line.bytes(token.bytes);
    } else {
      line.number("bytes", static_cast<std::int64_t>(token.bytes.size()));
    }
    if (token.is_control) line.flag("control", true);
    // An upstream may send several tokens in one piece.
    if (token.count != 1) line.number("count", token.count);
    if (token.legal) line.number("legal", *token.legal);
    if (token.logprob == nullptr || !has_contents) return;
    line.json("logprob", token.logprob->logprob);
    // A token that ends the turn has no text of its own in an answer, and one here.
    if (token.logprob->bytes != token.bytes) {
      line.text("logprob_text", token.logprob->bytes);
    }
    json::Array top;
    for (std::size_t i = 0; i < token.logprob->top.size(); ++i) {
      const auto& [bytes, logprob] = token.logprob->top[i];
      json::Array one{utf8::sanitized(bytes), logprob};
      // [bytes, log probability, whether the mask allows the token]; no third value without a mask.
      const bool is_text = utf8::is_valid(bytes);
      if (i < token.top_is_legal.size()) {
        one.emplace_back(token.top_is_legal[i]);
      } else if (!is_text) {
        one.emplace_back();
      }
      if (!is_text) one.emplace_back(hex_of(bytes));
      top.emplace_back(std::move(one));
    }
    line.json("top", top);
  });
}

// The line `piece`: what an upstream reported without tokens. Without contents it has sizes alone.
void Recording::piece(unsigned strand, const message::MadePiece& piece) {
  const std::int64_t at = state_->at();
  const bool has_contents = state_->has_contents;
  const auto put = [&](Line& line, std::string_view name, std::string_view text) {
    if (has_contents) {
      line.text(name, text);
    } else if (!text.empty()) {
      line.number(std::string(name) + "_bytes", static_cast<std::int64_t>(text.size()));
    }
  };
  state_->add([&](std::string& out) {
    Line line(out);
    line.text("piece", piece.is_reasoning ? "reasoning" : "call").number("at", at);
    line.number("run", state_->run_of(strand));
    if (piece.is_reasoning) return put(line, "text", piece.text);
    line.number("index", piece.index);
    put(line, "name", piece.name);
    put(line, "arguments", piece.arguments);
  });
}

void Recording::upstream(unsigned strand, const message::UpstreamPart& part) {
  const std::int64_t at = state_->at();
  const bool has_contents = state_->has_contents;
  state_->add([&](std::string& out) {
    Line line(out);
    const auto* const head = std::get_if<message::UpstreamHead>(&part);
    const auto* const body = std::get_if<std::string_view>(&part);
    line.text("upstream", head != nullptr ? "head" : body != nullptr ? "body" : "end");
    line.number("at", at).number("run", state_->run_of(strand));
    if (head != nullptr) {
      line.number("status", head->status).text("type", head->type);
      if (!head->coding.empty()) line.text("coding", head->coding);
      if (head->retry_after_s > 0) line.number("retry_after_s", head->retry_after_s);
      line.number("asked_bytes", static_cast<std::int64_t>(head->asked_bytes));
    } else if (body != nullptr && has_contents) {
      line.bytes(*body);
    } else if (body != nullptr) {
      line.number("bytes", static_cast<std::int64_t>(body->size()));
    } else if (const Error* const error = std::get<message::UpstreamEnd>(part).error) {
      line.text("code", errc_name(error->code));
      if (has_contents) line.text("error", error->message);
    }
  });
}

void Recording::run_end(unsigned strand, const message::RunEnded& end) {
  const std::int64_t at = state_->at();
  const bool has_contents = state_->has_contents;
  state_->add([&](std::string& out) {
    Line line(out);
    line.text("run_end", message::finish_reason_name(end.reason)).number("at", at);
    line.number("run", state_->run_of(strand));
    line.number("prompt_tokens", end.usage.prompt_tokens);
    line.number("completion_tokens", end.usage.completion_tokens);
    line.number("cached_tokens", end.usage.cached_tokens);
    line.number("reasoning_tokens", end.usage.reasoning_tokens);
    if (end.usage.is_estimated) line.flag("is_estimated", true);
    // Whether the engine was constrained, as it says itself; `guarantee` of the choice follows from
    // it.
    line.flag("is_constrained", end.is_constrained);
    if (end.closed_loops > 0) line.number("closed_loops", end.closed_loops);
    if (!end.attempts.empty()) {
      json::Array attempts;
      for (const message::Attempt& attempt : end.attempts) {
        json::Object one{{"server", attempt.server}, {"ms", std::int64_t{attempt.took.count()}}};
        if (!attempt.error.empty()) {
          one.set("error", has_contents ? utf8::sanitized(attempt.error) : "not recorded");
        }
        attempts.emplace_back(std::move(one));
      }
      line.json("attempts", attempts);
    }
    if (!has_contents) return;
    if (!end.unconstrained_because.empty()) {
      line.text("unconstrained_because", end.unconstrained_because);
    }
    if (end.reason == message::FinishReason::error) {
      line.text("error", end.error.message);
    }
  });
}

namespace {

// What an event says, after its name and time. Values that came from a model or a client are left
// out without contents.
void say(Line& line, const message::ChatEvent& event, bool has_contents) {
  const auto text = [&](std::string_view name, std::string_view value) {
    if (has_contents) {
      line.text(name, value);
    } else {
      line.number(std::string(name) + "_bytes", static_cast<std::int64_t>(value.size()));
    }
  };
  if (const auto* content = std::get_if<message::ContentDelta>(&event)) {
    text("text", content->text);
  } else if (const auto* reasoning = std::get_if<message::ReasoningDelta>(&event)) {
    text("text", reasoning->text);
  } else if (const auto* begin = std::get_if<message::CallBegin>(&event)) {
    line.number("index", begin->index).text("call_id", begin->id);
    text("name", begin->name);
  } else if (const auto* arguments = std::get_if<message::CallArguments>(&event)) {
    line.number("index", arguments->index);
    text("text", arguments->text);
  } else if (const auto* end = std::get_if<message::CallEnd>(&event)) {
    line.number("index", end->index).flag("incomplete", end->incomplete);
  } else if (const auto* listed = std::get_if<message::ServerTools>(&event)) {
    text("server", listed->server);
    line.number("tools", static_cast<std::int64_t>(listed->tools.size()));
    if (has_contents && !listed->error.empty()) line.text("error", listed->error);
  } else if (const auto* server_begin = std::get_if<message::ServerCallBegin>(&event)) {
    line.text("call_id", server_begin->id).flag("approved", server_begin->was_approved);
    text("server", server_begin->tool.server);
    text("name", server_begin->tool.tool);
  } else if (const auto* server_arguments = std::get_if<message::ServerCallArguments>(&event)) {
    line.text("call_id", server_arguments->id);
    text("text", server_arguments->text);
  } else if (const auto* result = std::get_if<message::ServerCallResult>(&event)) {
    line.text("call_id", result->id).flag("failed", result->is_error);
    text("text", result->output);
  } else if (const auto* wanted = std::get_if<message::ApprovalsWanted>(&event)) {
    line.number("calls", static_cast<std::int64_t>(wanted->calls.size()));
  } else if (const auto* diagnostic = std::get_if<message::Diagnostic>(&event)) {
    line.text("code", diagnostic->code);
    if (has_contents) line.text("message", diagnostic->message);
    if (has_contents && !diagnostic->path.empty()) line.text("path", diagnostic->path);
  }
}

// In the order of ChatEvent's alternatives. The last one, Finish, has a line of its own kind.
constexpr std::string_view kEvents[] = {"content",
                                        "reasoning",
                                        "call_begin",
                                        "call_arguments",
                                        "call_end",
                                        "server_tools",
                                        "server_call_begin",
                                        "server_call_arguments",
                                        "server_call_result",
                                        "approvals_wanted",
                                        "diagnostic"};
static_assert(std::size(kEvents) + 1 == std::variant_size_v<message::ChatEvent>);

}  // namespace

void Recording::event(unsigned choice, const message::ChatEvent& event) {
  const std::int64_t at = state_->at();
  const bool has_contents = state_->has_contents;
  state_->add([&](std::string& out) {
    Line line(out);
    const auto* const finish = std::get_if<message::Finish>(&event);
    state_->note(event);
    if (finish == nullptr) {
      line.text("event", kEvents[event.index()]).number("at", at).number("choice", choice);
      return say(line, event, has_contents);
    }
    line.text("finish", message::finish_reason_name(finish->reason)).number("at", at);
    line.number("choice", choice);
    line.json("usage", json::Object{{"prompt_tokens", finish->usage.prompt_tokens},
                                    {"completion_tokens", finish->usage.completion_tokens},
                                    {"cached_tokens", finish->usage.cached_tokens},
                                    {"reasoning_tokens", finish->usage.reasoning_tokens}});
    line.text("guarantee", message::guarantee_name(finish->guarantee));
    if (!finish->format.empty()) line.text("format", finish->format);
    const bool has_failed = finish->reason == message::FinishReason::error;
    if (has_failed && has_contents) line.text("error", finish->error.message);
  });
}

void Recording::own_tools(unsigned choice, const message::OwnTools& tools) {
  const std::int64_t at = state_->at();
  state_->add([&](std::string& out) {
    json::Array listed;
    for (const message::OwnTools::One& one : tools.tools) {
      // Names of tools are contents, too: without them, `count` below says how many there are.
      if (!state_->has_contents) break;
      json::Object tool{{"name", one.tool->name},
                        {"server", one.server},
                        {"server_name", one.name},
                        {"description", one.tool->description}};
      tool.set("parameters", one.tool->parameters);
      if (one.needs_approval) tool.set("needs_approval", true);
      if (one.is_hosted) tool.set("is_hosted", true);
      if (one.tool->is_deferred) tool.set("is_deferred", true);
      listed.emplace_back(std::move(tool));
    }
    Line line(out);
    line.json("tools", listed).number("at", at).number("choice", choice);
    if (!state_->has_contents) line.number("count", static_cast<std::int64_t>(tools.tools.size()));
    line.flag("are_shown", tools.are_shown).flag("are_remembered", tools.are_remembered);
    line.number("max_rounds", static_cast<std::int64_t>(tools.max_rounds));
    line.number("max_calls", static_cast<std::int64_t>(tools.max_calls));
    if (!tools.searches) return;
    line.number("search_from", static_cast<std::int64_t>(tools.search_from));
    line.number("most_found", static_cast<std::int64_t>(tools.most_found));
  });
}

void Recording::tool_run(unsigned choice, const message::ToolRun& run) {
  const std::int64_t at = state_->at();
  const bool has_contents = state_->has_contents;
  state_->add([&](std::string& out) {
    // A call that is shown has an event of its own once it runs.
    if (run.decision == "asked" || (run.has_run && !run.is_shown)) state_->note_tool(run.name);
    Line line(out);
    line.text("tool", has_contents ? std::string_view(run.name) : "").number("at", at);
    line.number("choice", choice).text("decision", run.decision);
    if (has_contents) {
      line.text("call_id", run.id);
      line.text("arguments", run.arguments);
    }
    if (!run.has_run) return;
    line.number("ms", run.took.count());
    line.number("bytes", static_cast<std::int64_t>(run.output.size()));
    if (run.is_error) line.flag("is_error", true);
    if (run.is_remembered) line.flag("is_remembered", true);
    if (has_contents) line.text("output", run.output);
  });
}

void Recording::sent(std::string_view bytes) {
  if (bytes.empty()) return;
  const std::int64_t at = state_->at();
  state_->add([&](std::string& out) {
    Line line(out);
    if (state_->has_contents) {
      line.text("sent", bytes);
    } else {
      line.text("sent", "").number("bytes", static_cast<std::int64_t>(bytes.size()));
    }
    line.number("at", at);
  });
}

// The last line repeats what the lines before it add up to, so that a list of recordings needs to
// read only the two ends of each file (record/list.cc).
void Recording::end(unsigned status, std::string_view error) {
  const std::int64_t at = state_->at();
  state_->add([&](std::string& out) {
    State& state = *state_;
    state.fail(error);
    json::Array tools;
    for (const std::string& tool : state.tools) tools.emplace_back(tool);
    Line line(out);
    line.number("end", status).number("at", at);
    line.number("tokens", static_cast<std::int64_t>(state.tokens));
    line.number("calls", static_cast<std::int64_t>(state.calls));
    if (state.has_contents) line.json("tools", tools);
    line.number("repairs", static_cast<std::int64_t>(state.repairs));
    if (!state.guarantee.empty()) line.text("guarantee", state.guarantee);
    if (!state.error.empty() && state.has_contents) line.text("error", state.error);
  });
  {
    const std::lock_guard lock(state_->mutex);
    state_->is_over = true;
  }
  state_->wake();
}

struct Recorder::Impl {
  explicit Impl(RecorderOptions chosen) : options(std::move(chosen)) {}

  Status look();
  void make_room();
  void work();
  void wake() {
    {
      const std::lock_guard lock(mutex);
      is_awake = true;
    }
    changed.notify_one();
  }

  struct File {
    std::string path;
    std::uint64_t bytes = 0;
    std::int64_t began_s = 0;
    bool has_ended = false;  // its answer; that of another process may be under way
  };

  const RecorderOptions options;
  std::mutex mutex;  // guards the members below
  std::condition_variable changed;
  // A new recording has begun or one has ended: the thread does not wait for the end of the round.
  bool is_awake = false;
  bool ends = false;
  std::vector<std::shared_ptr<Recording::State>> fresh;  // not yet seen by the thread

  // Used by the thread alone, and before it begins.
  std::deque<File> files;  // oldest first
  std::uint64_t bytes = 0;
  // Recordings that have not ended. Their sizes are not in `bytes` yet.
  std::vector<std::shared_ptr<Recording::State>> open;
  std::thread thread;
};

// Finds the files that are there, oldest first; their names sort by time. For these the time of the
// last write stands in for the beginning.
Status Recorder::Impl::look() {
  std::error_code error;
  const bool is_there = fs::exists(options.folder, error);
  if (!error) fs::create_directories(options.folder, error);
  // For the owner only: recordings have what users have said. A folder that was there may be of
  // others, too; those of the days in it are the owner's only (make_folder).
  if (!error && !is_there) fs::permissions(options.folder, fs::perms::owner_all, error);
  const auto days = error ? std::vector<std::string>() : entries_of(options.folder, error);
  if (error) {
    return Unexpected(Error{Errc::unavailable, options.folder + ": " + error.message() +
                                                   "; recordings need a folder of their own"});
  }
  std::vector<std::pair<std::string, File>> found;
  for (const std::string& day : days) {
    // What cannot be read, or goes away meanwhile, is not deleted, and holds up nothing else.
    std::error_code ignored;
    const fs::path folder = fs::path(options.folder) / day;
    if (!is_day(day) || !fs::is_directory(fs::symlink_status(folder, ignored))) continue;
    for (const std::string& file : entries_of(folder, ignored)) {
      std::error_code failed;
      const fs::path path = folder / file;
      std::string name = day + "/" + file;
      if (!is_name(name) || !fs::is_regular_file(fs::symlink_status(path, failed))) continue;
      const auto written = fs::last_write_time(path, failed);
      const std::uint64_t size = failed ? 0 : fs::file_size(path, failed);
      if (failed) continue;
      const auto age = fs::file_time_type::clock::now() - written;
      const std::int64_t written_s =
          now_us() / 1'000'000 - std::chrono::duration_cast<std::chrono::seconds>(age).count();
      found.emplace_back(std::move(name), File{path.string(), size, written_s});
    }
  }
  std::ranges::sort(found, {}, &std::pair<std::string, File>::first);
  for (auto& [name, file] : found) {
    bytes += file.bytes;
    files.push_back(std::move(file));
  }
  return {};
}

// Deletes the oldest files until the rest is within both limits. Files of this process are in the
// list once they have ended; one that another process is writing stays.
void Recorder::Impl::make_room() {
  const std::int64_t oldest = now_us() / 1'000'000 - options.max_age.count();
  for (auto each = files.begin();
       each != files.end() && (bytes > options.max_bytes || each->began_s < oldest);) {
    if (!each->has_ended && is_open_elsewhere(each->path)) {
      ++each;
      continue;
    }
    std::error_code ignored;
    fs::remove(each->path, ignored);
    fs::remove(fs::path(each->path).parent_path(), ignored);  // only if it is empty
    bytes -= std::min(bytes, each->bytes);
    each = files.erase(each);
  }
}

// Each round takes the new recordings, writes what waits in each open one, and forgets those that
// have ended. Without an open recording the thread sleeps until one begins.
void Recorder::Impl::work() {
  for (bool is_last = false; !is_last;) {
    {
      std::unique_lock lock(mutex);
      const auto must_go = [this] { return is_awake || ends; };
      if (open.empty()) {
        changed.wait(lock, must_go);
      } else {
        changed.wait_for(lock, kRound, must_go);
      }
      is_awake = false;
      is_last = ends;
      for (auto& one : fresh) open.push_back(std::move(one));
      fresh.clear();
    }
    std::erase_if(open, [this](const std::shared_ptr<Recording::State>& one) {
      if (one->file < 0) one->file = open_file(one->path);
      // make_room() may have removed the day's folder while it had no file yet.
      if (one->file < 0 && errno == ENOENT) {
        make_folder(fs::path(one->path).parent_path());
        one->file = open_file(one->path);
      }
      if (one->file < 0) {
        log::warn("recording '" + one->path + "': " + system_error() + "; it is not recorded");
        const std::lock_guard lock(one->mutex);
        one->is_full = true;
        one->waiting.clear();
        return true;
      }
      if (one->write_out()) return false;
      files.push_back({.path = one->path,
                       .bytes = one->written,
                       .began_s = one->began_us / 1'000'000,
                       .has_ended = true});
      bytes += one->written;
      return true;
    });
    make_room();
  }
  // The recorder ends while answers are under way: what they have told so far is written.
  for (const auto& one : open) {
    if (one->file < 0) continue;
    if (one->write_out()) ::close(one->file);
  }
}

Recorder::Recorder(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

Expected<std::shared_ptr<Recorder>> Recorder::open(RecorderOptions options) {
  auto impl = std::make_shared<Impl>(std::move(options));
  if (Status looked = impl->look(); !looked) return Unexpected(looked.error());
  impl->make_room();
  impl->thread = std::thread([&work = *impl] { work.work(); });
  return std::shared_ptr<Recorder>(new Recorder(std::move(impl)));
}

Recorder::~Recorder() {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->ends = true;
  }
  impl_->changed.notify_one();
  impl_->thread.join();
}

const std::string& Recorder::folder() const {
  return impl_->options.folder;
}

std::shared_ptr<Recording> Recorder::begin(const Heading& heading) {
  auto state = std::make_shared<Recording::State>(impl_->options, now_us());
  const Name name = name_of(state->began_us, heading.id);
  const fs::path folder = fs::path(impl_->options.folder) / name.day;
  make_folder(folder);
  state->path = (folder / name.file).string();
  // Weak: a recording may outlive the recorder.
  state->wake = [weak = std::weak_ptr<Impl>(impl_)] {
    if (const auto impl = weak.lock()) impl->wake();
  };
  state->add([&](std::string& out) {
    Line line(out);
    line.number("recording", kVersion).text("tenon", impl_->options.tenon_version);
    line.text("id", heading.id).number("began", state->began_us).text("model", heading.model);
    line.text("path", heading.path).flag("stream", heading.is_stream);
    if (!impl_->options.replay_of.empty()) line.json("replay_of", impl_->options.replay_of);
    if (!state->has_contents) return;
    if (auto request = json::parse(heading.request)) line.json("request", *request);
    if (heading.found != nullptr) line.json("found", *heading.found);
  });
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->fresh.push_back(state);
    impl_->is_awake = true;
  }
  impl_->changed.notify_one();
  return std::shared_ptr<Recording>(new Recording(std::move(state)));
}

}  // namespace tenon::record
