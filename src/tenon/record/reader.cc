#include "tenon/record/reader.h"

#include <charconv>
#include <utility>

#include "tenon/json/members.h"
#include "tenon/record/recorder.h"

namespace tenon::record {
namespace {

Unexpected wrong(std::size_t line, std::string what) {
  return Unexpected(Error{Errc::invalid, "line " + std::to_string(line) + ": " + std::move(what)});
}

// The bytes that pairs of hexadecimal digits spell, up to the first other character.
std::string from_hex(std::string_view digits) {
  constexpr int kHex = 16;
  std::string bytes;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2) {
    const char* const pair = digits.data() + i;
    unsigned byte = 0;
    if (std::from_chars(pair, pair + 2, byte, kHex).ptr != pair + 2) break;
    bytes += static_cast<char>(byte);
  }
  return bytes;
}

// {"token": 5, "at": 900, "run": 0, "text": "hi"}; "hex" instead of "text" for bytes that are not
// whole characters.
Step token_of(const json::Value& line) {
  Step step{.at_us = json::number_in(line, "at"),
            .id = static_cast<std::int32_t>(json::number_in(line, "token")),
            .bytes = json::text_in(line, "text"),
            .is_control = json::flag_in(line, "control")};
  if (line.find("hex") != nullptr) step.bytes = from_hex(json::text_in(line, "hex"));
  if (line.find("count") != nullptr)
    step.count = static_cast<std::uint32_t>(json::number_in(line, "count"));
  return step;
}

Step piece_of(const json::Value& line) {
  const bool is_reasoning = json::text_in(line, "piece") == "reasoning";
  return {.kind = is_reasoning ? Step::Kind::reasoning : Step::Kind::call,
          .at_us = json::number_in(line, "at"),
          .bytes = json::text_in(line, "text"),
          .index = static_cast<std::uint32_t>(json::number_in(line, "index")),
          .name = json::text_in(line, "name"),
          .arguments = json::text_in(line, "arguments")};
}

Status read_heading(json::Value line, Read& read) {
  const json::Value* const version = line.find("recording");
  if (version == nullptr)
    return wrong(1, "this is no recording: it does not begin with \"recording\"");
  if (json::number_in(line, "recording") != kVersion) {
    return wrong(1, "the recording has version " + json::to_string(*version) + ", and this is " +
                        std::to_string(kVersion) + ": read it with the Tenon that wrote it");
  }
  if (line.find("request") == nullptr) {
    return Unexpected(
        Error{Errc::unsupported,
              "the recording has no contents (it was made with log_contents = false), so it cannot "
              "be replayed"});
  }
  read.heading = std::move(line);
  return {};
}

// Takes one line. A line is recognised by its members, and the order of the tests matters: tokens,
// pieces and the end of a run have a member `run`, too; `made_by` is an object in its own line and
// a number in that of a run; the last line has `tools`, as the line of our tools does. Lines of
// other kinds are left out.
Status read_line(json::Value line, std::size_t number, Read& read) {
  const auto run_of = [&]() -> Run* {
    const auto run = static_cast<std::size_t>(json::number_in(line, "run"));
    return run < read.runs.size() ? &read.runs[run] : nullptr;
  };
  if (line.find("token") != nullptr || line.find("piece") != nullptr) {
    Run* const run = run_of();
    if (run == nullptr) return wrong(number, "there is no such run before this line");
    run->steps.push_back(line.find("token") != nullptr ? token_of(line) : piece_of(line));
  } else if (json::Value* made_by = line.find("made_by");
             made_by != nullptr && made_by->if_object() != nullptr) {
    read.makers.push_back(std::move(*made_by));
  } else if (line.find("run_end") != nullptr) {
    Run* const run = run_of();
    if (run == nullptr) return wrong(number, "there is no such run before this line");
    run->end = std::move(line);
  } else if (line.find("run") != nullptr) {
    const auto maker = static_cast<std::size_t>(json::number_in(line, "made_by"));
    if (maker >= read.makers.size()) return wrong(number, "what made this run is not known");
    if (line.find("part") != nullptr) {
      return Unexpected(Error{Errc::unsupported,
                              "the answer is a recursive model's, which cannot be replayed: its "
                              "code is not run again"});
    }
    const json::Value* const ids = line.find("ids");
    const std::size_t tokens =
        ids == nullptr || ids->if_array() == nullptr ? 0 : ids->if_array()->size();
    read.runs.push_back({.choice = static_cast<std::uint32_t>(json::number_in(line, "choice")),
                         .made_by = maker,
                         .prompt_tokens = static_cast<std::uint32_t>(tokens)});
  } else if (line.find("tools") != nullptr && line.find("max_rounds") != nullptr) {
    read.own_tools = std::move(line);
  } else if (line.find("tool") != nullptr) {
    if (line.find("output") != nullptr) {  // else it was not run
      read.tool_runs.push_back(
          {.choice = static_cast<std::uint32_t>(json::number_in(line, "choice")),
           .name = json::text_in(line, "tool"),
           .arguments = json::text_in(line, "arguments"),
           .output = json::text_in(line, "output"),
           .is_error = json::flag_in(line, "is_error"),
           .is_remembered = json::flag_in(line, "is_remembered")});
    }
    read.events.push_back(std::move(line));
  } else if (line.find("event") != nullptr || line.find("finish") != nullptr) {
    read.events.push_back(std::move(line));
  } else if (line.find("sent") != nullptr) {
    read.sent += json::text_in(line, "sent");
  } else if (line.find("end") != nullptr) {
    read.status = json::number_in(line, "end");
  } else if (line.find("cut") != nullptr) {
    read.is_cut = true;
  }
  return {};
}

}  // namespace

Expected<Read> read_recording(std::string_view text) {
  Read read;
  std::size_t number = 0;
  while (!text.empty()) {
    ++number;
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) {  // the writer was stopped in the middle of it
      read.is_cut = true;
      break;
    }
    auto line = json::parse(text.substr(0, end));
    text.remove_prefix(end + 1);
    if (!line) return wrong(number, line.error().message);
    if (line->if_object() == nullptr) return wrong(number, "must be an object");
    const Status done = number == 1 ? read_heading(*std::move(line), read)
                                    : read_line(*std::move(line), number, read);
    if (!done) return Unexpected(done.error());
  }
  if (number == 0 || read.heading.is_null()) {
    return wrong(1, "the recording is empty, or its first line is not whole");
  }
  return read;
}

}  // namespace tenon::record
