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

constexpr std::size_t kMostTools = 1000;
constexpr std::size_t kMostServers = 100;

/// The recorded results of one choice, each of which is given once. Thread-safe.
class Results {
 public:
  Results(const Read& read, unsigned choice) {
    for (const ToolRun& run : read.tool_runs) {
      // A remembered result repeats an earlier one, and the toolbox of the replay remembers it as
      // well.
      if (run.choice != choice || run.is_remembered) continue;
      auto arguments = json::parse(run.arguments.empty() ? "{}" : run.arguments);
      if (!arguments) continue;  // no call has such arguments
      kept_.push_back({.name = run.name,
                       .arguments = *std::move(arguments),
                       .output = {.text = run.output, .is_error = run.is_error}});
    }
  }

  /// `name` is what the model calls the tool.
  Expected<chat::ToolOutput> next(std::string_view name, const json::Object& arguments) {
    const json::Value given(arguments);
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::find_if(kept_, [&](const Kept& one) {
      return !one.is_given && one.name == name && one.arguments == given;
    });
    if (found == kept_.end()) {
      return Unexpected(Error{Errc::unavailable, "the recording has no result of this call"});
    }
    found->is_given = true;
    return found->output;
  }

 private:
  struct Kept {
    std::string name;
    json::Value arguments;
    chat::ToolOutput output;
    bool is_given = false;
  };
  std::mutex mutex_;
  std::vector<Kept> kept_;  // guarded by mutex_
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

Expected<std::shared_ptr<chat::Model>> with_recorded_tools(const Read& read, unsigned choice,
                                                           std::shared_ptr<chat::Model> inner) {
  const json::Value* const listed =
      read.own_tools.is_null() ? nullptr : read.own_tools.find("tools");
  if (listed == nullptr || listed->if_array() == nullptr) return inner;
  const auto too_many = [](std::size_t most, std::string_view what) {
    return Unexpected(Error{Errc::invalid, "the recording has more than " + std::to_string(most) +
                                               " " + std::string(what)});
  };
  if (listed->if_array()->size() > kMostTools) return too_many(kMostTools, "tools of the server");
  const auto results = std::make_shared<Results>(read, choice);
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
    message::Tool tool{.name = name,
                       .description = json::text_in(one, "description"),
                       .is_deferred = json::flag_in(one, "is_deferred")};
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
      if (sources.size() == kMostServers) return too_many(kMostServers, "servers of tools");
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
  // A recording may have been edited, so its numbers are bounded.
  const auto number = [&](std::string_view name, std::size_t otherwise, std::int64_t most) {
    const std::int64_t value = std::min(json::number_in(read.own_tools, name), most);
    return value > 0 ? static_cast<std::size_t>(value) : otherwise;
  };
  const chat::ServerToolsOptions usual;
  return chat::with_server_tools(
      std::move(inner), std::move(tools),
      {.remembers = json::flag_in(read.own_tools, "are_remembered"),
       .max_rounds = number("max_rounds", usual.max_rounds, 100),
       .max_calls = number("max_calls", usual.max_calls, 10'000),
       .approvals = std::move(approvals),
       .search = {.is_on = read.own_tools.find("search_from") != nullptr,
                  .from = number("search_from", 0, 1'000'000),
                  .most_found = number("most_found", usual.search.most_found, 100)}});
}

}  // namespace tenon::record
