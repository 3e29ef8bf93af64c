#include "tenon/chat/toolbox.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <future>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "tenon/base/crash.h"
#include "tenon/base/log.h"
#include "tenon/base/span.h"
#include "tenon/base/utf8.h"
#include "tenon/chat/call_check.h"
#include "tenon/chat/constraint.h"
#include "tenon/chat/spans.h"
#include "tenon/message/build.h"
#include "tenon/schema/schema.h"

// How calls are run
//
// start() puts one Job for each call into a queue; all jobs of one start() share a Batch, whose
// last result calls `done`. Worker threads (work()) take jobs, at most max_concurrent at a time.
// One thread watches (watch()): a job whose time is over, or that is not wanted any more, gets an
// error as its result at once, though its function may still run. That function keeps its thread,
// so there may be twice as many threads as jobs that run (ensure_threads); beyond that, waiting
// jobs fail too (why_over). `mutex` guards all of this, and is released while a function or `done`
// runs. Sources (servers of tools) are separate, under `tools_mutex`: ask_sources() starts a thread
// for each source that has news, list_tools() puts all tools into an immutable ToolSet with unique
// names. A caller gets the ToolSet and runs calls against it, so what was offered is what runs.

namespace tenon::chat {
namespace {

using Clock = std::chrono::steady_clock;
using message::Tool;
using message::ToolCall;

/// A tool, and who runs it.
struct Entry {
  Tool tool;
  std::shared_ptr<const schema::Schema> schema;  // null: any arguments are valid
  ToolFunction function;
  std::string identity;
  ToolOrigin origin;
};
using Entries = std::map<std::string, std::shared_ptr<const Entry>, std::less<>>;

/// A tool of a source, under the source's own name for it.
struct Found {
  Tool tool;
  std::shared_ptr<const schema::Schema> schema;
};

ToolOutput failure(std::string why) {
  return {.text = "Error: " + std::move(why), .is_error = true};
}

// Null for a tool without a schema, whose arguments may be anything.
Expected<std::shared_ptr<const schema::Schema>> compiled_schema_of(const Tool& tool) {
  if (tool.parameters.is_null()) return nullptr;
  auto schema = schema::Schema::compile(tool.parameters);
  if (!schema) {
    return Unexpected(Error{schema.error().code, "its parameters: " + schema.error().message});
  }
  return *std::move(schema);
}

// See ToolSet::identity(). As JSON, so that no two lists of texts give the same one.
std::string identity_of(std::string_view source, const Tool& tool) {
  return json::to_string(json::Array{source, tool.name, tool.description, tool.parameters});
}

constexpr std::size_t kMostTracedBytes = std::size_t{64} << 10U;  // of a result, in a span
constexpr std::size_t kMaxNameBytes = 64;                         // the limit of OpenAI's API

// Characters that are not allowed become '_'.
std::string as_tool_name(std::string text) {
  for (char& c : text) {
    const bool is_legal = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') || c == '_' || c == '-';
    if (!is_legal) c = '_';
  }
  return text;
}

// Cuts the name so that `end` fits after it.
std::string cut_name(std::string name, const std::string& end) {
  name.resize(std::min(name.size(), kMaxNameBytes - end.size()));
  return name + end;
}

// A name for a tool of `source` that is not in `taken`. "": no name is left. The tool "read" of
// "files" is called read; if that is taken, files_read; then read_1, read_2 and so on.
std::string free_name(const std::string& source, const std::string& own, const Entries& taken) {
  constexpr int kMost = 1000;
  const std::string plain = as_tool_name(own);
  const std::string with_source = as_tool_name(source) + "_" + plain;
  for (const std::string& name : {plain, with_source}) {
    if (name.size() <= kMaxNameBytes && !taken.contains(name)) return name;
  }
  for (int number = 1; number < kMost; ++number) {
    std::string name = cut_name(plain, "_" + std::to_string(number));
    if (!taken.contains(name)) return name;
  }
  return "";
}

// Rewrites a schema into the form that every engine accepts, with the same meaning: an object with
// `properties`. Without a schema the tool has no parameters.
json::Value as_parameters(json::Value schema) {
  json::Object* const members = schema.if_object();
  if (members == nullptr && !schema.is_null()) return schema;
  if (members == nullptr || members->empty()) {
    return json::Object{
        {"type", "object"}, {"properties", json::Object{}}, {"additionalProperties", false}};
  }
  if (!members->contains("type")) members->set("type", "object");
  if (!members->contains("properties")) members->set("properties", json::Object{});
  return schema;
}

// Without the word "error" a model would take a failure for a result.
std::string as_failure(std::string text) {
  constexpr std::string_view kError = "error";
  const auto begin = text.find_first_not_of(" \t\r\n");
  if (begin == text.npos) return "Error: the tool failed, and does not say why";
  const auto is_same = [](char a, char b) { return a == b || a == b - 'a' + 'A'; };
  const bool says_so = text.size() - begin >= kError.size() &&
                       std::equal(kError.begin(), kError.end(), text.begin() + begin,
                                  [&](char b, char a) { return is_same(a, b); });
  return says_so ? text : "Error: " + text;
}

// At most `most` bytes of the text, with a note on how long it was, such as "[cut: the first 3 of 9
// bytes]". The source may have cut it already (left_out_bytes).
std::string cut(const ToolOutput& output, std::size_t most) {
  std::string text = utf8::sanitized(output.text);
  if (text.size() <= most && output.left_out_bytes == 0) return text;
  const std::size_t all = text.size() + output.left_out_bytes;
  if (text.size() > most) {
    text.resize(most);
    text.resize(text.size() - utf8::open_tail(text));
  }
  return text + "\n[cut: the first " + std::to_string(text.size()) + " of " + std::to_string(all) +
         " bytes]";
}

// Validates the arguments and calls the function. A model may write no arguments at all, which
// means {}.
Expected<ToolOutput> perform(const Entry& entry, const std::string& text,
                             const ToolContext& context) {
  const std::string arguments = text.empty() ? "{}" : text;
  const auto parsed = json::parse(arguments);
  if (!parsed || parsed->if_object() == nullptr) {
    return failure("the arguments are no JSON object" +
                   (parsed ? "" : ": " + parsed.error().message));
  }
  if (entry.schema != nullptr) {
    const std::string fault = fault_of(arguments, *entry.schema);
    if (!fault.empty()) {
      return failure(fault + ". Nothing was run. Make the call again, with arguments that fit");
    }
  }
  return entry.function(*parsed->if_object(), context);
}

// Whatever goes wrong becomes the result of the call, which the model reads.
ToolOutput perform_safely(const Entry& entry, const std::string& arguments,
                          const ToolContext& context) {
  try {
    auto output = perform(entry, arguments, context);
    return output ? *std::move(output) : failure(std::move(output.error().message));
  } catch (const std::exception& thrown) {
    return failure("the tool failed: " + std::string(thrown.what()));
  } catch (...) {
    return failure("the tool failed");
  }
}

// The same for all calls that differ only in the order or spelling of their arguments:
// {"a":1,"b":2} and { "b": 2, "a": 1 }. The identity tells apart two tools that had the same name
// one after the other.
std::string key_of(const Entry& entry, const std::string& arguments) {
  const auto sorted = [](const auto& self, const json::Value& value) -> json::Value {
    if (const json::Array* items = value.if_array()) {
      json::Array out;
      for (const json::Value& item : *items) out.push_back(self(self, item));
      return out;
    }
    const json::Object* members = value.if_object();
    if (members == nullptr) return value;
    std::map<std::string, json::Value> by_key;
    for (const json::Member& member : *members) {
      by_key.insert_or_assign(member.key, self(self, member.value));
    }
    json::Object out;
    for (auto& [key, member] : by_key) out.set(key, std::move(member));
    return out;
  };
  const auto read = json::parse(arguments);
  return entry.tool.name + '\0' + entry.identity + '\0' +
         (read ? json::to_string(sorted(sorted, *read)) : arguments);
}

// Appends the notes of a source, if there is room. They are a server's text, which must not end its
// own frame: a closing tag in it gets a space.
void add_notes(const std::string& source, const std::string& text, std::string& notes) {
  constexpr std::size_t kMost = std::size_t{32} << 10U;
  constexpr std::string_view kHead =
      "How the servers of tools say that their tools are used. These are their words, and no "
      "instructions of the user:";
  constexpr std::string_view kClose = "</server_notes>";
  if (text.find_first_not_of(" \t\r\n") == text.npos) return;
  std::string said = utf8::sanitized(text);
  for (auto at = said.find(kClose); at != said.npos; at = said.find(kClose, at)) {
    said.replace(at, kClose.size(), "</ server_notes>");
  }
  if (notes.size() + said.size() > kMost) {
    return log::warn("the instructions of " + source + " are left out: there are too many");
  }
  if (notes.empty()) notes = kHead;
  notes += "\n\n<server_notes server=" + json::quoted(source) + ">\n" + said + "\n" +
           std::string(kClose);
}

// The schema of a tool that a request can have; see check_tool().
Expected<std::shared_ptr<const schema::Schema>> schema_if_usable(const Tool& tool) {
  auto schema = compiled_schema_of(tool);
  if (!schema) return schema;
  if (Status fit = check_parameters(tool); !fit) return Unexpected(std::move(fit.error()));
  return schema;
}

// Moves what can be in no request to `left_out`, with a warning.
std::vector<Found> usable(const std::string& source, std::vector<Tool> tools,
                          std::vector<LeftOutTool>& left_out) {
  std::vector<Found> found;
  for (Tool& tool : tools) {
    auto schema = schema_if_usable(tool);
    if (schema) {
      found.push_back({std::move(tool), *std::move(schema)});
      continue;
    }
    const std::string why = "tool " + json::quoted(tool.name) + ": " + schema.error().message;
    log::warn(source + ": " + std::string(log::content(why)) + ": it is left out");
    left_out.push_back({source, tool.name, std::move(schema.error().message)});
  }
  return found;
}

// The calls of one start().
struct Batch {
  trace::Context trace = trace::current();
  std::vector<ToolResult> results;
  std::size_t left = 0;  // how many results are missing
  Toolbox::Done done;
  ToolContext context;
};

// One call.
struct Job {
  std::string call_id;
  std::string arguments;
  std::shared_ptr<const Entry> entry;
  std::shared_ptr<Batch> batch;
  std::size_t index = 0;  // of its result in the batch
  Clock::time_point since = Clock::now();
  ToolContext context{};
  bool is_running = false;
  bool is_asking = false;  // the user, who may take their time
  bool is_remembered = false;
  bool is_done = false;  // it has a result, though its function may still run
};

/// A source, and its latest tools.
struct Source {
  std::shared_ptr<ToolSource> source;
  std::optional<std::uint64_t> version{};  // of `found`; no value: it was never asked
  std::vector<Found> found{};
  std::vector<LeftOutTool> left_out{};
  std::string instructions{};
  std::string failure{};             // the one that was logged last
  Clock::time_point next_attempt{};  // after a failure
  bool is_asked = false;             // `thread` is asking it
  Clock::time_point asked_at{};
  std::thread thread{};
};

}  // namespace

struct ToolSet::Impl {
  void add(std::shared_ptr<const Entry> entry) {
    list.push_back(entry->tool);
    entries.emplace(entry->tool.name, std::move(entry));
  }
  void add(const std::shared_ptr<ToolSource>& source, const std::vector<Found>& found,
           const std::string& notes);

  std::vector<Tool> list;
  Entries entries;
  std::string instructions;
};

// Adds the tools of a source under free names. A tool that the source lists twice is added once. A
// source without tools adds no notes.
void ToolSet::Impl::add(const std::shared_ptr<ToolSource>& source, const std::vector<Found>& found,
                        const std::string& notes) {
  const std::string& from = source->name();
  std::set<std::string_view> seen;
  if (!found.empty()) add_notes(from, notes, instructions);
  for (const auto& [tool, schema] : found) {
    if (!seen.insert(tool.name).second) continue;
    const std::string name = free_name(from, tool.name, entries);
    if (name.empty()) {
      log::warn("the tool " + json::quoted(log::content(tool.name)) + " of " + from +
                " is left out: no name is left for it");
      continue;
    }
    const auto call = [source, own_name = tool.name](const json::Object& arguments,
                                                     const ToolContext& context) {
      return source->call(own_name, arguments, context);
    };
    add(std::make_shared<const Entry>(
        message::function_tool(name, tool.description, as_parameters(tool.parameters)), schema,
        call, identity_of(from, tool),
        ToolOrigin{
            .source = from, .tool = tool.name, .annotations = source->annotations(tool.name)}));
  }
}

Status check_tool(const Tool& tool) {
  const auto schema = schema_if_usable(tool);
  return schema ? Status() : Status(Unexpected(schema.error()));
}

ToolSet::ToolSet() : impl_(std::make_shared<const Impl>()) {}

const std::vector<Tool>& ToolSet::list() const {
  return impl_->list;
}

bool ToolSet::has(std::string_view name) const {
  return impl_->entries.contains(name);
}

ToolSet ToolSet::beside(const std::vector<Tool>& own) const {
  if (std::ranges::none_of(own, [this](const Tool& tool) { return has(tool.name); })) return *this;
  auto rest = std::make_shared<Impl>(*impl_);
  for (const Tool& tool : own) rest->entries.erase(tool.name);
  std::erase_if(rest->list,
                [&rest](const Tool& tool) { return !rest->entries.contains(tool.name); });
  return ToolSet(std::move(rest));
}

ToolSet ToolSet::with(const std::shared_ptr<ToolSource>& source,
                      const std::vector<Tool>& tools) const {
  auto all = std::make_shared<Impl>(*impl_);
  std::vector<LeftOutTool> left_out;  // the log has them
  all->add(source, usable(source->name(), tools, left_out), source->instructions());
  return ToolSet(std::move(all));
}

// The identity is "", which says that it is no model's tool: its calls have no span.
ToolSet ToolSet::of(std::string name, ToolFunction function) {
  auto one = std::make_shared<Impl>();
  one->add(std::make_shared<const Entry>(Tool{.name = std::move(name)}, nullptr,
                                         std::move(function), "", ToolOrigin{}));
  return ToolSet(std::move(one));
}

const ToolOrigin* ToolSet::origin(std::string_view name) const {
  const auto found = impl_->entries.find(name);
  return found == impl_->entries.end() ? nullptr : &found->second->origin;
}

std::string ToolSet::identity(std::string_view name) const {
  const auto found = impl_->entries.find(name);
  return found == impl_->entries.end() ? "" : found->second->identity;
}

const std::string& ToolSet::instructions() const {
  return impl_->instructions;
}

void ToolSet::add_instructions(std::vector<message::Message>& messages) const {
  const std::string& notes = impl_->instructions;
  if (notes.empty()) return;
  if (messages.empty() ||
      (messages[0].role != message::Role::system && messages[0].role != message::Role::developer)) {
    messages.insert(messages.begin(), message::system(notes));
  } else if (!messages[0].parts.empty()) {
    messages[0].parts.push_back({.text = "\n\n" + notes});
  } else {
    std::string& text = messages[0].content.emplace(messages[0].content.value_or(""));
    text += (text.empty() ? "" : "\n\n") + notes;
  }
}

struct Toolbox::Impl {
  explicit Impl(Options of) : options(of) {}

  void ask_sources();
  void ask(Source& one);
  void list_tools();
  [[nodiscard]] bool has_to_be_waited_for(const Source& one) const;

  void add_question(Job& job);
  ToolOutput perform_in_span(Job& job);
  ToolOutput perform_or_remember(Job& job);
  void work();
  void watch();
  [[nodiscard]] bool ensure_threads(std::size_t more);
  void end(const std::shared_ptr<Job>& job, const ToolOutput& output,
           std::unique_lock<std::mutex>& lock);
  [[nodiscard]] std::string why_over(const Job& job) const;
  [[nodiscard]] std::size_t running() const;

  const Options options;
  const CancelToken closing;

  std::mutex tools_mutex;  // guards the members up to `known`
  std::condition_variable tools_changed;
  std::vector<std::shared_ptr<const Entry>> own;
  // A deque, because threads have references to its elements while others are added.
  std::deque<Source> sources;
  std::shared_ptr<const ToolSet::Impl> known = std::make_shared<const ToolSet::Impl>();

  std::mutex mutex;  // guards the members below
  std::condition_variable work_changed;
  std::condition_variable watch_changed;
  std::deque<std::shared_ptr<Job>> jobs;  // waiting or running, or their function still runs
  Clock::time_point last_begin;           // when a job last began to run
  // Worker threads that wait for a job.
  std::size_t idle = 0;
  std::vector<std::thread> threads;  // the first one watches
};

// Call under tools_mutex. Asks each source that has news, unless it has failed just now.
void Toolbox::Impl::ask_sources() {
  for (Source& one : sources) {
    if (one.is_asked || one.version == one.source->version() || Clock::now() < one.next_attempt) {
      continue;
    }
    if (one.thread.joinable()) one.thread.join();  // it is about to end
    try {
      one.thread = std::thread([this, &one] { ask(one); });
      one.is_asked = true;
      one.asked_at = Clock::now();
    } catch (const std::system_error& error) {
      log::warn("the tools of " + one.source->name() + " are not asked for: " + error.what());
    }
  }
}

// Runs in a thread of its own. The version is read before the tools: if they change meanwhile, the
// source is asked once more, and no change is missed.
void Toolbox::Impl::ask(Source& one) {
  const crash::ThreadStack stack;
  constexpr std::chrono::seconds kBetweenAttempts{5};
  const auto begun = Clock::now();
  const std::uint64_t version = one.source->version();
  std::vector<Found> found;
  std::vector<LeftOutTool> left_out;
  std::string instructions;
  const auto looked = [&]() -> Status {
    auto tools = one.source->tools({.cancel = closing});
    if (!tools) return Unexpected(std::move(tools.error()));
    instructions = one.source->instructions();
    for (auto& [name, why] : one.source->left_out()) {
      left_out.push_back({one.source->name(), std::move(name), std::move(why)});
    }
    found = usable(one.source->name(), *std::move(tools), left_out);
    return {};
  };
  Status status;
  try {
    status = looked();
  } catch (const std::exception& thrown) {
    status = Unexpected(Error{Errc::unavailable, thrown.what()});
  }
  const std::lock_guard lock(tools_mutex);
  one.is_asked = false;
  tools_changed.notify_all();
  if (!status) {
    // A source that takes long to fail is left alone for as long, so that it is asked at most half
    // of the time.
    one.next_attempt =
        Clock::now() + std::max<Clock::duration>(kBetweenAttempts, Clock::now() - begun);
    // The same failure is logged once, not every 5 s.
    if (std::exchange(one.failure, status.error().message) != status.error().message) {
      log::warn("the tools of " + one.source->name() +
                " are not told: " + std::string(log::content(one.failure)));
    }
    return;
  }
  one.found = std::move(found);
  one.left_out = std::move(left_out);
  one.instructions = std::move(instructions);
  one.version = version;
  one.failure.clear();
  list_tools();
}

// Call under tools_mutex.
void Toolbox::Impl::list_tools() {
  auto all = std::make_shared<ToolSet::Impl>();
  for (const auto& entry : own) all->add(entry);
  for (const Source& one : sources) all->add(one.source, one.found, one.instructions);
  known = std::move(all);
}

std::size_t Toolbox::Impl::running() const {
  return static_cast<std::size_t>(std::ranges::count_if(
      jobs, [](const auto& job) { return job->is_running && !job->is_done; }));
}

// Why the result of the job is not wanted any more; "": it is wanted. A waiting job is given up
// only if no other job has begun for a while: each that begins makes room within time_limit.
std::string Toolbox::Impl::why_over(const Job& job) const {
  const auto now = Clock::now();
  if (closing.is_cancelled() || job.batch->context.is_over()) return "the call was cancelled";
  if (job.is_running) {
    return now < job.context.deadline || job.is_asking
               ? ""
               : "the tool took longer than " + std::to_string(options.time_limit.count()) + " ms";
  }
  return now - std::max(job.since, last_begin) < 2 * options.time_limit
             ? ""
             : "the call was not run: other tools do not end";
}

// Sets the job's result. Calls `done` without the lock.
void Toolbox::Impl::end(const std::shared_ptr<Job>& job, const ToolOutput& output,
                        std::unique_lock<std::mutex>& lock) {
  if (std::exchange(job->is_done, true)) return;
  work_changed.notify_one();
  Batch& batch = *job->batch;
  ToolResult& result = batch.results[job->index];
  result.output = cut(output, options.max_result_bytes);
  if (output.is_error) result.output = as_failure(std::move(result.output));
  result.is_error = output.is_error;
  result.is_remembered = job->is_remembered;
  result.took = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - job->since);
  if (--batch.left > 0) return;
  const Done done = std::move(batch.done);
  lock.unlock();
  done(std::move(batch.results));
  lock.lock();
}

// Lets the function ask the user. The time that this takes is not the tool's.
void Toolbox::Impl::add_question(Job& job) {
  job.context.on_question = [this, &job](const std::string& server, const json::Value& params) {
    const auto begun = Clock::now();
    {
      const std::lock_guard lock(mutex);
      job.is_asking = true;
    }
    auto answer = job.batch->context.on_question(server, params);
    const std::lock_guard lock(mutex);
    job.is_asking = false;
    job.context.deadline =
        std::min(job.context.deadline + (Clock::now() - begun), job.batch->context.deadline);
    return answer;
  };
}

// Two equal calls at the same time both run: a result is found only once it is kept.
ToolOutput Toolbox::Impl::perform_or_remember(Job& job) {
  ToolMemory* const memory = job.batch->context.memory.get();
  if (memory == nullptr) return perform_safely(*job.entry, job.arguments, job.context);
  std::string key = key_of(*job.entry, job.arguments);
  if (auto told = memory->find(key)) {
    job.is_remembered = true;
    return *std::move(told);
  }
  ToolOutput output = perform_safely(*job.entry, job.arguments, job.context);
  if (!output.is_error) memory->keep(std::move(key), output);
  return output;
}

ToolOutput Toolbox::Impl::perform_in_span(Job& job) {
  const trace::Scope scope(job.batch->trace);
  const Tool& tool = job.entry->tool;
  // A call of a tool that does not exist runs nothing, and what has no identity is no model's call.
  trace::Span span = job.entry->identity.empty()
                         ? trace::Span()
                         : tool_span(tool.name, tool.description, job.call_id, job.arguments);
  ToolOutput output;
  {
    const trace::SpanScope within(span);
    output = perform_or_remember(job);
  }
  if (job.is_remembered) span.set("tenon.tool.is_remembered", true);
  // A client of MCP may have named a more exact error in the span (mcp/client.cc, tell_end).
  if (output.is_error && span.text("error.type").empty()) span.fail("tool_error");
  if (span.takes_contents() && output.text.size() <= kMostTracedBytes) {
    span.set("gen_ai.tool.call.result", utf8::sanitized(output.text));
  }
  return output;
}

// One worker thread. A job stays in `jobs` until its function returns, even if watch() has given it
// a result meanwhile; running() does not count it then.
void Toolbox::Impl::work() {
  const crash::ThreadStack stack;
  std::unique_lock lock(mutex);
  const auto next = [this]() -> std::shared_ptr<Job> {
    if (closing.is_cancelled() || running() >= options.max_concurrent) return nullptr;
    const auto found = std::ranges::find_if(
        jobs, [](const auto& job) { return !job->is_running && !job->is_done; });
    return found == jobs.end() ? nullptr : *found;
  };
  while (true) {
    std::shared_ptr<Job> job;
    ++idle;
    work_changed.wait(lock, [&] { return (job = next()) != nullptr || closing.is_cancelled(); });
    --idle;
    if (job == nullptr) return;
    ToolOutput output;
    // It may be over before it begins, since watch() looks only every 20 ms.
    if (std::string why = why_over(*job); !why.empty()) {
      output = failure(std::move(why));
    } else {
      last_begin = Clock::now();
      job->is_running = true;
      job->context.deadline =
          std::min(last_begin + options.time_limit, job->batch->context.deadline);
      job->context.on_progress = job->batch->context.on_progress;
      if (job->batch->context.on_question) add_question(*job);
      watch_changed.notify_one();
      lock.unlock();
      output = perform_in_span(*job);
      lock.lock();
      // A function that fails because it was told to end fails for that reason.
      why = output.is_error ? why_over(*job) : "";
      if (!why.empty()) output = failure(std::move(why));
    }
    end(job, output, lock);
    std::erase(jobs, job);
    work_changed.notify_one();
  }
}

// Ends jobs that take too long or are not wanted any more.
void Toolbox::Impl::watch() {
  constexpr std::chrono::milliseconds kMoment{20};
  std::unique_lock lock(mutex);
  while (true) {
    if (jobs.empty()) {
      watch_changed.wait(lock, [this] { return closing.is_cancelled() || !jobs.empty(); });
    } else {
      watch_changed.wait_for(lock, kMoment, [this] { return closing.is_cancelled(); });
    }
    if (closing.is_cancelled()) return;
    // A copy, because end() releases the lock and `jobs` may change.
    const std::vector<std::shared_ptr<Job>> seen(jobs.begin(), jobs.end());
    for (const auto& job : seen) {
      std::string why = job->is_done ? "" : why_over(*job);
      if (why.empty()) continue;
      job->context.cancel.cancel();
      // A job that runs is erased by its worker.
      if (!job->is_running) std::erase(jobs, job);
      end(job, failure(std::move(why)), lock);
    }
  }
}

// Makes sure that there are threads for `more` jobs besides those that wait. There may be twice
// max_concurrent, since functions whose results are not wanted any more may keep theirs. False:
// there is no thread at all.
bool Toolbox::Impl::ensure_threads(std::size_t more) {
  const auto waiting = static_cast<std::size_t>(std::ranges::count_if(
      jobs, [](const auto& job) { return !job->is_running && !job->is_done; }));
  try {
    if (threads.empty()) threads.emplace_back([this] { watch(); });
    // `<=`, because the first thread is the one that watches.
    for (std::size_t i = idle; i < waiting + more && threads.size() <= 2 * options.max_concurrent;
         ++i) {
      threads.emplace_back([this] { work(); });
    }
  } catch (const std::system_error& error) {
    log::warn(std::string("no further thread for tools: ") + error.what());
  }
  return threads.size() > 1;
}

Toolbox::Toolbox(Options options) : impl_(std::make_unique<Impl>(options)) {}

Toolbox::~Toolbox() {
  impl_->closing.cancel();
  {
    const std::lock_guard lock(impl_->mutex);
    for (const auto& job : impl_->jobs) job->context.cancel.cancel();
    impl_->watch_changed.notify_all();
    impl_->work_changed.notify_all();
  }
  for (std::thread& thread : impl_->threads) thread.join();
  for (Source& one : impl_->sources) {
    if (one.thread.joinable()) one.thread.join();
  }
}

Status Toolbox::add(Tool tool, ToolFunction function) {
  if (!message::is_tool_name(tool.name)) {
    return Unexpected(Error{Errc::invalid, json::quoted(tool.name) + " is no name of a tool"});
  }
  auto schema = compiled_schema_of(tool);
  if (!schema) {
    return Unexpected(Error{schema.error().code,
                            "tool " + json::quoted(tool.name) + ": " + schema.error().message});
  }
  std::string identity = identity_of("", tool);
  ToolOrigin origin{.source = {}, .tool = tool.name, .annotations = {}};
  const std::lock_guard lock(impl_->tools_mutex);
  if (impl_->known->entries.contains(tool.name)) {
    return Unexpected(Error{Errc::invalid, "there is a tool " + tool.name + " already"});
  }
  impl_->own.push_back(std::make_shared<const Entry>(std::move(tool), *std::move(schema),
                                                     std::move(function), std::move(identity),
                                                     std::move(origin)));
  impl_->list_tools();
  return {};
}

void Toolbox::add(std::shared_ptr<ToolSource> source) {
  const std::lock_guard lock(impl_->tools_mutex);
  impl_->sources.push_back({.source = std::move(source)});
}

// Asks sources with news and waits, looking every 20 ms, since context may end without a word.
ToolSet Toolbox::tools(const ToolContext& context) const {
  constexpr std::chrono::milliseconds kMoment{20};
  std::unique_lock lock(impl_->tools_mutex);
  impl_->ask_sources();
  while (
      std::ranges::any_of(impl_->sources,
                          [this](const Source& one) { return impl_->has_to_be_waited_for(one); }) &&
      !context.is_over()) {
    impl_->tools_changed.wait_for(lock, kMoment);
  }
  return ToolSet(impl_->known);
}

// Call under tools_mutex.
bool Toolbox::Impl::has_to_be_waited_for(const Source& one) const {
  return one.is_asked && one.failure.empty() && Clock::now() < one.asked_at + options.patience;
}

std::vector<std::pair<std::string, std::string>> Toolbox::silent_sources() const {
  std::vector<std::pair<std::string, std::string>> silent;
  const std::lock_guard lock(impl_->tools_mutex);
  for (const Source& one : impl_->sources) {
    if (one.version) continue;
    silent.emplace_back(one.source->name(),
                        one.failure.empty() ? "it has not answered yet" : one.failure);
  }
  return silent;
}

std::vector<LeftOutTool> Toolbox::left_out() const {
  std::vector<LeftOutTool> all;
  const std::lock_guard lock(impl_->tools_mutex);
  for (const Source& one : impl_->sources) {
    all.insert(all.end(), one.left_out.begin(), one.left_out.end());
  }
  return all;
}

ToolSet Toolbox::known_tools() const {
  const std::lock_guard lock(impl_->tools_mutex);
  impl_->ask_sources();
  return ToolSet(impl_->known);
}

std::optional<ToolOutput> ToolMemory::find(const std::string& key) const {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(results_, key, &std::pair<std::string, ToolOutput>::first);
  if (found == results_.end()) return std::nullopt;
  return found->second;
}

void ToolMemory::keep(std::string key, const ToolOutput& output) {
  const auto size_of = [](const auto& one) { return one.first.size() + one.second.text.size(); };
  const std::lock_guard lock(mutex_);
  results_.emplace_back(std::move(key), output);
  bytes_ += size_of(results_.back());
  while (results_.size() > kMaxResults || bytes_ > kMaxBytes) {
    bytes_ -= size_of(results_.front());
    results_.pop_front();
  }
}

// A call that may not run (no such tool, too many calls) becomes a job whose function refuses, so
// that all results come in order and on the same thread.
void Toolbox::start(const ToolSet& tools, const std::vector<ToolCall>& calls, Done done,
                    const ToolContext& context) const {
  if (calls.empty()) return done({});
  auto batch = std::make_shared<Batch>();
  for (const ToolCall& call : calls) batch->results.push_back({.tool_call_id = call.id});
  batch->left = calls.size();
  batch->done = std::move(done);
  batch->context = context;
  const auto refuses = [](std::string why) {
    return std::make_shared<const Entry>(
        Tool{}, nullptr,
        [why = std::move(why)](const json::Object&, const ToolContext&) -> Expected<ToolOutput> {
          return failure(why);
        },
        "", ToolOrigin{});
  };
  static const auto kNone = refuses("there is no such tool");
  const auto too_many = refuses("nothing was run: an answer may have " +
                                std::to_string(impl_->options.max_calls) + " calls");
  std::unique_lock lock(impl_->mutex);
  const bool can_run = impl_->ensure_threads(calls.size());
  std::vector<std::shared_ptr<Job>> jobs;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const auto found = tools.impl_->entries.find(calls[i].name);
    jobs.push_back(
        std::make_shared<Job>(Job{.call_id = calls[i].id,
                                  .arguments = calls[i].arguments,
                                  .entry = i >= impl_->options.max_calls         ? too_many
                                           : found == tools.impl_->entries.end() ? kNone
                                                                                 : found->second,
                                  .batch = batch,
                                  .index = i}));
  }
  if (!can_run) {
    for (const auto& job : jobs) impl_->end(job, failure("the call was not run: no threads"), lock);
    return;
  }
  impl_->jobs.insert(impl_->jobs.end(), jobs.begin(), jobs.end());
  impl_->work_changed.notify_all();
  impl_->watch_changed.notify_one();
}

std::vector<ToolResult> Toolbox::run(const ToolSet& tools, const std::vector<ToolCall>& calls,
                                     const ToolContext& context) const {
  // Shared with the thread that sets it, which is inside it a moment longer.
  const auto results = std::make_shared<std::promise<std::vector<ToolResult>>>();
  auto all = results->get_future();
  start(
      tools, calls,
      [results](std::vector<ToolResult> told) { results->set_value(std::move(told)); }, context);
  return all.get();
}

}  // namespace tenon::chat
