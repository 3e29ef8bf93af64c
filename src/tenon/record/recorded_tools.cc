#include "tenon/record/recorded_tools.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/chat/server_tools.h"
#include "tenon/chat/toolbox.h"
#include "tenon/json/members.h"

// The tools are put into a toolbox as they were: those of this process by themselves, and those of
// each server as a source. So they get their names by the same rules, and everything that happens
// around a call (checks of arguments, approvals, limits, rounds) is the code that serves clients.

namespace tenon::record {
namespace {

/// The recorded results, each of which is given once. Thread-safe.
class Results {
 public:
  explicit Results(const Read& read) : read_(read), is_given_(read.tool_runs.size()) {}

  /// `name` is what the model calls the tool.
  Expected<chat::ToolOutput> next(std::string_view name, const json::Object& arguments) {
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < is_given_.size(); ++i) {
      const ToolRun& run = read_.tool_runs[i];
      if (is_given_[i] || run.name != name || run.is_remembered) continue;
      const auto recorded = json::parse(run.arguments);
      const bool is_same = recorded ? *recorded == json::Value(arguments)
                                    : run.arguments.empty() && arguments.empty();
      if (!is_same) continue;
      is_given_[i] = true;
      return chat::ToolOutput{.text = run.output, .is_error = run.is_error};
    }
    return Unexpected(Error{Errc::unavailable, "the recording has no result of this call"});
  }

 private:
  const Read& read_;
  std::mutex mutex_;
  std::vector<bool> is_given_;  // guarded by mutex_
};

/// The recorded tools of one server.
class RecordedSource final : public chat::ToolSource {
 public:
  RecordedSource(std::string name, std::shared_ptr<Results> results)
      : name_(std::move(name)), results_(std::move(results)) {}

  /// `name` is what the model calls the tool, `tool.name` what the server does.
  void add(message::Tool tool, std::string name) {
    names_.emplace(tool.name, std::move(name));
    tools_.push_back(std::move(tool));
  }

  const std::string& name() const override { return name_; }
  std::uint64_t version() const override { return 1; }
  Expected<std::vector<message::Tool>> tools(const chat::ToolContext& /*context*/) override {
    return tools_;
  }
  Expected<chat::ToolOutput> call(const std::string& tool, const json::Object& arguments,
                                  const chat::ToolContext& /*context*/) override {
    return results_->next(names_.at(tool), arguments);
  }

 private:
  const std::string name_;
  const std::shared_ptr<Results> results_;
  std::vector<message::Tool> tools_;
  std::map<std::string, std::string, std::less<>> names_;
};

}  // namespace

Expected<std::shared_ptr<chat::Model>> with_recorded_tools(const Read& read,
                                                           std::shared_ptr<chat::Model> inner) {
  const json::Value* const listed =
      read.own_tools.is_null() ? nullptr : read.own_tools.find("tools");
  if (listed == nullptr || listed->if_array() == nullptr) return inner;
  const auto results = std::make_shared<Results>(read);
  // Results have been cut already, and a note says so.
  auto tools = std::make_shared<chat::Toolbox>(
      chat::Toolbox::Options{.max_result_bytes = std::numeric_limits<std::size_t>::max() / 2});
  std::vector<std::shared_ptr<RecordedSource>> sources;  // in the order of their first tools
  message::Approvals approvals;
  for (const json::Value& one : *listed->if_array()) {
    if (json::flag_in(one, "is_hosted")) {
      return Unexpected(Error{Errc::unsupported,
                              "the request names servers of tools, and such an answer cannot be "
                              "replayed"});
    }
    const std::string name = json::text_in(one, "name");
    const std::string server = json::text_in(one, "server");
    message::Tool tool{.name = name, .description = json::text_in(one, "description")};
    if (const json::Value* const parameters = one.find("parameters")) tool.parameters = *parameters;
    auto& waits = json::flag_in(one, "needs_approval") ? approvals.always : approvals.never;
    waits.push_back(name);
    if (server.empty()) {
      const Status added = tools->add(
          std::move(tool),
          [results, name](const json::Object& arguments, const chat::ToolContext& /*context*/) {
            return results->next(name, arguments);
          });
      if (!added) return Unexpected(added.error());
      continue;
    }
    auto source = std::ranges::find(sources, server, [](const auto& of) { return of->name(); });
    if (source == sources.end()) {
      sources.push_back(std::make_shared<RecordedSource>(server, results));
      source = sources.end() - 1;
    }
    tool.name = json::text_in(one, "server_name");
    (*source)->add(std::move(tool), name);
  }
  for (const auto& source : sources) tools->add(source);
  (void)tools->tools();  // so that the tools of the sources are known
  // The lists decide of each tool; with this rule the client sees the calls of all.
  if (json::flag_in(read.own_tools, "are_shown")) {
    approvals.rule = message::Approvals::Rule::always;
  }
  const auto at_least = [&](std::string_view name, std::size_t otherwise) {
    const std::int64_t value = json::number_in(read.own_tools, name);
    return value > 0 ? static_cast<std::size_t>(value) : otherwise;
  };
  const chat::ServerToolsOptions usual;
  return chat::with_server_tools(std::move(inner), std::move(tools),
                                 {.remembers = json::flag_in(read.own_tools, "are_remembered"),
                                  .max_rounds = at_least("max_rounds", usual.max_rounds),
                                  .max_calls = at_least("max_calls", usual.max_calls),
                                  .approvals = std::move(approvals)});
}

}  // namespace tenon::record
