#include "verify/question.h"

#include <array>
#include <cassert>
#include <utility>

#include "verify/dialects.h"

namespace tenon::app::verify {
namespace {

struct DialectRow {
  Dialect dialect;
  std::string_view name;
  std::string_view path;
  json::Object (*body)(const Question& question);
};

constexpr std::array kDialects = {
    DialectRow{Dialect::chat, "chat", "/v1/chat/completions", chat_body},
    DialectRow{Dialect::responses, "responses", "/v1/responses", responses_body},
    DialectRow{Dialect::messages, "messages", "/v1/messages", messages_body},
};

const DialectRow& row_of(Dialect dialect) {
  return kDialects[static_cast<std::size_t>(dialect)];
}

// ASCII, and no character of a marker: the line itself must change nothing in the prompt.
std::string play_line(const Play& play) {
  std::string line = "\n";
  line += kPlayMark;
  for (const char c : json::dumps(play.to_json())) {
    switch (c) {
      case '<':
        line += "\\u003c";
        break;
      case '>':
        line += "\\u003e";
        break;
      case '|':
        line += "\\u007c";
        break;
      default:
        line += c;
    }
  }
  return line;
}

Question with_play(Question question) {
  for (auto turn = question.turns.rbegin(); turn != question.turns.rend(); ++turn) {
    if (turn->role != "user") continue;
    turn->text += play_line(question.play);
    break;
  }
  return question;
}

}  // namespace

std::string_view dialect_name(Dialect dialect) {
  return row_of(dialect).name;
}

std::optional<Dialect> find_dialect(std::string_view name) {
  for (const DialectRow& row : kDialects) {
    if (row.name == name) return row.dialect;
  }
  return std::nullopt;
}

std::string_view path_of(Dialect dialect) {
  return row_of(dialect).path;
}

json::Object Play::to_json() const {
  json::Object said;
  if (!text.empty()) said.set("text", text);
  if (!reasoning.empty()) said.set("reasoning", reasoning);
  json::Array written;
  for (const PlainCall& call : calls) {
    // As text, so that a played model can write arguments that are no JSON.
    written.emplace_back(json::Object{{"name", call.name}, {"arguments", call.arguments}});
  }
  if (!written.empty()) said.set("calls", std::move(written));
  if (!find.empty()) said.set("find", find);
  if (is_drawn) said.set("drawn", true);
  if (pace_ms != 0) said.set("pace_ms", pace_ms);
  return said;
}

Question asking(std::string text) {
  return {.turns = {{.role = "user", .text = std::move(text)}}};
}

Question streamed(Question question) {
  question.is_streamed = true;
  return question;
}

json::Object body_of(const Question& question, Dialect dialect, const std::string& model,
                     bool is_played) {
  json::Object body{{"model", model}};
  const json::Object rest =
      is_played ? row_of(dialect).body(with_play(question)) : row_of(dialect).body(question);
  for (const json::Member& member : rest) body.set(member.key, member.value);
  if (question.bend) question.bend(body);
  return body;
}

json::Value json_of(std::string_view text) {
  auto value = json::parse(text);
  assert(value);
  return *std::move(value);
}

}  // namespace tenon::app::verify
