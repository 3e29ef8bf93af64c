#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "command.h"
#include "conversation.h"
#include "progress_line.h"
#include "running_server.h"
#include "terminal.h"
#include "verify/check.h"
#include "verify/questions.h"
#include "verify/report.h"
#include "verify/session.h"
#include <unistd.h>

#include "tenon/http/client.h"
#include "tenon/http/message.h"

// `tenon verify`: asks a server the checks of verify/ one after the other, and reports.
namespace tenon::app {
namespace {

struct VerifyOptions {
  std::string url;
  std::string model;
  std::string dialect = "chat";
  std::string key_env = "TENON_API_KEY";
  std::vector<std::string> groups;  // or single checks: "group/check"; empty: all
  std::string json;                 // file; "-" is stdout, "": none
  std::string html;
  std::int64_t tries = 3;
  std::int64_t timeout_s = 120;
  std::int64_t max_tokens = 300;
  bool list = false;
  bool played = false;
};

int complain_of_group(const std::string& name) {
  std::string known;
  for (const std::string_view group : verify::group_names()) {
    known += (known.empty() ? "" : ", ") + std::string(group);
  }
  return complain({kUsage, "--group " + name + ": there is no such group or check; groups are " +
                               known + "; `tenon verify --list` shows the checks"});
}

// Those of the groups; `unknown` is a name that no group or check has.
std::vector<verify::Check> chosen_checks(const VerifyOptions& options, std::string& unknown) {
  std::vector<verify::Check> all = verify::all_checks(*verify::find_dialect(options.dialect));
  if (options.groups.empty()) return all;
  const auto is_of = [](const verify::Check& check, const std::string& name) {
    return check.group == name || check.id() == name;
  };
  for (const std::string& name : options.groups) {
    if (std::ranges::none_of(all, [&](const auto& check) { return is_of(check, name); })) {
      unknown = name;
    }
  }
  std::erase_if(all, [&](const verify::Check& check) {
    return std::ranges::none_of(options.groups,
                                [&](const std::string& name) { return is_of(check, name); });
  });
  return all;
}

int list_checks(const std::vector<verify::Check>& checks) {
  for (const verify::Check& check : checks) {
    std::cout << check.id() << ": " << check.about << "\n";
  }
  std::cout << std::flush;
  return kOk;
}

std::string key_of(const VerifyOptions& options) {
  const char* const key = std::getenv(options.key_env.c_str());
  return key == nullptr ? "" : key;
}

// The first model of the server, unless one was named. It also says whether the server is there.
OrComplaint<std::string> model_of(verify::Session& session, const std::string& named) {
  const verify::Answer answer = session.get("/v1/models");
  if (answer.status == 0) {
    return complaint(kUsage, session.target().url + " cannot be reached: " + answer.trouble);
  }
  if (answer.status == 401 || answer.status == 403) {
    return complaint(kUsage, session.target().url + " wants another API key (status " +
                                 std::to_string(answer.status) +
                                 "); --api-key-env says where it is");
  }
  if (!named.empty()) return named;
  const auto document = json::parse(answer.body);
  const json::Value* const id = document ? json::at_pointer(*document, "/data/0/id") : nullptr;
  if (id == nullptr || id->if_string() == nullptr) {
    return complaint(kUsage,
                     session.target().url + "/v1/models names no model; say which with --model");
  }
  return *id->if_string();
}

// A server that refuses a plain question has nothing to verify. Also learns how it wants to be
// asked.
OrComplaint<void> try_out(verify::Session& session) {
  const verify::Answer answer = session.learn(verify::text_question());
  const bool is_elsewhere = answer.status >= 300 && answer.status < 400;
  const bool is_refused = std::ranges::count(std::array{401U, 403U, 404U, 405U}, answer.status) > 0;
  if (!is_elsewhere && !is_refused && !answer.is_busy()) return {};
  return complaint(
      kUsage, session.target().url + std::string(verify::path_of(session.target().dialect)) +
                  " does not answer a plain question: status " + std::to_string(answer.status) +
                  (answer.error.empty() ? "" : " '" + answer.error + "'") +
                  "; are --url, --model, --dialect and --api-key-env right?");
}

std::string now_text() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &parts)};
}

bool write_file(const std::string& path, const std::string& text) {
  if (path == "-") {
    std::cout << text << std::flush;
    return true;
  }
  std::ofstream file(path, std::ios::binary);
  return static_cast<bool>(file << text << std::flush);
}

int write_reports(const verify::Report& report, const VerifyOptions& options) {
  if (options.json != "-" && options.html != "-") {
    std::cout << shown(verify::table(report), STDOUT_FILENO) << std::flush;
  }
  if (!options.json.empty() &&
      !write_file(options.json, json::to_string(verify::to_json(report)) + "\n")) {
    return complain({kUsage, options.json + " cannot be written"});
  }
  if (!options.html.empty() && !write_file(options.html, verify::to_html(report))) {
    return complain({kUsage, options.html + " cannot be written"});
  }
  return report.count(verify::Verdict::fail) == 0 ? kOk : kNegative;
}

int run_checks(const std::vector<verify::Check>& checks, const VerifyOptions& options) {
  auto client = http::Client::create();
  if (!client) return complain(client.error());
  verify::Session session(**client, {.url = std::string(server_of(options.url)),
                                     .model = options.model,
                                     .dialect = *verify::find_dialect(options.dialect),
                                     .key = key_of(options),
                                     .is_played = options.played,
                                     .tries = static_cast<std::size_t>(options.tries),
                                     .time_limit = std::chrono::seconds(options.timeout_s),
                                     .max_tokens = options.max_tokens});
  auto model = model_of(session, options.model);
  if (!model) return complain(model.error());
  session.set_model(*std::move(model));
  if (auto tried = try_out(session); !tried) return complain(tried.error());
  verify::Report report{session.target(), std::string(kVersion), now_text(), checks.size(), {}};
  // Ctrl-C and SIGTERM end the run after the check that is being made; what there is is written.
  const Interruption interruption(/*ends=*/true);
  {
    ProgressLine progress;
    for (const verify::Check& check : checks) {
      if (interruption.token().is_cancelled()) {
        report.ended = "interrupted";
      } else if (session.is_silent()) {
        report.ended = "the server answers no more";
      }
      if (!report.ended.empty()) break;
      if (progress.is_due(/*at_once=*/true)) {
        const std::string line = std::to_string(report.results.size()) + "/" +
                                 std::to_string(checks.size()) + " " + check.id();
        progress.show(progress.is_terminal() ? line.substr(0, line_width()) : line);
      }
      report.results.push_back(verify::run_check(check, session));
    }
  }
  const int status = write_reports(report, options);
  if (interruption.token().is_cancelled()) return kSignal + interruption.signal();
  return status == kOk && !report.ended.empty() ? kUsage : status;
}

int run_verify(const VerifyOptions& options) {
  std::string unknown;
  const std::vector<verify::Check> checks = chosen_checks(options, unknown);
  if (!unknown.empty()) return complain_of_group(unknown);
  if (options.list) return list_checks(checks);
  if (options.url.empty()) return complain({kUsage, "--url is missing: which server to verify"});
  if (options.json == "-" && options.html == "-") {
    return complain({kUsage, "--json - and --html - would both go to stdout; name a file for one"});
  }
  for (const std::string& path : {options.json, options.html}) {
    const bool is_file = !path.empty() && path != "-";
    if (is_file && !std::ofstream(path, std::ios::app)) {
      return complain({kUsage, path + " cannot be written"});
    }
  }
  if (auto url = http::parse_url(options.url); !url) {
    return complain({kUsage, "--url: " + url.error().message});
  }
  return run_checks(checks, options);
}

}  // namespace

Command add_verify(App tenon) {
  const App app = tenon.add_subcommand(
      "verify", "Says whether a server of OpenAI's or Anthropic's API calls tools right");
  auto options = std::make_shared<VerifyOptions>();
  app.add_option("--url", options->url, "The server: http://host:port");
  app.add_option("--model", options->model, "The model's name; default: the server's first");
  app.add_option("--dialect", options->dialect, "Which API")
      .one_of({"chat", "responses", "messages"})
      .capture_default_str();
  app.add_option("--api-key-env", options->key_env, "The environment variable with the API key")
      .capture_default_str();
  app.add_option("--group", options->groups, "Only this group, or this check (group/check)")
      .allow_extra_args(false);
  app.add_option("--json", options->json, "Everything as JSON into this file; -: stdout");
  app.add_option("--html", options->html, "Everything as a page into this file; -: stdout");
  app.add_flag("--list", options->list, "List the checks, and ask no server");
  app.add_option("--tries", options->tries, "How often a model is asked that would not do it")
      .between(std::int64_t{1}, std::int64_t{20})
      .capture_default_str();
  app.add_option("--timeout", options->timeout_s, "Limit of an answer, in seconds")
      .between(std::int64_t{1}, std::int64_t{3600})
      .capture_default_str();
  app.add_option("--max-tokens", options->max_tokens, "Limit of an answer, in tokens")
      .between(std::int64_t{16}, std::int64_t{1'000'000})
      .capture_default_str();
  app.add_flag("--played", options->played,
               "The server's engine does what the questions say (docs/verify.md)");
  app.footer(
      "Exit status 0: no check failed; 1: some did; 2: the server does not answer.\n"
      "Example:\n  tenon verify --url http://127.0.0.1:8000 --group choice --html verify.html");
  return {app, [options] { return run_verify(*options); }};
}

}  // namespace tenon::app
