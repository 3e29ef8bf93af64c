// Formats of one family (TENON_FAMILY: by how a call carries its arguments), fed with what their
// texts are made of in any order: markers, names, brackets, quotes, and words that are each there
// once. Every word must come out: in the content, the reasoning, or a call's name, id or arguments;
// nothing is lost but the markers and the frame of a call. And every cut gives the same.
#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz.h"

#include "tenon/base/utf8.h"
#include "tenon/format/definition.h"
#include "tenon/format/format.h"
#include "tenon/format/registry.h"
#include "tenon/format/stream_parser.h"
#include "tenon/json/value.h"

using tenon::fuzz::promise;
namespace format = tenon::format;
namespace message = tenon::message;
using format::Piece;

namespace {

bool has(const format::Pattern& pattern, std::initializer_list<Piece::Kind> kinds) {
  return std::any_of(pattern.begin(), pattern.end(), [kinds](const Piece& piece) {
    return std::find(kinds.begin(), kinds.end(), piece.kind) != kinds.end();
  });
}

/// The family of the first syntax. Calls that are held back until they are whole form one.
std::string_view family_of(const format::Format& format) {
  if (format.syntaxes.empty()) return "none";
  const format::Syntax& syntax = format.syntaxes.front();
  if (syntax.holds_call) return "held";
  if (has(syntax.call, {Piece::Kind::object})) return "object";
  if (has(syntax.call, {Piece::Kind::arguments})) return "arguments";
  if (has(syntax.call, {Piece::Kind::parameters})) return "parameters";
  return "dialects";  // Python's keywords, bare keys
}

struct Member {
  std::shared_ptr<const format::Format> format;
  std::vector<std::string> pieces;
  bool is_lossless = true;  ///< No slot in which words are read and left.
};

std::vector<Member> members_of_family() {
  std::vector<Member> members;
  for (const auto& each : format::all()) {
    if (family_of(*each) != TENON_FAMILY) continue;
    Member member{.format = each, .pieces = each->literals};
    for (const format::Syntax& syntax : each->syntaxes) {
      for (const format::Pattern* pattern :
           {&syntax.open, &syntax.call, &syntax.parameter, &syntax.separator, &syntax.close}) {
        for (const Piece& piece : *pattern) {
          const bool is_text =
              piece.kind == Piece::Kind::literal || piece.kind == Piece::Kind::space;
          if (is_text) member.pieces.push_back(piece.text);
          if (!is_text && has({piece}, {Piece::Kind::skip, Piece::Kind::type, Piece::Kind::index}))
            member.is_lossless = false;
        }
      }
      for (const auto* keys : {&syntax.object.name, &syntax.object.arguments}) {
        for (const std::string& key : *keys) member.pieces.push_back('"' + key + "\": ");
      }
    }
    for (const char* common : {"f",     "get_weather",
                               "\"f\"", "\"get_weather\"",
                               "{",     "}",
                               "[",     "]",
                               "(",     ")",
                               "\"",    "'",
                               "\\",    ":",
                               ",",     "=",
                               " ",     "\n",
                               "{}",    "true",
                               "1",     "é",
                               "<",     ">",
                               "&",     "_"}) {
      member.pieces.emplace_back(common);
    }
    members.push_back(std::move(member));
  }
  return members;
}

struct Text {
  std::string bytes;
  std::vector<std::string> words;
};

Text text_of(const Member& member, const std::uint8_t* data, std::size_t size) {
  Text text;
  for (std::size_t i = 0; i < size && text.bytes.size() < 4096; ++i) {
    if (data[i] >= 224) {
      text.words.push_back("q" + std::to_string(text.words.size()) + "z");
      text.bytes += text.words.back();
    } else {
      text.bytes += member.pieces[data[i] % member.pieces.size()];
    }
  }
  return text;
}

/// All that reaches the client, each part by itself.
std::string all_of(const message::Fold& fold) {
  std::string all = fold.message().text() + '\n' + fold.message().reasoning;
  for (const auto& call : fold.message().tool_calls)
    all += '\n' + call.id + '\n' + call.name + '\n' + call.arguments;
  return all;
}

message::Fold folded(const std::vector<message::ChatEvent>& events) {
  message::Fold fold;
  for (const auto& event : events) fold.add(event);
  return fold;
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto members = members_of_family();
  if (size == 0 || members.empty()) return 0;
  const Member& member = members[data[0] / 2 % members.size()];
  const bool truncated = data[0] % 2 == 1;
  const Text text = text_of(member, data + 1, size - 1);
  format::StreamParser parser(member.format, {.tools = {"get_weather", "f"}, .id_prefix = "call_"});
  std::vector<message::ChatEvent> events;
  parser.feed(text.bytes, false, events);
  parser.finish(truncated, events);
  const message::Fold whole = folded(events);
  const auto& codes = whole.diagnostics();
  const bool ignores = std::any_of(codes.begin(), codes.end(), [](const auto& diagnostic) {
    return diagnostic.code == "ignored_member" || diagnostic.code == "behind_end";
  });
  const std::string all = all_of(whole);
  for (const std::string& word : text.words) {
    const bool is_kept = ignores || !member.is_lossless || all.find(word) != std::string::npos;
    if (!is_kept) {
      std::fprintf(stderr, "format %s, word %s of the text:\n%s\n",
                   member.format->info.name.c_str(), word.c_str(), text.bytes.c_str());
    }
    promise(is_kept, "no word is lost");
  }
  for (std::size_t i = 0; i < whole.message().tool_calls.size(); ++i) {
    promise((truncated && whole.incomplete()[i]) ||
                tenon::json::parse(whole.message().tool_calls[i].arguments),
            "arguments are JSON");
  }
  for (std::uint32_t seed = 0; seed < 2; ++seed) {
    parser.reset();
    events.clear();
    tenon::fuzz::in_pieces(text.bytes, seed + data[0],
                           [&](std::string_view piece) { parser.feed(piece, false, events); });
    parser.finish(truncated, events);
    const message::Fold pieces = folded(events);
    promise(pieces.message().content == whole.message().content &&
                pieces.message().reasoning == whole.message().reasoning &&
                pieces.diagnostics() == whole.diagnostics() &&
                pieces.message().tool_calls.size() == whole.message().tool_calls.size(),
            "every cut gives the same message");
    for (std::size_t i = 0; i < whole.message().tool_calls.size(); ++i) {  // ids are random
      promise(pieces.message().tool_calls[i].arguments == whole.message().tool_calls[i].arguments,
              "every cut gives the same arguments");
    }
  }
  return 0;
}
