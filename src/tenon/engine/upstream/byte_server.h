#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/json/value.h"
#include "tenon/vocab/tokenizer.h"

namespace tenon::engine {

/// For tests: a control token, and a marker that the file calls user-defined, so that a
/// llama-server makes that token from any text.
inline constexpr std::string_view kControlText = "<|c|>";
inline constexpr std::string_view kMarkerText = "<sign>";
inline constexpr vocab::TokenId kControlId = 256;
inline constexpr vocab::TokenId kMarkerId = 257;

/// The ids that a llama-server with these tokens makes from a text.
inline std::vector<vocab::TokenId> byte_tokens(std::string_view text, bool parses_special) {
  std::vector<vocab::TokenId> ids;
  while (!text.empty()) {
    if (parses_special && text.starts_with(kControlText)) {
      ids.push_back(kControlId);
      text.remove_prefix(kControlText.size());
    } else if (text.starts_with(kMarkerText)) {
      ids.push_back(kMarkerId);
      text.remove_prefix(kMarkerText.size());
    } else {
      ids.push_back(static_cast<unsigned char>(text.front()));
      text.remove_prefix(1);
    }
  }
  return ids;
}

/// Its answer to POST /tokenize. A text becomes ids; each text in a list becomes ids by itself; an
/// id is answered with its text, which is a list of bytes if it is not UTF-8.
inline json::Value tokenize_bytes(const json::Value& asked) {
  json::Array tokens;
  const json::Value* special = asked.find("parse_special");
  const bool parses = special == nullptr || *special->if_bool();
  const auto add = [&](const std::string& text) {
    for (const vocab::TokenId id : byte_tokens(text, parses)) tokens.emplace_back(id);
  };
  const json::Value& content = *asked.find("content");
  if (content.if_string() != nullptr) {
    add(*content.if_string());
    return json::Object{{"tokens", std::move(tokens)}};
  }
  for (const json::Value& part : *content.if_array()) {
    if (part.if_string() != nullptr) {
      add(*part.if_string());
      continue;
    }
    const auto id = *part.if_number()->to_int64();
    json::Value piece = json::Array{json::Value(id)};
    if (id < 0x80) piece = std::string(1, static_cast<char>(id));
    if (id == kControlId) piece = kControlText;
    if (id == kMarkerId) piece = kMarkerText;
    tokens.emplace_back(json::Object{{"id", part}, {"piece", std::move(piece)}});
  }
  return json::Object{{"tokens", std::move(tokens)}};
}

}  // namespace tenon::engine
