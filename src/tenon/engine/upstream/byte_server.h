#pragma once

#include <string>
#include <utility>

#include "tenon/json/value.h"

namespace tenon::engine {

/// For tests: what a llama-server whose tokens are bytes answers to POST /tokenize. A text becomes
/// ids; ids are answered with their texts, which are lists of bytes where they are not UTF-8.
inline json::Value tokenize_bytes(const json::Value& asked) {
  json::Array tokens;
  const json::Value& content = *asked.find("content");
  if (content.if_string() != nullptr) {
    for (const char byte : *content.if_string()) {
      tokens.emplace_back(static_cast<int>(static_cast<unsigned char>(byte)));
    }
  } else {
    for (const json::Value& id : *content.if_array()) {
      const auto byte = *id.if_number()->to_int64();
      json::Value piece = byte < 0x80 ? json::Value(std::string(1, static_cast<char>(byte)))
                                      : json::Value(json::Array{json::Value(byte)});
      tokens.emplace_back(json::Object{{"id", id}, {"piece", std::move(piece)}});
    }
  }
  return json::Object{{"tokens", std::move(tokens)}};
}

}  // namespace tenon::engine
