#include "tenon/record/replay.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "command.h"

#include "tenon/api/service.h"
#include "tenon/base/file.h"
#include "tenon/http/local_exchange.h"
#include "tenon/json/members.h"

namespace tenon::app {
namespace {

// A recording has at most kMaxFileBytes, and one line more.
constexpr std::size_t kMaxBytes = record::kMaxFileBytes + (std::size_t{1} << 20);

struct ReplayOptions {
  std::string file;
  bool expect = false;
  bool events = false;
};

struct Replayed {
  std::string answer;
  std::int64_t status = 0;
};

// The request of the recording, answered by its tokens: everything between the client and the
// engine is what serves clients, too.
OrComplaint<Replayed> replay(const record::Read& read) {
  auto model = record::recorded_model(read);
  if (!model) return complaint(kBadInput, model.error().message);
  chat::ModelRegistry models;
  if (Status added = models.add(*std::move(model)); !added) {
    return complaint(kBadInput, added.error().message);
  }
  api::Service service({.access = {}, .version = std::string(kVersion)});
  service.set_models(std::move(models));
  auto [exchange, answer] =
      http::make_local_exchange({.method = "POST",
                                 .target = json::text_in(read.heading, "path"),
                                 .path = json::text_in(read.heading, "path"),
                                 .body = json::to_string(*read.heading.find("request")),
                                 .peer = "this process"});
  service.handle_own(std::move(exchange));
  Replayed replayed;
  while (auto piece = answer->next()) replayed.answer += *piece;
  replayed.status = answer->status();
  return replayed;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(std::move(line));
  return lines;
}

// The first lines that differ, with what comes before them.
std::string difference(const std::string& was, const std::string& is) {
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

int run_replay(const ReplayOptions& options) {
  const auto text = read_file(options.file, kMaxBytes);
  if (!text) return complain({kBadInput, text.error().message});
  const auto read = record::read_recording(*text);
  if (!read) return complain({kBadInput, options.file + ": " + read.error().message});
  if (options.events) {
    for (const json::Value& event : read->events) std::cout << json::to_string(event) << '\n';
    return kOk;
  }
  const auto replayed = replay(*read);
  if (!replayed)
    return complain({replayed.error().status, options.file + ": " + replayed.error().message});
  if (!options.expect) {
    std::cout << replayed->answer << std::flush;
    return kOk;
  }
  if (read->is_cut || read->status == 0) {
    return complain(
        {kBadInput,
         options.file + ": the recording is not whole, so there is nothing to compare with"});
  }
  const std::string was = record::without_chance(read->sent);
  const std::string is = record::without_chance(replayed->answer);
  if (was == is && read->status == replayed->status) {
    std::cout << "the same: " << read->sent.size() << " bytes, status " << read->status << '\n';
    return kOk;
  }
  std::cout << difference(was, is);
  if (read->status != replayed->status) {
    std::cout << "the status was " << read->status << " and is " << replayed->status << '\n';
  }
  return kNegative;
}

}  // namespace

Command add_replay(App tenon) {
  const App app = tenon.add_subcommand(
      "replay", "Makes a recorded answer again, from its tokens and without the model");
  auto options = std::make_shared<ReplayOptions>();
  app.add_option("FILE", options->file, "A recording, see `tenon serve --record`").required();
  app.add_flag("--expect", options->expect,
               "Compare with what the client got then; status 1, and the first difference, if "
               "it differs");
  app.add_flag("--events", options->events, "Print the recorded events instead");
  app.footer(
      "Template, parser, repair and dialect are those of this version. Ids and times differ each "
      "time,\nand --expect does not compare them.\n"
      "Example:\n  tenon replay --expect recordings/2026-11-29/143012-417-req_8Zk2.jsonl");
  return {app, [options] { return run_replay(*options); }};
}

}  // namespace tenon::app
