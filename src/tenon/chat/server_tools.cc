#include "tenon/chat/server_tools.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "tenon/base/log.h"
#include "tenon/base/trace.h"
#include "tenon/base/utf8.h"
#include "tenon/chat/hosts.h"
#include "tenon/chat/kept_tokens.h"
#include "tenon/chat/model_before.h"
#include "tenon/chat/spans.h"
#include "tenon/message/build.h"

// One request is one object, Request, which is the sink of all the model's answers to it. Its life:
//
//   look_up()   asks the servers that the request names for their tools, all at the same time
//   run_open()  runs the calls that the client has approved since its last request
//   ask()       gives the model the history, with our tools beside the client's
//   end_round() is called at the end of an answer. If it has calls of ours, and none of the
//               client's: run_tools(), go_on() with the results as messages, and ask_again();
//               else end() passes the finish on
//   run_calls() runs calls of ours, also those whose code the model has written (code_run.h). Code
//               that waits for the client's tools ends the request: wait_for_code()
//
// Events that the client should see are passed on as they come; our own calls are kept back. Events
// come from one thread at a time: from the engine's while the model answers, and from the
// toolbox's while tools run. What both use is passed from one to the other with the work, so only
// what the client's thread reaches (cancel, pause) needs the lock.

namespace tenon::chat {
namespace {

using Clock = std::chrono::steady_clock;
using message::ChatEvent;
using message::ChatRequest;
using message::FinishReason;
using message::Message;
using message::Role;
using message::ServerTool;
using message::TokenLogprob;
using message::Tool;
using message::ToolCall;

constexpr std::string_view kNotApproved = "Error: the user did not approve this call";
constexpr std::string_view kCodeLeft =
    "Error: this code has not come to its end, and what it gave is not known";
constexpr std::string_view kCannotApprove =
    "Error: this call needs the user's approval, which cannot be asked for here";

constexpr std::size_t kMostCodes = 16;  // programs that one answer of the model runs

/// What the requests of one model share; it outlives all of them.
struct Common {
  Common(const std::shared_ptr<Model>& of, const std::shared_ptr<Toolbox>& box,
         const ServerToolsOptions& chosen)
      : model(of), tools(box), options(chosen), hosts(chosen.version) {}

  std::weak_ptr<Model> model;
  std::weak_ptr<Toolbox> tools;
  ServerToolsOptions options;
  Hosts hosts;
  std::shared_ptr<CodeNotes> notes = std::make_shared<CodeNotes>();
  std::shared_ptr<CompiledSchemas> schemas = std::make_shared<CompiledSchemas>();
  std::atomic<std::uint32_t> waiting = 0;  // requests whose tools run
};

/// How a tool of ours is treated in one request.
struct Own {
  ServerTool tool;
  bool needs_approval = false;
  bool is_shown = false;   // the client sees its calls
  bool is_hosted = false;  // of a server that the request names
  bool for_model = true;
  bool for_code = false;

  [[nodiscard]] bool is_code() const { return tool.server == message::kCodeServer; }
};

// The tools that code may call; those that nothing else may call are taken out of the request.
// `own_of` says how a tool of ours is treated; null: it is the client's.
std::shared_ptr<const CodeFunctions> take_functions(
    ChatRequest& request, const std::function<const Own*(const Tool&)>& own_of) {
  std::vector<Tool> functions;
  std::vector<Tool> others;
  for (Tool& tool : request.tools) {
    const Own* const own = own_of(tool);
    // A call that waits for an approval would have to end the code.
    const bool for_code = own == nullptr ? tool.for_code : own->for_code && !own->needs_approval;
    const bool for_model = own == nullptr ? tool.for_model : own->for_model;
    if (for_code) functions.push_back(tool);
    if (for_model) others.push_back(std::move(tool));
  }
  request.tools = std::move(others);
  return std::make_shared<const CodeFunctions>(std::move(functions));
}

/// The tool that runs code, as one of the server's. Its calls are run by CodeRun.
class CodeSource final : public ToolSource {
 public:
  CodeSource(const std::string& name, const CodeFunctions& functions)
      : tool_(message::function_tool(
            name, functions.description(),
            json::Object{{"type", "object"},
                         {"properties",
                          json::Object{{"code", json::Object{{"type", "string"},
                                                             {"description", "Python code"}}}}},
                         {"required", json::Array{"code"}},
                         {"additionalProperties", false}})) {}
  [[nodiscard]] const Tool& tool() const { return tool_; }
  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] std::uint64_t version() const override { return 1; }
  [[nodiscard]] Expected<std::vector<Tool>> tools(const ToolContext& /*context*/) override {
    return std::vector<Tool>{tool_};
  }
  [[nodiscard]] Expected<ToolOutput> call(const std::string& /*tool*/,
                                          const json::Object& /*arguments*/,
                                          const ToolContext& /*context*/) override {
    return Unexpected(Error{Errc::unsupported, "code is not run here"});
  }

 private:
  const std::string name_{message::kCodeServer};
  const Tool tool_;
};

// The Diagnostic of a call that was run.
const char* code_of_run(const ToolResult& result) {
  if (result.is_error) return "tool_failed";
  return result.is_remembered ? "remembered_tool" : "ran_tool";
}

ToolResult not_run(const ToolCall& call, const std::string& why) {
  return {.tool_call_id = call.id, .output = "Error: " + why, .is_error = true};
}

// The code of a call; nullopt if its arguments are others.
std::optional<std::string> code_of(const ToolCall& call) {
  const auto arguments = json::parse(call.arguments);
  const json::Value* const code = arguments ? arguments->find("code") : nullptr;
  if (code == nullptr || code->if_string() == nullptr) return std::nullopt;
  return *code->if_string();
}

// Whether a tool is in a list of names, as models see it or as its server has it.
bool names_tool(const std::vector<std::string>& names, const std::string& name,
                const ToolOrigin& origin) {
  return std::ranges::find(names, name) != names.end() ||
         std::ranges::find(names, origin.tool) != names.end();
}

// Whether calls of a tool wait for the client. The two lists go before the rule, and `always` goes
// before `never`. The rule between "always" and "never" asks for all tools but those that their
// server calls read-only.
bool needs_approval(const message::Approvals& approvals, const std::string& name,
                    const ToolOrigin& origin) {
  if (names_tool(approvals.always, name, origin)) return true;
  if (names_tool(approvals.never, name, origin) ||
      approvals.rule == message::Approvals::Rule::never) {
    return false;
  }
  return approvals.rule == message::Approvals::Rule::always || !only_reads(origin.annotations);
}

/// One request; the sink of all of its answers, one after the other.
class Request final : public message::ChatSinkBefore, public std::enable_shared_from_this<Request> {
 public:
  Request(std::shared_ptr<Common> common, std::string_view model, ChatRequest request,
          ToolSet known, std::shared_ptr<message::ChatSink> sink)
      : ChatSinkBefore(sink),
        common_(std::move(common)),
        span_(agent_span(model)),
        ours_(std::move(known)),
        request_(std::move(request)),
        sink_(std::move(sink)) {
    if (common_->options.time_limit.count() > 0) {
      deadline_ = Clock::now() + common_->options.time_limit;
    }
    if (common_->options.remembers) memory_ = std::make_shared<ToolMemory>();
    const message::Approvals& approvals = common_->options.approvals;
    // A client that approves calls of some of our tools must see them. Then it sees those of all.
    // One whose tools are called from code goes on with another request, which needs them, too.
    const bool is_shown = approvals.rule != message::Approvals::Rule::never ||
                          !approvals.always.empty() || request_.code;
    for (const message::Tool& tool : ours_.list()) {
      const ToolOrigin* const origin = ours_.origin(tool.name);
      note(tool.name, approvals,
           {.is_shown = is_shown,
            .for_code =
                origin != nullptr && names_tool(common_->options.code_calls, tool.name, *origin)});
    }
  }

  void on_event(const ChatEvent& event, const std::vector<TokenLogprob>& logprobs) override;

  /// Asks the servers that the request names for their tools, and then begins.
  void look_up(const Toolbox& tools);
  /// Runs the calls that wait for it, or asks the model on this thread.
  [[nodiscard]] Result<void, Refusal> begin(Model& model);
  void cancel();
  void set_paused(bool value);
  void detach();

 private:
  /// A call in the messages that has no result.
  struct Open {
    std::size_t message = 0;  // index of the message with the call
    ToolCall call;
    bool runs = false;
    std::string result;  // if it does not run
    AuditDecision decision = AuditDecision::undecided;
  };
  /// Calls of ours that have been run.
  struct Ran {
    std::vector<ToolCall> calls;
    std::vector<std::optional<ToolResult>> results;       // absent: its code waits
    std::vector<std::pair<std::string, ToolCall>> waits;  // for the client, with the code's call
    std::optional<Error> not_run;                         // why code could not go on now
  };

  [[nodiscard]] Result<void, Refusal> ask(Model& model);
  void begin_later();
  void note(const std::string& name, const message::Approvals& approvals, Own own);
  void take_code();
  void offer_code();
  [[nodiscard]] const Own* own_of(std::string_view name) const;
  [[nodiscard]] bool is_code(const ToolCall& call) const;
  void add_hosted(const message::HostedServer& server, Expected<HostedTools> found);
  void name_tools();
  void show_tools(const ToolSet& tools);
  void tell_strange_results();
  [[nodiscard]] std::vector<Open> open_calls() const;
  void run_open(const Toolbox& tools, std::vector<Open> open);
  void answer_open(const std::vector<Open>& open, std::vector<ToolResult> results);
  void pass_text(const ChatEvent& event, const std::vector<TokenLogprob>& logprobs);
  void pass_call(const ChatEvent& event, std::uint32_t index,
                 const std::vector<TokenLogprob>& logprobs);
  void begin_own(const message::CallBegin& begin);
  void end_round(const message::Finish& finish, const std::vector<TokenLogprob>& logprobs);
  void run_tools();
  void run_calls(const Toolbox& tools, std::vector<ToolCall> calls, std::function<void(Ran)> done);
  void run_code(const std::shared_ptr<Ran>& ran, std::size_t index,
                const std::function<void(Ran)>& done);
  void start_code(const Ran& ran, std::size_t index, CodeRun::Done done);
  void take_outcome(Ran& ran, std::size_t index, CodeOutcome outcome);
  void wait_for_code(const Ran& ran);
  void tell_inner(const ToolCall& call, const ToolResult& result);
  void show_result(const std::string& id, const Own& own, const ToolResult& result);
  void go_on(std::vector<ToolResult> results);
  void tell(const ToolCall& call, const ToolResult& result, AuditDecision decision);
  void audit(const ToolCall& call, AuditDecision decision, const ToolResult* result);
  void wait_for_approvals(const std::vector<ToolCall>& calls);
  void ask_again();
  void end(message::Finish finish, const std::vector<TokenLogprob>& logprobs = {});
  void forget_tools();

  const std::shared_ptr<Common> common_;
  const std::string about_{log::about()};
  trace::Span span_;  // ends with the last event
  const trace::Context trace_ = span_ ? span_.context() : trace::current();

  // Used by the thread that the events come from; between two answers, by the toolbox's.
  ToolSet ours_;  // the server's tools, and those of servers that the request names
  std::map<std::string, Own, std::less<>> own_;
  ChatRequest request_;
  std::size_t first_new_ = 0;  // the first message that is not the client's
  std::shared_ptr<message::ChatSink> sink_;
  Clock::time_point deadline_ = Clock::time_point::max();
  std::shared_ptr<ToolSearch> search_;                 // null: no tool is searched for
  std::shared_ptr<ToolMemory> memory_;                 // null: each call is run
  std::shared_ptr<const CodeFunctions> functions_;     // null: no code is run
  std::set<std::string, std::less<>> only_code_;       // tools that nothing else may call
  std::map<std::string, CodeResult> code_results_;     // by the id of the call
  message::Fold round_;                                // the present answer, all of it
  std::vector<std::optional<std::uint32_t>> numbers_;  // its calls: the client's index, or ours
  std::uint32_t calls_ = 0;                            // calls that were passed to the client
  std::size_t rounds_ = 0;                             // answers that have ended
  std::size_t run_ = 0;                                // calls of our tools that were run
  bool has_text_ = false;                              // an earlier round had text
  bool has_text_now_ = false;
  message::Usage usage_;

  std::mutex mutex_;  // guards the members below
  std::unique_ptr<Answer> answer_;
  std::size_t number_ = 0;  // the number of the answer that answer_ is, or will be
  const CancelToken cancel_;
  bool is_paused_ = false;
};

// ---- before the first answer

// Keeps how a tool of ours_ is treated. `name` is the model's name for it.
void Request::note(const std::string& name, const message::Approvals& approvals, Own own) {
  const ToolOrigin* const origin = ours_.origin(name);
  if (origin == nullptr) return;
  own.tool = {.server = origin->source, .tool = origin->tool};
  own.needs_approval = needs_approval(approvals, name, *origin);
  own_.insert_or_assign(name, std::move(own));
}

const Own* Request::own_of(std::string_view name) const {
  const auto found = own_.find(name);
  return found == own_.end() ? nullptr : &found->second;
}

bool Request::is_code(const ToolCall& call) const {
  const Own* const own = own_of(call.name);
  return own != nullptr && own->is_code();
}

// Asks the servers that the request names. The toolbox has threads, limits and cancellation, so
// each question is a call of a tool "list", made up here, with the index of the server as its
// argument; the toolbox runs them at the same time. Their true results are in `found`, because a
// ToolResult is only text. `waiting` counts the request as one under way until it has begun.
void Request::look_up(const Toolbox& tools) {
  constexpr std::chrono::seconds kMost{30};
  struct Found {
    std::mutex mutex;
    std::map<std::string, Expected<HostedTools>> tools;  // guarded by mutex
  };
  const auto found = std::make_shared<Found>();
  // A look-up that is given up may run on while the request goes on, so it has copies.
  const auto servers = std::make_shared<const std::vector<message::HostedServer>>(request_.servers);
  const std::string kList = "list";
  const ToolSet lists = ToolSet::of(
      kList,
      [common = common_, owner = request_.owner, servers, found](
          const json::Object& arguments, const ToolContext& context) -> Expected<ToolOutput> {
        const auto index =
            static_cast<std::size_t>(arguments.find("index")->if_number()->to_int64().value_or(0));
        const message::HostedServer& server = servers->at(index);
        auto told = common->hosts.tools(owner, server, context);
        const std::lock_guard lock(found->mutex);
        found->tools.emplace(server.label, std::move(told));
        return ToolOutput{};
      });
  std::vector<ToolCall> calls;
  for (std::size_t i = 0; i < servers->size(); ++i) {
    calls.push_back({.id = servers->at(i).label,
                     .name = kList,
                     .arguments = "{\"index\": " + std::to_string(i) + "}"});
  }
  common_->waiting.fetch_add(1);
  tools.start(lists, calls,
              [self = shared_from_this(), servers, found](const std::vector<ToolResult>& results) {
                {
                  const std::lock_guard lock(found->mutex);
                  for (const message::HostedServer& server : *servers) {
                    const auto told = found->tools.find(server.label);
                    if (told != found->tools.end()) {
                      self->add_hosted(server, std::move(told->second));
                      continue;
                    }
                    // The question ended without an answer of ours: the toolbox says why, such as
                    // "took longer".
                    const auto result =
                        std::ranges::find(results, server.label, &ToolResult::tool_call_id);
                    self->add_hosted(server, Unexpected(Error{Errc::unavailable, result->output}));
                  }
                }
                self->begin_later();
                self->common_->waiting.fetch_sub(1);
              },
              {.cancel = cancel_, .deadline = std::min(deadline_, Clock::now() + kMost)});
}

// Adds the tools of one server, or tells the client that it has none and why. A client that has the
// list from an earlier answer (is_listed) is told of a failure only.
void Request::add_hosted(const message::HostedServer& server, Expected<HostedTools> found) {
  message::ServerTools told{.server = server.label, .tools = {}, .error = {}};
  if (found) {
    // with() gives tools whose names are taken other names, so the new ones are found by
    // comparison.
    const ToolSet before = ours_;
    ours_ = ours_.with(found->source, found->tools);
    for (const message::Tool& tool : ours_.list()) {
      if (before.has(tool.name)) continue;
      note(tool.name, server.approvals,
           {.is_shown = true,
            .is_hosted = true,
            .for_model = server.for_model,
            .for_code = server.for_code});
    }
    told.tools = std::move(found->listed);
  } else {
    told.error = utf8::sanitized(found.error().message);
    // Only Responses has a place for a list of tools. This is told in every dialect.
    sink_->on_event(message::Diagnostic{"server_without_tools", server.label + ": " + told.error},
                    {});
    log::warn("the tools of a server that a request names are not told: " +
              std::string(log::content(told.error)));
  }
  if (!server.is_listed || !told.error.empty()) sink_->on_event(told, {});
}

void Request::begin_later() {
  const log::About about(about_);
  const trace::Scope scope(trace_);
  request_.servers.clear();  // with their headers, which nothing needs any more
  const auto model = common_->model.lock();
  if (model == nullptr || cancel_.is_cancelled()) return end({.reason = FinishReason::cancelled});
  if (auto begun = begin(*model); !begun) {
    end({.reason = FinishReason::error, .error = begun.error().error});
  }
}

// Gives calls and choices of servers' tools the names that these have for the model. A client of
// the Responses API writes the server's label and the tool's own name ("files", "read"); the model
// knows the tool as "read", or as "files_read" if that was taken.
void Request::name_tools() {
  using Key = std::pair<std::string_view, std::string_view>;  // server and tool
  std::map<Key, const std::string*> tools;
  for (const auto& [name, own] : own_) tools.emplace(Key(own.tool.server, own.tool.tool), &name);
  std::map<std::string_view, const std::string*> names;  // by the id of the call
  for (const auto& [id, tool] : request_.server_calls) {
    const auto found = tools.find(Key(tool.server, tool.tool));
    if (found != tools.end()) names.insert_or_assign(id, found->second);
  }
  for (Message& message : request_.messages) {
    for (ToolCall& call : message.tool_calls) {
      if (const auto found = names.find(call.id); found != names.end()) call.name = *found->second;
    }
  }
  for (const ServerTool& chosen : request_.chosen_tools) {
    for (const auto& [name, own] : own_) {
      const bool is_chosen =
          own.tool.server == chosen.server && (chosen.tool.empty() || own.tool.tool == chosen.tool);
      if (is_chosen && ours_.has(name)) request_.tool_choice.allowed.push_back(name);
    }
  }
}

// All of ours, also those that give way to a client's tool of the same name: a replay needs them to
// give the others the same names.
void Request::show_tools(const ToolSet& tools) {
  if (!watches()) return;
  const ServerToolsOptions& options = common_->options;
  message::OwnTools shown{
      .tools = {},
      .are_shown = std::ranges::any_of(own_, [](const auto& one) { return one.second.is_shown; }),
      .are_remembered = options.remembers,
      .max_rounds = options.max_rounds,
      .max_calls = options.max_calls,
      .searches = options.search.is_on,
      .search_from = options.search.from,
      .most_found = options.search.most_found};
  for (const message::Tool& tool : tools.list()) {
    const Own* const own = own_of(tool.name);
    if (own == nullptr) continue;
    shown.tools.push_back({.tool = &tool,
                           .server = own->tool.server,
                           .name = own->tool.tool,
                           .needs_approval = own->needs_approval,
                           .is_hosted = own->is_hosted});
  }
  on_own_tools(shown);
}

// The order matters: client's tools take names first (beside), calls of the history are renamed
// before the search looks at which tools the history uses, and open_calls() needs the names, too.
Result<void, Refusal> Request::begin(Model& model) {
  const ToolSet all = ours_;
  show_tools(all);
  std::vector<Tool> clients = request_.tools;
  if (request_.code) clients.push_back({.name = request_.code->name});
  ours_ = all.beside(clients);
  request_.tools.insert(request_.tools.end(), ours_.list().begin(), ours_.list().end());
  ours_.add_instructions(request_.messages);
  name_tools();
  if (request_.code) take_code();
  search_ = ToolSearch::of(request_, common_->options.search);
  if (search_ != nullptr) {
    ours_ = ours_.with(search_, {search_->tool()});
    note(search_->tool().name, {}, {});
  }
  if (functions_ != nullptr) offer_code();
  if (!request_.decisions.empty()) tell_strange_results();
  std::vector<Open> open = open_calls();
  first_new_ = request_.messages.size();
  if (std::ranges::none_of(open, &Open::runs)) {
    answer_open(open, {});
    return ask(model);
  }
  // Null: the model is being closed.
  const auto tools = common_->tools.lock();
  if (tools == nullptr) return ask(model);
  run_open(*tools, std::move(open));
  return {};
}

// Takes away the tools that only code may call.
void Request::take_code() {
  functions_ = take_functions(request_, [this](const Tool& tool) -> const Own* {
    return ours_.has(tool.name) ? own_of(tool.name) : nullptr;
  });
  for (const Tool& tool : functions_->tools()) {
    const bool is_offered =
        std::ranges::find(request_.tools, tool.name, &Tool::name) != request_.tools.end();
    if (!is_offered) only_code_.insert(tool.name);
  }
}

// Adds the tool that runs code. It comes behind the search, which would search for it, too.
void Request::offer_code() {
  const auto source = std::make_shared<CodeSource>(request_.code->name, *functions_);
  ours_ = ours_.with(source, {source->tool()});
  note(request_.code->name, {}, {.is_shown = true});
  request_.tools.push_back(source->tool());
}

// ---- calls that were decided on

// A client that sends a result beside an approval means to answer a call. Where its id is of no
// call, the call goes without that result, and the client is told so.
void Request::tell_strange_results() {
  std::set<std::string_view> calls;
  for (const Message& message : request_.messages) {
    for (const ToolCall& call : message.tool_calls) calls.insert(call.id);
    if (message.role != Role::tool || calls.contains(message.tool_call_id)) continue;
    sink_->on_event(
        message::Diagnostic{"result_without_call", "no message before has the call " +
                                                       json::quoted(message.tool_call_id) +
                                                       " that a result is of"},
        {});
  }
}

// The calls of ours in the messages that have no result: those that waited for the client's
// approval. Each gets a result, because templates and models expect one for every call. Those that
// were approved run, if they are in the assistant's last message; for an older one it is too late.
std::vector<Request::Open> Request::open_calls() const {
  std::vector<Open> open;
  const std::vector<Message>& messages = request_.messages;
  std::size_t last = messages.size();  // the assistant's last message
  for (std::size_t i = messages.size(); i-- > 0 && last == messages.size();) {
    if (messages[i].role == Role::assistant) last = i;
  }
  std::set<std::string_view> hosted;
  for (const auto& [id, tool] : request_.server_calls) hosted.insert(id);
  std::set<std::string_view> with_result;
  for (const Message& message : messages) {
    if (message.role == Role::tool) with_result.insert(message.tool_call_id);
  }
  std::set<std::string_view> waiting;  // code with calls
  for (const message::CodeCall& one : request_.code_calls) waiting.insert(one.code_id);
  std::map<std::string_view, const message::Decision*> decisions;
  for (const message::Decision& one : request_.decisions) decisions.emplace(one.call_id, &one);
  // A decision names an id. Where several calls of the answer have it, it does not say which of
  // them it is about, so none of them runs.
  std::map<std::string_view, std::size_t> uses;
  if (last < messages.size()) {
    for (const ToolCall& call : messages[last].tool_calls) ++uses[call.id];
  }
  for (std::size_t i = 0; i < messages.size(); ++i) {
    for (const ToolCall& call : messages[i].tool_calls) {
      const Own* const own = own_of(call.name);
      const auto found = decisions.find(call.id);
      const bool is_decided = found != decisions.end();
      if (is_code(call) && !with_result.contains(call.id)) {
        // It waits for calls of the client's tools, which are in this request. Without such calls
        // it was cut while the model wrote it, or what it did is not known, and it does not run.
        const bool waits = waiting.contains(call.id);
        // Where several have its id, it is not known which of them has made the calls.
        open.push_back({.message = i,
                        .call = call,
                        .runs = i == last && waits && uses[call.id] == 1,
                        .result = std::string(kCodeLeft),
                        .decision = AuditDecision::not_needed});
        continue;
      }
      // A call is ours if the client said that it was one of a hosted server, or if only our
      // approval rules explain why it has no result. Any other open call is the client's own
      // business.
      const bool is_ours =
          hosted.contains(call.id) ||
          (own != nullptr && (own->needs_approval || (is_decided && own->is_hosted)));
      if (!is_ours || with_result.contains(call.id)) continue;
      const message::Decision* const decision = is_decided ? found->second : nullptr;
      Open one{.message = i, .call = call, .runs = false, .result = std::string(kNotApproved)};
      if (is_decided && decision->approves) {
        one.decision = AuditDecision::approved;
        // Otherwise a client could write a call of any tool of the operator's, and have it run. The
        // servers that the request names are the client's own.
        one.runs = i == last && (own == nullptr || own->needs_approval || own->is_hosted);
        one.result = "Error: the result of this call is not known";
        if (one.runs && uses[call.id] > 1) {
          one.runs = false;
          one.decision = AuditDecision::refused;
          one.result =
              "Error: several calls have the id of this one, so it is not known which of them was "
              "approved; none was run";
        }
      } else if (is_decided) {
        one.decision = AuditDecision::refused;
        if (!decision->reason.empty()) one.result += ": " + decision->reason;
      }
      open.push_back(std::move(one));
    }
  }
  return open;
}

void Request::run_open(const Toolbox& tools, std::vector<Open> open) {
  std::vector<ToolCall> calls;
  for (const Open& one : open) {
    if (!one.runs) continue;
    calls.push_back(one.call);
    const Own* const own = own_of(one.call.name);
    if (own == nullptr || !own->is_shown || own->is_code()) continue;
    sink_->on_event(
        message::ServerCallBegin{.id = one.call.id, .tool = own->tool, .was_approved = true}, {});
    if (one.call.arguments.empty()) continue;
    sink_->on_event(message::ServerCallArguments{.id = one.call.id, .text = one.call.arguments},
                    {});
  }
  run_calls(tools, std::move(calls), [self = shared_from_this(), open = std::move(open)](Ran ran) {
    if (ran.not_run) return self->end({.reason = FinishReason::error, .error = *ran.not_run});
    if (!ran.waits.empty()) return self->wait_for_code(ran);
    std::vector<ToolResult> results;
    for (auto& one : ran.results) results.push_back(std::move(*one));
    self->answer_open(open, std::move(results));
    self->ask_again();
  });
}

// Each result comes behind the message with its call, and behind the results that are there.
void Request::answer_open(const std::vector<Open>& open, std::vector<ToolResult> results) {
  std::map<std::size_t, std::vector<Message>> added;  // by the message with the calls
  auto result = results.begin();
  for (const Open& one : open) {
    // `results` has one entry for each call that runs, in the order of `open`.
    ToolResult given{.tool_call_id = one.call.id, .output = one.result, .is_error = true};
    if (one.runs && result != results.end()) {
      given = std::move(*result++);
      tell(one.call, given, one.decision);
      ++run_;
    } else {
      audit(one.call, one.decision, nullptr);
    }
    Message& message =
        added[one.message].emplace_back(message::tool_result(one.call, std::move(given.output)));
    if (given.is_error) message.extra.set("is_error", true);
  }
  std::vector<Message>& messages = request_.messages;
  // From the back, so that the indices before stay right.
  for (auto at = added.rbegin(); at != added.rend(); ++at) {
    std::size_t place = at->first + 1;
    while (place < messages.size() && messages[place].role == Role::tool) ++place;
    if (place < first_new_) first_new_ += at->second.size();
    messages.insert(messages.begin() + static_cast<std::ptrdiff_t>(place), at->second.begin(),
                    at->second.end());
  }
}

// ---- events of an answer

// The model numbers the calls of each answer from 0. The client gets one answer made of several,
// without our calls: numbers_ has the client's number for each, or nothing for one of ours.
void Request::on_event(const ChatEvent& event, const std::vector<TokenLogprob>& logprobs) {
  round_.add(event);
  if (const auto* const finish = std::get_if<message::Finish>(&event)) {
    return end_round(*finish, logprobs);
  }
  if (const auto* const begin = std::get_if<message::CallBegin>(&event)) {
    const bool is_ours = ours_.has(begin->name) || only_code_.contains(begin->name);
    numbers_.push_back(is_ours ? std::nullopt : std::optional(calls_++));
    if (is_ours) begin_own(*begin);
    pass_call(event, begin->index, logprobs);
  } else if (const auto* const arguments = std::get_if<message::CallArguments>(&event)) {
    pass_call(event, arguments->index, logprobs);
  } else if (const auto* const call_end = std::get_if<message::CallEnd>(&event)) {
    pass_call(event, call_end->index, logprobs);
  } else if (std::holds_alternative<message::ContentDelta>(event)) {
    pass_text(event, logprobs);
    // The diagnostic on control tokens in data would come again with each round; once is enough.
  } else if (rounds_ == 0 || !std::holds_alternative<message::Diagnostic>(event) ||
             std::get<message::Diagnostic>(event).code != kTaintUnenforced) {
    sink_->on_event(event, logprobs);
  }
}

// A blank line separates the texts of two rounds.
void Request::pass_text(const ChatEvent& event, const std::vector<TokenLogprob>& logprobs) {
  if (has_text_ && !has_text_now_) sink_->on_event(message::ContentDelta{"\n\n"}, {});
  has_text_now_ = true;
  sink_->on_event(event, logprobs);
}

// Shows the beginning of a call that we run. One that needs approval is shown as ApprovalsWanted.
void Request::begin_own(const message::CallBegin& begin) {
  const Own* const own = own_of(begin.name);
  if (own == nullptr || !own->is_shown || own->needs_approval) return;
  sink_->on_event(message::ServerCallBegin{.id = begin.id, .tool = own->tool}, {});
}

void Request::pass_call(const ChatEvent& event, std::uint32_t index,
                        const std::vector<TokenLogprob>& logprobs) {
  const auto number = numbers_.at(index);
  if (!number) {
    // One of ours: of its events, the client sees the arguments, if it sees the call at all.
    const auto* const arguments = std::get_if<message::CallArguments>(&event);
    const ToolCall& call = round_.message().tool_calls.at(index);
    const Own* const own = own_of(call.name);
    if (arguments == nullptr || own == nullptr || !own->is_shown || own->needs_approval) return;
    return sink_->on_event(message::ServerCallArguments{.id = call.id, .text = arguments->text},
                           {});
  }
  ChatEvent told = event;
  std::visit(
      [&](auto& one) {
        if constexpr (requires { one.index; }) one.index = *number;
      },
      told);
  sink_->on_event(told, logprobs);
}

// Decides whether the request goes on. With calls of both kinds it ends, and ours are not run: the
// client answers its own calls with a new request, which would have no results for ours.
void Request::end_round(const message::Finish& finish, const std::vector<TokenLogprob>& logprobs) {
  ++rounds_;
  usage_ += finish.usage;
  const bool has_ours = std::ranges::any_of(numbers_, [](const auto& one) { return !one; });
  if (finish.reason == FinishReason::tool_calls && has_ours) {
    if (calls_ == 0) return run_tools();
    const auto& calls = round_.message().tool_calls;
    for (std::size_t i = 0; i < calls.size(); ++i) {
      if (numbers_[i]) continue;
      const std::string why =
          calls[i].name + " was not run, since the answer has calls of the client's tools, too";
      const Own* const own = own_of(calls[i].name);
      if (own != nullptr && !own->needs_approval) {
        show_result(calls[i].id, *own, {.output = why, .is_error = true});
      }
      sink_->on_event(message::Diagnostic{"left_call", why}, {});
    }
  }
  end(finish, logprobs);
}

void Request::end(message::Finish finish, const std::vector<TokenLogprob>& logprobs) {
  finish.usage = usage_;
  // The format is that of the calls in the answer, and the client sees no call.
  if (calls_ == 0) finish.format.clear();
  end_agent_span(span_, finish);
  sink_->on_event(finish, logprobs);
  sink_.reset();
}

// ---- our tools

// Runs the calls of the round that need no approval; go_on() deals with the others. Without the
// toolbox the server is shutting down.
void Request::run_tools() {
  const auto tools = common_->tools.lock();
  if (tools == nullptr) return end({.reason = FinishReason::cancelled});
  has_text_ = has_text_ || has_text_now_;
  std::vector<ToolCall> calls;
  for (const ToolCall& call : round_.message().tool_calls) {
    const Own* const own = own_of(call.name);
    if (own == nullptr || !own->needs_approval) calls.push_back(call);
  }
  run_calls(*tools, std::move(calls), [self = shared_from_this()](Ran ran) {
    if (!ran.waits.empty()) return self->wait_for_code(ran);
    std::vector<ToolResult> results;
    for (auto& one : ran.results) results.push_back(std::move(*one));
    self->go_on(std::move(results));
  });
}

// Runs calls of ours, and passes on what they gave: first the tools of servers, all at the same
// time, then code, one after the other.
void Request::run_calls(const Toolbox& tools, std::vector<ToolCall> calls,
                        std::function<void(Ran)> done) {
  std::vector<ToolCall> others;
  for (const ToolCall& call : calls) {
    if (!is_code(call) && !only_code_.contains(call.name)) others.push_back(call);
  }
  common_->waiting.fetch_add(1);
  auto then = [self = shared_from_this(), calls = std::move(calls),
               done = std::move(done)](std::vector<ToolResult> results) {
    auto ran =
        std::make_shared<Ran>(Ran{.calls = calls, .results = {}, .waits = {}, .not_run = {}});
    auto result = results.begin();
    std::size_t codes = 0;
    for (const ToolCall& call : calls) {
      if (!self->is_code(call)) {
        ran->results.emplace_back(self->only_code_.contains(call.name)
                                      ? not_run(call, "only code may call this tool")
                                      : std::move(*result++));
      } else if (++codes > kMostCodes) {
        ran->results.emplace_back(not_run(call, "an answer may run " + std::to_string(kMostCodes) +
                                                    " programs; put them into one"));
      } else {
        ran->results.emplace_back();
      }
    }
    self->run_code(ran, 0, [self, done](Ran all) {
      const log::About about(self->about_);
      const trace::Scope scope(self->trace_);
      done(std::move(all));
      self->common_->waiting.fetch_sub(1);
    });
  };
  const trace::Scope scope(trace_);
  if (others.empty()) {
    // This may be an engine's thread, on which the model must not be asked again: a call of nothing
    // takes this to a thread of the toolbox.
    const std::string kNothing = "nothing";
    const ToolSet nothing =
        ToolSet::of(kNothing, [](const json::Object&, const ToolContext&) -> Expected<ToolOutput> {
          return ToolOutput{};
        });
    return tools.start(
        nothing, {{.id = kNothing, .name = kNothing, .arguments = "{}"}},
        [then = std::move(then)](const std::vector<ToolResult>&) mutable { then({}); });
  }
  tools.start(ours_, others, std::move(then),
              {.cancel = cancel_, .deadline = deadline_, .memory = memory_});
}

// Runs the code of the calls from `index` on that have no result yet. Code that ends before its
// start returns is gone on with by this loop, so that many of them need no more of the stack.
void Request::run_code(const std::shared_ptr<Ran>& ran, std::size_t index,
                       const std::function<void(Ran)>& done) {
  for (; index < ran->calls.size() && !ran->not_run; ++index) {
    if (ran->results[index]) continue;
    // Start and the answer to it: the second of them goes on.
    const auto is_second = std::make_shared<std::atomic<bool>>(false);
    start_code(*ran, index,
               [self = shared_from_this(), ran, index, done, is_second](CodeOutcome outcome) {
                 self->take_outcome(*ran, index, std::move(outcome));
                 if (is_second->exchange(true)) self->run_code(ran, index + 1, done);
               });
    if (!is_second->exchange(true)) return;
  }
  done(std::move(*ran));
}

void Request::take_outcome(Ran& ran, std::size_t index, CodeOutcome outcome) {
  const std::string& id = ran.calls[index].id;
  for (const auto& [called, result] : outcome.ran) tell_inner(called, result);
  for (ToolCall& call : outcome.waits) ran.waits.emplace_back(id, std::move(call));
  ran.not_run = std::move(outcome.not_run);
  if (!outcome.waits.empty() || ran.not_run) return;
  code_results_[id] = outcome.result;
  ran.results[index] =
      ToolResult{.tool_call_id = id,
                 .output = message::code_output(outcome.result.out, outcome.result.err),
                 .is_error = outcome.result.is_error};
}

void Request::start_code(const Ran& ran, std::size_t index, CodeRun::Done done) {
  const ToolCall& call = ran.calls[index];
  const auto code = code_of(call);
  if (!code) {
    return done({.result = {.out = {},
                            .err = "Error: the arguments must be {\"code\": \"...\"}",
                            .is_error = true}});
  }
  std::vector<message::CodeCall> earlier;
  for (const message::CodeCall& one : request_.code_calls) {
    if (one.code_id == call.id) earlier.push_back(one);
  }
  CodeRun::start(
      common_->options.code,
      {.code = *code,
       .functions = functions_,
       .runs_here =
           [self = shared_from_this()](const std::string& tool) { return self->ours_.has(tool); },
       .run_here =
           [self = shared_from_this()](const ToolCall& inner,
                                       std::function<void(ToolResult)> answer) {
             const auto box = self->common_->tools.lock();
             if (box == nullptr) {
               return answer({.output = "the server is being stopped", .is_error = true});
             }
             box->start(
                 self->ours_, {inner},
                 [answer = std::move(answer)](std::vector<ToolResult> results) {
                   answer(std::move(results.front()));
                 },
                 {.cancel = self->cancel_, .deadline = self->deadline_, .memory = self->memory_});
           },
       .owner = request_.owner,
       .earlier = std::move(earlier),
       .notes = common_->notes,
       .schemas = common_->schemas,
       .limits = common_->options.code_limits,
       .id_prefix = request_.call_id_prefix,
       .parallel = request_.parallel_tool_calls,
       .cancel = cancel_,
       .deadline = deadline_},
      std::move(done));
}

// Code has called tools of the client's: the answer ends with those calls.
void Request::wait_for_code(const Ran& ran) {
  for (std::size_t i = 0; i < ran.calls.size(); ++i) {
    if (ran.results[i]) tell(ran.calls[i], *ran.results[i], AuditDecision::not_needed);
  }
  // The client sees nothing of them, so the next request will not have them.
  for (const ToolCall& call : round_.message().tool_calls) {
    const Own* const own = own_of(call.name);
    if (own == nullptr || !own->needs_approval) continue;
    sink_->on_event(
        message::Diagnostic{"left_call", call.name + " was not run, since the answer ends with "
                                                     "calls that code has made"},
        {});
  }
  for (const auto& [code_id, call] : ran.waits) {
    const std::uint32_t index = calls_++;
    sink_->on_event(
        message::CallBegin{.index = index, .id = call.id, .name = call.name, .code_id = code_id},
        {});
    sink_->on_event(message::CallArguments{.index = index, .text = call.arguments}, {});
    sink_->on_event(message::CallEnd{.index = index}, {});
  }
  // Their arguments have been checked by their schemas.
  end({.reason = FinishReason::tool_calls,
       .guarantee = message::Guarantee::validated,
       .format = round_.finish().format});
}

// A call that code has made has been run here: as tell(), but the client sees only the code.
void Request::tell_inner(const ToolCall& call, const ToolResult& result) {
  const std::string outcome =
      (result.is_error ? " failed: " : " gave ") + std::to_string(result.output.size()) + " bytes";
  log::info((result.is_remembered ? "code did not run again: " : "code ran ") +
            std::string(log::content(call.name)) + outcome);
  sink_->on_event(message::Diagnostic{code_of_run(result), call.name + outcome}, {});
  audit(call, AuditDecision::not_needed, &result);
}

// From now on the model must answer without the server's tools.
void Request::forget_tools() {
  std::erase_if(request_.tools, [this](const auto& tool) { return ours_.has(tool.name); });
  if (request_.tools.empty()) request_.tool_choice.mode = message::ToolMode::automatic;
}

// Tells the recording and the audit log of a call; `result` is null if it did not run.
void Request::audit(const ToolCall& call, AuditDecision decision, const ToolResult* result) {
  if (watches()) {
    const Own* const shown = own_of(call.name);
    message::ToolRun run{.id = call.id,
                         .name = call.name,
                         .arguments = call.arguments,
                         .decision = audit_decision_name(decision),
                         .is_shown = shown != nullptr && shown->is_shown,
                         .has_run = result != nullptr};
    if (result != nullptr) {
      run.output = result->output;
      run.is_error = result->is_error;
      run.is_remembered = result->is_remembered;
      run.took = result->took;
    }
    on_tool_run(run);
  }
  AuditLog* const log = common_->options.audit.get();
  if (log == nullptr) return;
  const auto model = common_->model.lock();
  const Own* const own = own_of(call.name);
  AuditEntry entry{.owner = request_.owner,
                   .request = about_,
                   .model = model == nullptr ? std::string_view(request_.model) : model->name(),
                   .server = own == nullptr ? "" : std::string_view(own->tool.server),
                   .tool = own == nullptr ? call.name : std::string_view(own->tool.tool),
                   .arguments = call.arguments,
                   .decision = decision};
  if (result != nullptr) {
    entry.result = {
        .bytes = result->output.size(), .is_error = result->is_error, .took = result->took};
  }
  log->write(entry);
}

// Shows the client what a call gave, if it sees the call at all. It sees what code wrote to stdout
// and to stderr apart; why code was not run is told as its stderr.
void Request::show_result(const std::string& id, const Own& own, const ToolResult& result) {
  if (!own.is_shown) return;
  message::ServerCallResult told{.id = id, .output = result.output, .is_error = result.is_error};
  if (const auto code = code_results_.find(id); own.is_code() && code != code_results_.end()) {
    told.output = code->second.out;
    told.error_output = code->second.err;
  } else if (own.is_code()) {
    told.error_output = std::exchange(told.output, {});
  }
  sink_->on_event(told, {});
}

// A call has been run: the client, the log and the audit are told.
void Request::tell(const ToolCall& call, const ToolResult& result, AuditDecision decision) {
  const std::string outcome =
      (result.is_error ? " failed: " : " gave ") + std::to_string(result.output.size()) + " bytes";
  log::info((result.is_remembered ? "did not run again: " : "ran ") +
            std::string(log::content(call.name)) + outcome);
  sink_->on_event(message::Diagnostic{code_of_run(result), call.name + outcome}, {});
  const Own* const own = own_of(call.name);
  if (own != nullptr) show_result(call.id, *own, result);
  audit(call, decision, &result);
}

// Adds the answer and the results of its calls to the messages. `results` has an entry for each
// call that needs no approval, in order. Calls that wait for the client end the request here.
void Request::go_on(std::vector<ToolResult> results) {
  const log::About about(about_);
  const trace::Scope scope(trace_);
  const std::vector<ToolCall> calls = round_.message().tool_calls;
  request_.messages.push_back(round_.message());
  std::vector<ToolCall> waiting;
  auto result = results.begin();
  for (const ToolCall& call : calls) {
    const Own* const own = own_of(call.name);
    const bool waits = own != nullptr && own->needs_approval;
    if (waits && request_.can_approve) {
      waiting.push_back(call);
      continue;
    }
    ToolResult given{.output = std::string(kCannotApprove), .is_error = true};
    if (waits) {
      audit(call, AuditDecision::undecided, nullptr);
    } else {
      given = std::move(*result++);
      tell(call, given, AuditDecision::not_needed);
    }
    request_.messages.push_back(message::tool_result(call, std::move(given.output)));
    if (given.is_error) request_.messages.back().extra.set("is_error", true);
  }
  run_ += calls.size();
  if (!waiting.empty()) return wait_for_approvals(waiting);
  // The next prompt keeps the tokens that the model has made, instead of tokenising its text anew.
  request_.previous_token_ids = tokens_so_far(round_.finish());
  ask_again();
}

// Ends the answer with the calls that the client must decide on. The reason stays `tool_calls`.
void Request::wait_for_approvals(const std::vector<ToolCall>& calls) {
  message::ApprovalsWanted wanted;
  for (const ToolCall& call : calls) {
    wanted.calls.push_back({.call = call, .tool = own_of(call.name)->tool});
    audit(call, AuditDecision::asked, nullptr);
  }
  wanted.messages.assign(request_.messages.begin() + static_cast<std::ptrdiff_t>(first_new_),
                         request_.messages.end());
  sink_->on_event(wanted, {});
  message::Finish finish = round_.finish();
  finish.usage = usage_;
  end_agent_span(span_, finish);
  sink_->on_event(finish, {});
  sink_.reset();
}

// Begins the next round, unless the client has gone or the time is over. Before the last round the
// model loses our tools, so that it answers in words.
void Request::ask_again() {
  round_ = {};
  numbers_.clear();
  has_text_now_ = false;
  const auto model = common_->model.lock();
  if (model == nullptr || cancel_.is_cancelled()) return end({.reason = FinishReason::cancelled});
  if (Clock::now() >= deadline_) return end({.reason = FinishReason::length});
  const ServerToolsOptions& options = common_->options;
  if (search_ != nullptr) search_->add_found(request_.tools);
  // The call of the code was the one that had to be, if the model can call no tool of the client's.
  if (functions_ != nullptr && run_ > 0 &&
      std::ranges::all_of(request_.tools,
                          [this](const Tool& tool) { return ours_.has(tool.name); })) {
    request_.tool_choice.mode = message::ToolMode::automatic;
  }
  if (rounds_ + 1 >= options.max_rounds || run_ >= options.max_calls) forget_tools();
  if (auto asked = ask(*model); !asked) {
    log::warn("the model cannot go on: " + std::string(log::content(asked.error().error.message)));
    end({.reason = FinishReason::error, .error = asked.error().error});
  }
}

Result<void, Refusal> Request::ask(Model& model) {
  std::size_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    number = ++number_;
  }
  const trace::Scope scope(trace_);
  auto started = model.start(request_, shared_from_this());
  if (!started) return Failure<Refusal>(std::move(started.error()));
  // The answer may be over, and the next one under way, before it arrives here.
  std::unique_ptr<Answer> gone = *std::move(started);  // destroyed after the lock is released
  const std::lock_guard lock(mutex_);
  if (number != number_) return {};
  answer_.swap(gone);
  // pause() and cancel() of the client may have come while there was no answer to pass them to.
  if (is_paused_) answer_->pause();
  if (cancel_.is_cancelled()) answer_->cancel();
  return {};
}

void Request::cancel() {
  const std::lock_guard lock(mutex_);
  cancel_.cancel();
  if (answer_ != nullptr) answer_->cancel();
}

void Request::set_paused(bool value) {
  const std::lock_guard lock(mutex_);
  is_paused_ = value;
  if (answer_ != nullptr) value ? answer_->pause() : answer_->resume();
}

// The client no longer has the answer. `gone` is declared before the lock and so destroyed after
// it, as in ask().
void Request::detach() {
  std::unique_ptr<Answer> gone;
  const std::lock_guard lock(mutex_);
  cancel_.cancel();
  gone = std::move(answer_);
}

class RequestAnswer final : public Answer {
 public:
  explicit RequestAnswer(std::shared_ptr<Request> request) : request_(std::move(request)) {}
  ~RequestAnswer() override { request_->detach(); }
  RequestAnswer(const RequestAnswer&) = delete;
  RequestAnswer& operator=(const RequestAnswer&) = delete;

  void cancel() override { request_->cancel(); }
  void pause() override { request_->set_paused(true); }
  void resume() override { request_->set_paused(false); }

 private:
  const std::shared_ptr<Request> request_;
};

class ServerTools final : public ModelBefore {
 public:
  ServerTools(std::shared_ptr<Model> inner, std::shared_ptr<Toolbox> tools,
              const ServerToolsOptions& options)
      : ModelBefore(std::move(inner)),
        tools_(std::move(tools)),
        common_(std::make_shared<Common>(inner_, tools_, options)) {}
  ServerTools(const ServerTools&) = delete;
  ServerTools& operator=(const ServerTools&) = delete;
  ~ServerTools() override { tools_.reset(); }  // waits for running calls, which use the model

  // While a request's tools run, the model is still in use.
  engine::EngineStats stats() const override {
    engine::EngineStats stats = inner_->stats();
    stats.unfinished += common_->waiting.load();
    return stats;
  }
  Model* without_tools() override { return inner_.get(); }
  bool runs_code() const override { return common_->options.code != nullptr; }

  // As start() would prepare it. Tools of servers that the request names are not asked for here.
  Result<Prepared, Refusal> prepare(const ChatRequest& request) const override {
    if (!takes_tools(request)) {
      if (only_direct(request)) return inner_->prepare(request);
      return inner_->prepare(without_code(request));
    }
    ChatRequest with = request;
    const auto functions = add_tools(with);
    (void)ToolSearch::of(with, common_->options.search);
    if (functions != nullptr) with.tools.push_back(CodeSource(with.code->name, *functions).tool());
    return inner_->prepare(with);
  }

  Result<std::unique_ptr<Answer>, Refusal> start(const ChatRequest& request,
                                                 std::shared_ptr<message::ChatSink> sink) override {
    const bool is_hosted = common_->options.hosts && !request.servers.empty();
    if ((is_hosted || request.code) && format() == nullptr) {
      return refuse(Errc::unsupported, "no tool-call format is known for this model", "tools",
                    "tools_not_supported");
    }
    if (auto checked = check_code_tools(request); !checked) {
      return Failure<Refusal>(std::move(checked.error()));
    }
    if (!takes_tools(request)) {
      if (request.code && leaves_room_for_code(request)) {
        return refuse(Errc::unsupported,
                      "this model cannot run code here: " +
                          std::string(common_->options.max_rounds > 1
                                          ? "its engine takes no format of the answer beside tools"
                                          : "max_tool_rounds is 1, and code needs two answers"),
                      "tools", "unsupported_parameter");
      }
      // Tools that only code may call are offered in no other way.
      if (only_direct(request)) return inner_->start(request, std::move(sink));
      return inner_->start(without_code(request), std::move(sink));
    }
    ToolSet known = tools_->known_tools();
    if (const std::string label = label_of_ours(request, known); !label.empty()) {
      return refuse(Errc::invalid,
                    "this server has a server of tools " + json::quoted(label) +
                        " itself: choose another label",
                    "tools", "invalid_value");
    }
    // A tool of ours counts if no tool of the client has its name.
    const bool has_ours = std::ranges::any_of(known.list(), [&](const auto& tool) {
      return std::ranges::find(request.tools, tool.name, &message::Tool::name) ==
             request.tools.end();
    });
    const bool searches =
        ToolSearch::is_wanted(request, known.list().size(), common_->options.search);
    if (!is_hosted && !has_ours && !searches && !request.code && request.server_calls.empty()) {
      return inner_->start(request, std::move(sink));
    }
    auto asked =
        std::make_shared<Request>(common_, name(), request, std::move(known), std::move(sink));
    if (is_hosted) {
      asked->look_up(*tools_);
    } else if (auto started = asked->begin(*inner_); !started) {
      return Failure<Refusal>(std::move(started.error()));
    }
    return std::make_unique<RequestAnswer>(std::move(asked));
  }

 private:
  static bool only_direct(const ChatRequest& request) {
    return std::ranges::all_of(request.tools, &Tool::for_model);
  }
  // The schemas of tools that only code may call, as check_schemas() does it for the others.
  [[nodiscard]] Result<void, Refusal> check_code_tools(const ChatRequest& request) const {
    for (std::size_t i = 0; i < request.tools.size(); ++i) {
      const Tool& tool = request.tools[i];
      if (tool.for_model || tool.parameters.is_null()) continue;
      const CompiledSchemas::Compiled schema = common_->schemas->of(tool.parameters);
      if (*schema || schema->error().code != Errc::invalid) continue;
      return refuse(Errc::invalid, "tool '" + tool.name + "': " + schema->error().message,
                    "tools[" + std::to_string(i) + "].function.parameters", "invalid_value");
    }
    return {};
  }
  // Whether nothing in the request itself says that there is no code in its answer.
  static bool leaves_room_for_code(const ChatRequest& request) {
    return !request.continuation && request.prefill.empty() && request.prompt_token_ids.empty() &&
           request.tool_choice.mode != message::ToolMode::none &&
           request.tool_choice.allowed.empty();
  }
  static ChatRequest without_code(ChatRequest request) {
    std::erase_if(request.tools, [](const Tool& tool) { return !tool.for_model; });
    return request;
  }
  // The label of a server of the request that is the name of a source of `known`, so that nothing
  // would tell their calls apart; "" if no label is taken.
  static std::string label_of_ours(const ChatRequest& request, const ToolSet& known) {
    for (const message::HostedServer& server : request.servers) {
      const bool is_taken = std::ranges::any_of(known.list(), [&](const message::Tool& tool) {
        return known.origin(tool.name)->source == server.label;
      });
      if (is_taken) return server.label;
    }
    return "";
  }
  // Whether tools of ours can be added at all. They cannot if the answer is a continuation or
  // begins with given text, if the client chose among its own tools, if only one round is allowed,
  // or if a response format is asked for and the engine cannot constrain text and calls at once.
  [[nodiscard]] bool takes_tools(const ChatRequest& request) const {
    const engine::ConstrainedBy constrained_by = capabilities().constrained_by;
    const bool holds_text = request.response_format.kind != message::ResponseFormat::Kind::text;
    const bool holds_both = constrained_by != engine::ConstrainedBy::none &&
                            constrained_by != engine::ConstrainedBy::json_schema;
    return format() != nullptr && common_->options.max_rounds > 1 && !request.continuation &&
           request.prefill.empty() && request.prompt_token_ids.empty() &&
           (request.tool_choice.mode != message::ToolMode::none || !request.decisions.empty() ||
            goes_on_with_code(request)) &&
           (request.tool_choice.allowed.empty() || !request.servers.empty() ||
            goes_on_with_code(request)) &&
           (!holds_text || holds_both);
  }
  // The functions of the request's code; null: it has none.
  std::shared_ptr<const CodeFunctions> add_tools(ChatRequest& request) const {
    std::vector<Tool> clients = request.tools;
    if (request.code) clients.push_back({.name = request.code->name});
    ToolSet added = tools_->known_tools().beside(clients);
    request.tools.insert(request.tools.end(), added.list().begin(), added.list().end());
    added.add_instructions(request.messages);
    if (!request.code) return nullptr;
    const ServerToolsOptions& options = common_->options;
    Own own;
    return take_functions(request, [&](const Tool& tool) -> const Own* {
      const ToolOrigin* const origin = added.origin(tool.name);
      if (origin == nullptr) return nullptr;
      own.for_code = names_tool(options.code_calls, tool.name, *origin);
      own.needs_approval = needs_approval(options.approvals, tool.name, *origin);
      return &own;
    });
  }

  std::shared_ptr<Toolbox> tools_;
  const std::shared_ptr<Common> common_;
};

}  // namespace

std::vector<std::string> names_of_no_tool(const std::vector<std::string>& names,
                                          const ToolSet& tools) {
  std::vector<std::string> left = names;
  std::erase_if(left, [&tools](const std::string& name) {
    return std::ranges::any_of(tools.list(), [&](const message::Tool& tool) {
      return names_tool({name}, tool.name, *tools.origin(tool.name));
    });
  });
  return left;
}

std::vector<std::string> names_that_wait(const std::vector<std::string>& names,
                                         const ToolSet& tools,
                                         const message::Approvals& approvals) {
  std::vector<std::string> waiting;
  std::ranges::copy_if(names, std::back_inserter(waiting), [&](const std::string& name) {
    return std::ranges::any_of(tools.list(), [&](const Tool& tool) {
      const ToolOrigin& origin = *tools.origin(tool.name);
      return names_tool({name}, tool.name, origin) && needs_approval(approvals, tool.name, origin);
    });
  });
  return waiting;
}

std::shared_ptr<Model> with_server_tools(std::shared_ptr<Model> inner,
                                         std::shared_ptr<Toolbox> tools,
                                         const ServerToolsOptions& options) {
  return std::make_shared<ServerTools>(std::move(inner), std::move(tools), options);
}

}  // namespace tenon::chat
