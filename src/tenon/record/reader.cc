#include "tenon/record/reader.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <iterator>
#include <limits>
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

// What a member of a line must be, wherever it stands.
bool is_whole(const json::Value& value, std::int64_t least, std::int64_t most) {
  const auto number = value.if_number() == nullptr ? std::nullopt : value.if_number()->to_int64();
  return number && *number >= least && *number <= most;
}
bool is_id(const json::Value& value) {
  using Limits = std::numeric_limits<std::int32_t>;
  return is_whole(value, Limits::min(), Limits::max());
}
bool is_count(const json::Value& value) {
  return is_whole(value, 0, std::numeric_limits<std::uint32_t>::max());
}
bool is_size(const json::Value& value) {
  return is_whole(value, 0, std::numeric_limits<std::int64_t>::max());
}
// JSON has no infinity: the logarithm of 0 is null.
bool is_logprob(const json::Value& value) {
  return value.if_number() != nullptr || value.is_null();
}
bool is_flag(const json::Value& value) {
  return value.if_bool() != nullptr;
}
bool is_text(const json::Value& value) {
  return value.if_string() != nullptr;
}
bool is_hex(const json::Value& value) {
  return is_text(value) && from_hex(*value.if_string()).size() * 2 == value.if_string()->size();
}
bool is_ids(const json::Value& value) {
  return value.if_array() != nullptr && std::ranges::all_of(*value.if_array(), is_id);
}
bool is_objects(const json::Value& value) {
  return value.if_array() != nullptr &&
         std::ranges::all_of(*value.if_array(),
                             [](const json::Value& one) { return one.if_object() != nullptr; });
}
// The third item is true, false or null, and the last two may be missing.
bool is_likely(const json::Value& value) {
  const json::Array* const items = value.if_array();
  return items != nullptr && items->size() >= 2 && is_text((*items)[0]) &&
         is_logprob((*items)[1]) && (items->size() < 4 || is_hex((*items)[3]));
}
bool is_top(const json::Value& value) {
  return value.if_array() != nullptr && std::ranges::all_of(*value.if_array(), is_likely);
}

// `tools` and `made_by` are not here: lines are told apart by their types (read_line).
struct Member {
  std::string_view name;
  std::string_view must_be;
  bool (*fits)(const json::Value&);
};

constexpr Member kMembers[] = {
    {"token", "a token's id", is_id},
    {"run", "a whole number", is_count},
    {"choice", "a whole number", is_count},
    {"count", "a whole number", is_count},
    {"legal", "a whole number", is_count},
    {"index", "a whole number", is_count},
    {"status", "a whole number", is_count},
    {"end", "a whole number", is_count},
    {"retry_after_s", "a whole number", is_count},
    {"prompt_tokens", "a whole number", is_count},
    {"completion_tokens", "a whole number", is_count},
    {"cached_tokens", "a whole number", is_count},
    {"reasoning_tokens", "a whole number", is_count},
    {"closed_loops", "a whole number", is_count},
    {"max_rounds", "a whole number", is_count},
    {"max_calls", "a whole number", is_count},
    {"at", "a whole number", is_size},
    {"asked_bytes", "a whole number", is_size},
    {"logprob", "a number", is_logprob},
    {"stream", "true or false", is_flag},
    {"control", "true or false", is_flag},
    {"incomplete", "true or false", is_flag},
    {"is_constrained", "true or false", is_flag},
    {"is_estimated", "true or false", is_flag},
    {"is_error", "true or false", is_flag},
    {"is_remembered", "true or false", is_flag},
    {"are_shown", "true or false", is_flag},
    {"are_remembered", "true or false", is_flag},
    {"id", "a text", is_text},
    {"model", "a text", is_text},
    {"path", "a text", is_text},
    {"text", "a text", is_text},
    {"logprob_text", "a text", is_text},
    {"piece", "a text", is_text},
    {"name", "a text", is_text},
    {"arguments", "a text", is_text},
    {"upstream", "a text", is_text},
    {"type", "a text", is_text},
    {"coding", "a text", is_text},
    {"code", "a text", is_text},
    {"error", "a text", is_text},
    {"message", "a text", is_text},
    {"run_end", "a text", is_text},
    {"unconstrained_because", "a text", is_text},
    {"event", "a text", is_text},
    {"finish", "a text", is_text},
    {"guarantee", "a text", is_text},
    {"tool", "a text", is_text},
    {"decision", "a text", is_text},
    {"output", "a text", is_text},
    {"sent", "a text", is_text},
    {"hex", "pairs of hexadecimal digits", is_hex},
    {"ids", "a list of token ids", is_ids},
    {"top", "a list of [text, logprob, legal, hex]", is_top},
    {"attempts", "a list of objects", is_objects},
};

Status check(const json::Value& line, std::size_t number) {
  for (const json::Member& member : *line.if_object()) {
    const auto* const known = std::ranges::find(kMembers, member.key, &Member::name);
    if (known == std::end(kMembers) || known->fits(member.value)) continue;
    return wrong(number, json::quoted(member.key) + " must be " + std::string(known->must_be) +
                             ": the file was damaged or edited");
  }
  // Without contents a token has the number of its bytes.
  const bool has_bytes =
      line.find("text") != nullptr || line.find("hex") != nullptr || line.find("bytes") != nullptr;
  if (line.find("token") != nullptr && !has_bytes) {
    return wrong(number, "a token must have \"text\" or \"hex\": the file was damaged or edited");
  }
  return {};
}

std::string bytes_of(const json::Value& line) {
  const bool is_hex = line.find("hex") != nullptr;
  return is_hex ? from_hex(json::text_in(line, "hex")) : json::text_in(line, "text");
}

double logprob_in(const json::Value& value) {
  return value.is_null() ? -std::numeric_limits<double>::infinity()
                         : value.if_number()->to_double();
}

// "logprob": -0.5, "top": [["hi", -0.5, true], ...]. A fourth item has the bytes of a text that is
// not whole characters. Members have the types of kMembers.
std::unique_ptr<KeptLogprob> logprob_of(const json::Value& line, std::string_view bytes) {
  const json::Value* const own = line.find("logprob");
  if (own == nullptr) return nullptr;
  const bool has_text = line.find("logprob_text") != nullptr;
  auto kept = std::make_unique<KeptLogprob>();
  message::TokenLogprob& logprob = kept->logprob;
  logprob = {.bytes = has_text ? json::text_in(line, "logprob_text") : std::string(bytes),
             .logprob = logprob_in(*own)};
  const json::Value* const top = line.find("top");
  for (std::size_t i = 0; top != nullptr && i < top->if_array()->size(); ++i) {
    const json::Array& one = *(*top->if_array())[i].if_array();
    logprob.top.emplace_back(
        one.size() > 3 ? from_hex(*one[3].if_string()) : *one.front().if_string(),
        logprob_in(one[1]));
  }
  if (line.find("legal") == nullptr) return kept;
  kept->legal_tops = std::min(logprob.top.size(), kept->top_is_legal.size());
  for (std::size_t i = 0; i < kept->legal_tops; ++i) {
    const json::Array& one = *(*top->if_array())[i].if_array();
    kept->top_is_legal[i] = one.size() > 2 && one[2] == json::Value(true);
  }
  return kept;
}

// {"token": 5, "at": 900, "run": 0, "text": "hi"}; "hex" instead of "text" for bytes that are not
// whole characters.
Step token_of(const json::Value& line) {
  Step step{.at_us = json::number_in(line, "at"),
            .id = static_cast<std::int32_t>(json::number_in(line, "token")),
            .bytes = bytes_of(line),
            .is_control = json::flag_in(line, "control")};
  if (line.find("count") != nullptr)
    step.count = static_cast<std::uint32_t>(json::number_in(line, "count"));
  step.logprob = logprob_of(line, step.bytes);
  if (line.find("legal") != nullptr) {
    step.legal = static_cast<std::uint32_t>(json::number_in(line, "legal"));
  }
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

// The URL of the server that was asked last.
std::string last_server(const json::Value& run_end) {
  const json::Value* const attempts = run_end.find("attempts");
  const json::Array* const list = attempts == nullptr ? nullptr : attempts->if_array();
  return list == nullptr || list->empty() ? std::string() : json::text_in(list->back(), "server");
}

Errc code_of(std::string_view name) {
  for (const Errc code : {Errc::invalid, Errc::unsupported, Errc::limit_exceeded,
                          Errc::unsatisfiable, Errc::unavailable}) {
    if (errc_name(code) == name) return code;
  }
  return Errc::unavailable;
}

// A head that follows another one is that of the next attempt, and only the last one counts.
void read_upstream(const json::Value& line, Run& run) {
  const std::string part = json::text_in(line, "upstream");
  if (part == "head") {
    run.upstream = {
        .status = static_cast<unsigned>(json::number_in(line, "status")),
        .type = json::text_in(line, "type"),
        .coding = json::text_in(line, "coding"),
        .retry_after_s = static_cast<std::uint32_t>(json::number_in(line, "retry_after_s")),
        .asked_bytes = static_cast<std::size_t>(json::number_in(line, "asked_bytes"))};
  }
  if (!run.upstream) return;
  if (part == "body") run.upstream->body.push_back(bytes_of(line));
  if (part == "end" && line.find("code") != nullptr) {
    run.upstream->broken =
        Error{code_of(json::text_in(line, "code")), json::text_in(line, "error")};
  }
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
    read.why_not_played =
        "the recording has no contents (it was made with log_contents = false), so it cannot be "
        "replayed";
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
  const bool is_token = line.find("token") != nullptr;
  if (is_token || line.find("piece") != nullptr || line.find("upstream") != nullptr) {
    Run* const run = run_of();
    if (run == nullptr) return wrong(number, "there is no such run before this line");
    if (line.find("upstream") != nullptr) {
      read_upstream(line, *run);
    } else {
      run->steps.push_back(is_token ? token_of(line) : piece_of(line));
      run->steps.back().line = number;
    }
  } else if (json::Value* made_by = line.find("made_by");
             made_by != nullptr && made_by->if_object() != nullptr) {
    read.makers.push_back(std::move(*made_by));
  } else if (line.find("run_end") != nullptr) {
    Run* const run = run_of();
    if (run == nullptr) return wrong(number, "there is no such run before this line");
    if (run->upstream) {
      run->upstream->url = last_server(line);
      run->upstream->was_cancelled = json::text_in(line, "run_end") == "cancelled";
    }
    run->end = std::move(line);
    run->end_line = number;
  } else if (line.find("run") != nullptr) {
    constexpr std::size_t kMostRuns = 10'000;
    if (read.runs.size() == kMostRuns) {
      return wrong(number, "there are more than " + std::to_string(kMostRuns) + " runs");
    }
    const auto maker = static_cast<std::size_t>(json::number_in(line, "made_by"));
    if (maker >= read.makers.size()) return wrong(number, "what made this run is not known");
    if (line.find("part") != nullptr) {
      read.why_not_played =
          "the answer is a recursive model's, which cannot be replayed: its code is not run again";
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
    if (!line) {
      // The text is one line, and its number in the file is told already.
      constexpr std::string_view kFirstLine = "line 1, ";
      std::string_view why = line.error().message;
      if (why.starts_with(kFirstLine)) why.remove_prefix(kFirstLine.size());
      return wrong(number, "this is not JSON (" + std::string(why) + ")");
    }
    if (line->if_object() == nullptr) return wrong(number, "must be an object");
    if (const Status fits = check(*line, number); !fits) return Unexpected(fits.error());
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
