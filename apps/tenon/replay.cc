#include "tenon/record/replay.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <limits>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "command.h"
#include "conversation.h"

#include "tenon/api/service.h"
#include "tenon/base/file.h"
#include "tenon/base/ids.h"
#include "tenon/config/models.h"
#include "tenon/http/local_exchange.h"
#include "tenon/json/members.h"
#include "tenon/record/event_diff.h"
#include "tenon/record/fork.h"
#include "tenon/record/list.h"
#include "tenon/record/recorder.h"

// `tenon replay`: a recorded request is answered once more by a real api::Service, with a model
// that gives the recorded tokens, or with --model by one that goes on from the first of them
// (--fork). The new answer is recorded, so both can be compared event by event (--expect).
//
// A complaint about the recording names its file (about_file); one about an option does not. A
// request that is refused now, or by the model, is a complaint, too (refusal).

namespace tenon::app {
namespace {

constexpr std::int64_t kRefused = 400;     // the lowest status of a request that is refused
constexpr std::int64_t kFailed = 500;      // the lowest status of a request that failed
constexpr std::int64_t kClientLeft = 499;  // the status where the client left before the end
// A recording has at most kMaxFileBytes, and one line more.
constexpr std::size_t kMaxBytes = record::kMaxFileBytes + (std::size_t{1} << 20);

struct ReplayOptions {
  std::string file;
  bool expect = false;     // compare with the recording
  bool events = false;     // only print the recorded events
  bool has_model = false;  // --model or --config was given
  AskOptions ask;
  std::uint64_t fork = 0;  // tokens that are the recorded ones
  std::string with;        // JSON object whose members replace those of the request
  std::string record;      // folder for a recording of the new answer; "": none
};

struct Replayed {
  std::string id;      // of the request
  std::string answer;  // as a client gets it
  std::int64_t status = 0;
  std::string left_out;             // members of the request that the server has left out
  std::vector<json::Value> events;  // as a recording has them
};

// A complaint about the recording itself. One about an option does not name the file.
Failure<Complaint> about_file(const ReplayOptions& options, const std::string& why) {
  return complaint(kBadInput, options.file + ": " + why);
}

/// A folder that is there as long as this is.
class Folder {
 public:
  Folder()
      : path_((std::filesystem::temp_directory_path() / random_id("tenon-replay-")).string()) {}
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  const std::string path_;
};

// The recording's model without its weights, or the one that the command line names, which goes on
// from the first tokens of the recording.
OrComplaint<std::shared_ptr<chat::Model>> model_for(const ReplayOptions& options,
                                                    const record::Read& read) {
  if (!options.has_model) {
    auto model = record::recorded_model(read);
    if (!model) return about_file(options, model.error().message);
    return *std::move(model);
  }
  auto config = single_model(options.ask,
                             "a recording is replayed with one of the models that it is made of");
  if (!config) return Failure<Complaint>(config.error());
  config->name = json::text_in(read.heading, "model");  // so that the request finds it
  config->aliases.clear();
  auto engine = config::load_engine(*config);
  if (!engine) return complaint(std::move(engine.error()));
  auto forked = record::forked_engine(read, options.fork, *std::move(engine));
  if (!forked) return about_file(options, forked.error().message);
  auto model = config::load_model(*config, *std::move(forked));
  if (!model) return complaint(std::move(model.error()));
  // Tools of the configuration run; else those of the recording answer as they did.
  if (!config->tools.empty() || !config->mcp.empty()) return *std::move(model);
  auto with_tools = record::with_tools_of_choices(read, *model);
  if (!with_tools) return about_file(options, with_tools.error().message);
  return *std::move(with_tools);
}

// The recorded request, with the members of --with in place of its own.
OrComplaint<json::Value> request_of(const ReplayOptions& options, const record::Read& read) {
  json::Value request = *read.heading.find("request");
  if (options.with.empty()) return request;
  auto with = json::parse(options.with);
  if (!with || with->if_object() == nullptr) {
    return complaint(kUsage, "--with must be a JSON object, like '{\"seed\": 7}'" +
                                 (with ? std::string() : ": " + with.error().message));
  }
  if (request.if_object() == nullptr) {
    return about_file(options, "the recorded request is no JSON object");
  }
  for (const json::Member& member : *with->if_object()) {
    request.if_object()->set(member.key, member.value);
  }
  return request;
}

// A server leaves out what it does not know, and says so in a header. What --with names is meant
// to change something, so it must be known. A member inside of a value that --with gives, such as
// one of a tool, is only told: the rest of the value has its effect.
OrComplaint<void> check_with(const ReplayOptions& options, const Replayed& replayed) {
  const auto with = json::parse(options.with.empty() ? "{}" : options.with);
  std::istringstream paths(replayed.left_out);
  for (std::string path; std::getline(paths >> std::ws, path, ',');) {
    const std::string name = path.substr(0, path.find_first_of(".["));
    if (with->find(name) == nullptr) continue;
    if (name != path) {
      std::cerr << "tenon: --with: " << path
                << " is not known to this version, or not supported, and is left out\n";
      continue;
    }
    return complaint(kUsage, "--with: " + path +
                                 " is not known to this version, or not supported, so it would "
                                 "change nothing: check its name (docs/api.md)");
  }
  return {};
}

// The kept responses and conversations that the recorded request goes on from.
json::Object found_in(const record::Read& read) {
  const json::Value* const found = read.heading.find("found");
  return found == nullptr || found->if_object() == nullptr ? json::Object() : *found->if_object();
}

// What the first line of a recording of the new answer says of this one.
json::Object replay_of(const ReplayOptions& options, const record::Read& read) {
  return {{"id", json::text_in(read.heading, "id")},
          {"began", json::number_in(read.heading, "began")},
          {"tokens", static_cast<std::int64_t>(options.fork)}};
}

// Why the recording has more choices than its request asks for, and so was damaged or edited; "":
// it has not. A replay would wait for the choices that are not asked for.
std::string why_too_many_choices(const record::Read& read) {
  const json::Value* const request = read.heading.find("request");
  constexpr std::int64_t kMost = 1 << 20;  // more than a server takes
  std::int64_t each = 1;
  std::int64_t prompts = 1;
  if (request != nullptr && request->if_object() != nullptr) {
    for (const std::string_view member : {"n", "best_of"}) {
      each = std::clamp(json::number_in(*request, member), each, kMost);
    }
    const json::Value* const prompt = request->find("prompt");
    if (prompt != nullptr && prompt->if_array() != nullptr) {
      prompts = std::max(prompts, static_cast<std::int64_t>(prompt->if_array()->size()));
    }
  }
  for (const record::Run& run : read.runs) {
    if (run.choice < each * prompts) continue;
    return "choice " + std::to_string(run.choice) + " has a run, but the request asks for " +
           std::to_string(each * prompts) + " in all: the file was damaged or edited";
  }
  return "";
}

// The request of the recording, answered by its tokens: everything between the client and the
// engine is what serves clients, too. The answer is recorded as a server records it.
OrComplaint<Replayed> replay(const ReplayOptions& options, const record::Read& read) {
  if (!read.why_not_played.empty()) return about_file(options, read.why_not_played);
  const std::string too_many = why_too_many_choices(read);
  if (!too_many.empty()) return about_file(options, too_many);
  const auto request = request_of(options, read);
  if (!request) return Failure<Complaint>(request.error());
  auto model = model_for(options, read);
  if (!model) return Failure<Complaint>(model.error());
  const Folder own;
  const std::string& folder = options.record.empty() ? own.path() : options.record;
  Replayed replayed;
  {
    // Other recordings of the folder stay.
    auto recorder = record::Recorder::open({.folder = folder,
                                            .tenon_version = std::string(kVersion),
                                            .max_bytes = std::numeric_limits<std::uint64_t>::max(),
                                            .max_age = std::chrono::hours(24 * 365 * 100),
                                            .replay_of = replay_of(options, read)});
    if (!recorder) return complaint(kBadInput, "--record: " + recorder.error().message);
    chat::ModelRegistry models;
    if (Status added = models.add(*std::move(model)); !added) {
      return about_file(options, added.error().message);
    }
    api::Service service({.access = {},
                          .version = std::string(kVersion),
                          .recorder = *std::move(recorder),
                          .found = found_in(read)});
    service.set_models(std::move(models));
    auto [exchange, answer] =
        http::make_local_exchange({.method = "POST",
                                   .target = json::text_in(read.heading, "path"),
                                   .path = json::text_in(read.heading, "path"),
                                   .body = json::to_string(*request),
                                   .peer = "this process"});
    service.handle_own(std::move(exchange));
    while (auto piece = answer->next()) replayed.answer += *piece;
    replayed.status = answer->status();
    replayed.id = answer->header("x-request-id");
    replayed.left_out = answer->header("x-tenon-left-out");
  }
  // A server may be recording into the same folder, so the newest file need not be ours.
  constexpr std::size_t kMostNewer = 1000;
  const auto listed = record::list_recordings(folder, "", kMostNewer);
  if (!listed) return complaint(kBadInput, "--record: " + listed.error().message);
  const auto own_one = std::ranges::find_if(listed->recordings, [&](const json::Value& one) {
    return json::text_in(one, "id") == replayed.id;
  });
  if (own_one == listed->recordings.end()) {
    if (replayed.status >= kRefused) return replayed;  // refused before a model saw it
    return complaint(kBadInput, folder +
                                    ": the recording of the new answer could not be written, and "
                                    "without it nothing can be compared: look at the log above");
  }
  const std::string name = json::text_in(*own_one, "name");
  const auto text = record::read_recorded(folder, name, 0);
  if (!text) return complaint(kBadInput, folder + "/" + name + ": " + text.error().message);
  auto now = record::read_recording(*text);
  if (!now) return complaint(kBadInput, folder + "/" + name + ": " + now.error().message);
  replayed.events = std::move(now->events);
  return replayed;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(std::move(line));
  return lines;
}

// The first lines that differ, with what comes before them.
std::string first_difference(const std::string& was, const std::string& is) {
  const std::vector<std::string> before = lines_of(was);
  const std::vector<std::string> now = lines_of(is);
  const auto [a, b] = std::ranges::mismatch(before, now);
  std::string out;
  const auto same = a - before.begin();
  if (same > 0) out += "  " + before[static_cast<std::size_t>(same) - 1] + "\n";
  out += a == before.end() ? "- (the end)\n" : "- " + *a + "\n";
  out += b == now.end() ? "+ (the end)\n" : "+ " + *b + "\n";
  return "line " + std::to_string(same + 1) + " differs (- recorded, + now):\n" + out;
}

// Prints what differs, at first what the client got, then the events, which say whether the model
// or only the encoder differs.
int compare(const ReplayOptions& options, const record::Read& read, const Replayed& replayed) {
  const std::string events =
      record::difference(record::event_lines(read.events), record::event_lines(replayed.events));
  const std::string was = record::without_chance(read.sent);
  const std::string is = record::without_chance(replayed.answer);
  const bool is_same_answer = was == is && read.status == replayed.status;
  // A model that answers anew has other counts of tokens; what it says is what counts.
  const bool is_same =
      options.has_model ? events.empty() && read.status == replayed.status : is_same_answer;
  if (is_same) {
    std::cout << "the same" << (is_same_answer ? "" : " events") << ": " << read.sent.size()
              << " bytes, status " << read.status << '\n';
    return kOk;
  }
  if (!options.has_model) std::cout << first_difference(was, is);
  if (!events.empty()) {
    std::cout << "events (- recorded, + now):\n" << events;
  } else if (!options.has_model) {
    std::cout << "the events are the same: only what is made of them for the client differs\n";
  }
  if (read.status != replayed.status) {
    std::cout << "the status was " << read.status << " and is " << replayed.status << '\n';
  }
  return kNegative;
}

// Prints the recorded events. Whether that is all of them, stderr says.
int print_events(const ReplayOptions& options, const record::Read& read) {
  for (const json::Value& event : read.events) std::cout << json::to_string(event) << '\n';
  std::cout << std::flush;
  std::string note;
  if (read.is_cut || read.status == 0) {
    note = "the recording is not whole and ends ";
    note += read.events.empty() ? "before the first event" : "here";
  } else if (read.events.empty()) {
    note = "the answer has no events: no model had begun it";
  }
  if (!note.empty()) std::cerr << "tenon: " << options.file << ": " << note << '\n';
  return kOk;
}

// Why there is no whole answer in the recording; "": there is.
std::string why_not_whole(const record::Read& read) {
  if (read.is_cut || read.status == 0) return "the recording is not whole";
  if (read.status == kClientLeft) return "the client left before the end of the answer";
  return "";
}

// Whether the request has tokens in or out. A recording has the ids of tokens and not what each can
// be, so other ids would be given now.
bool has_tokens(const record::Read& read) {
  constexpr std::string_view kMembers[] = {"/return_token_ids", "/prompt_token_ids",
                                           "/tenon/tokens", "/tenon/previous_token_ids"};
  const json::Value* const request = read.heading.find("request");
  const auto asks = [&](std::string_view member) {
    const json::Value* const value =
        request == nullptr ? nullptr : json::at_pointer(*request, member);
    return value != nullptr && !value->is_null() && *value != json::Value(false);
  };
  if (std::ranges::any_of(kMembers, asks)) return true;
  const std::string path = json::text_in(read.heading, "path");
  if (path == "/v1/decisions" || path == "/v1/systemone") return true;
  // Completions: one prompt of tokens, or several.
  const json::Value* prompt = request == nullptr ? nullptr : request->find("prompt");
  while (prompt != nullptr && prompt->if_array() != nullptr) {
    prompt = prompt->if_array()->empty() ? nullptr : &prompt->if_array()->front();
  }
  return prompt != nullptr && prompt->if_number() != nullptr;
}

// Whether the model could write code. Its calls and their results are in the recording as parts of
// several answers, and a replay runs no code.
bool has_code(const record::Read& read) {
  const json::Value* const request = read.heading.find("request");
  const json::Value* const tools = request == nullptr ? nullptr : request->find("tools");
  if (tools == nullptr || tools->if_array() == nullptr) return false;
  return std::ranges::any_of(*tools->if_array(), [](const json::Value& tool) {
    const json::Object* const members = tool.if_object();
    const std::string type = members == nullptr ? "" : json::text_in(*members, "type");
    return type == "programmatic_tool_calling" || type.starts_with("code_execution_");
  });
}

// What an answer with an error's status says, in any dialect: {"error": {"message": ...}}.
std::string message_of(const std::string& answer) {
  const auto body = json::parse(answer);
  const json::Value* const message = body ? json::at_pointer(*body, "/error/message") : nullptr;
  return message == nullptr || message->if_string() == nullptr ? answer : *message->if_string();
}

// Why there is no answer. No value: there is one, or the recorded one is an error, too, and the
// new one is compared with it, or is what the recording makes again.
std::optional<Complaint> refusal(const ReplayOptions& options, const record::Read& read,
                                 const Replayed& replayed) {
  if (replayed.status < kRefused) return std::nullopt;
  const bool is_as_recorded = replayed.status == read.status;
  if (is_as_recorded && (options.expect || !options.has_model)) return std::nullopt;
  if (options.expect && !options.has_model) return std::nullopt;  // compare() shows it
  const bool has_failed = replayed.status >= kFailed;
  return Complaint{has_failed ? kEngine : kBadInput,
                   std::string("the request ") + (has_failed ? "failed" : "was refused") +
                       " with status " + std::to_string(replayed.status) + ": " +
                       message_of(replayed.answer)};
}

// Why the answer broke off after it had begun; "": it did not.
std::string failure_of(const Replayed& replayed) {
  for (const json::Value& event : replayed.events) {
    if (json::text_in(event, "finish") == "error") return json::text_in(event, "error");
  }
  return "";
}

// A recording may have been cut, or its client may have left: its answer was never whole, so it can
// only be shown, or gone on from with a model.
int run_replay(const ReplayOptions& options) {
  const auto text = read_file(options.file, kMaxBytes);
  if (!text) return complain({kBadInput, text.error().message});
  const auto read = record::read_recording(*text);
  if (!read) return complain({kBadInput, options.file + ": " + read.error().message});
  if (options.events) return print_events(options, *read);
  const std::string why = why_not_whole(*read);
  if (!why.empty() && !options.has_model) {
    return complain({kBadInput, options.file + ": " + why +
                                    ", so its answer cannot be made again; --events prints what "
                                    "there is, and --model answers the request anew"});
  }
  if (!why.empty() && options.expect) {
    return complain(
        {kBadInput, options.file + ": " + why + ", so there is nothing to compare with"});
  }
  if (!options.has_model && has_tokens(*read)) {
    return complain({kBadInput, options.file +
                                    ": the request has tokens in or out, which only their model "
                                    "knows; --model answers the request anew"});
  }
  if (has_code(*read)) {
    return complain({kBadInput, options.file +
                                    ": the model may write code in this request, and a replay runs "
                                    "none (docs/code-tools.md)"});
  }
  const auto replayed = replay(options, *read);
  if (!replayed) return complain(replayed.error());
  if (const auto refused = refusal(options, *read, *replayed)) return complain(*refused);
  if (const auto known = check_with(options, *replayed); !known) return complain(known.error());
  if (options.expect) return compare(options, *read, *replayed);
  std::cout << replayed->answer << std::flush;
  const std::string failure = options.has_model ? failure_of(*replayed) : std::string();
  return failure.empty() ? kOk : complain({kEngine, "the answer failed: " + failure});
}

}  // namespace

Command add_replay(App tenon) {
  const App app = tenon.add_subcommand(
      "replay", "Makes a recorded answer again, from its tokens or with a model");
  auto options = std::make_shared<ReplayOptions>();
  app.add_option("FILE", options->file, "A recording, see `tenon serve --record`").required();
  app.add_flag("--expect", options->expect,
               "Compare with what the client got then, or with --model with the recorded events; "
               "status 1, and the differences, if it differs");
  app.add_flag("--events", options->events, "Print the recorded events instead");
  add_model_options(app, options->ask, "none, and the recorded tokens are replayed");
  app.add_option("--fork", options->fork,
                 "So many tokens are the recorded ones, and the model goes on from there")
      .between(std::uint64_t{0}, std::uint64_t{1} << 32U);
  app.add_option("--with", options->with,
                 "JSON object: its members replace those of the recorded request");
  app.add_option("--record", options->record, "Folder for a recording of the new answer");
  app.footer(
      "Template, parser, repair and dialect are those of this version. Ids and times differ each "
      "time,\nand --expect does not compare them.\n"
      "Examples:\n  tenon replay --expect recordings/2026-11-29/143012-417-req_8Zk2.jsonl\n"
      "  tenon replay --model tiny.gguf --fork 12 --with '{\"seed\": 7}' --expect FILE");
  return {app, [options, app]() -> int {
            if (options->events) {
              const auto refused = refuse_options(
                  app,
                  {"--expect", "--model", "--config", "--chat-template", "--format", "--threads",
                   "--fork", "--with", "--record"},
                  "with --events, which prints what the file has and replays nothing");
              if (!refused) return complain(refused.error());
            }
            options->has_model = app.count("--model") + app.count("--config") > 0;
            if (!options->has_model) {
              const auto refused = refuse_options(
                  app, {"--chat-template", "--format", "--threads", "--fork", "--with", "--record"},
                  "without --model: the recording's own tokens are replayed then");
              if (!refused) return complain(refused.error());
            }
            return run_replay(*options);
          }};
}

}  // namespace tenon::app
