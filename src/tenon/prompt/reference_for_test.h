#pragma once

#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/base/data_for_test.h"
#include "tenon/json/value.h"

/// Templates, conversations and what they render to, of either set of test data.
namespace tenon::prompt {

inline std::string read_reference(Data data, const std::string& path) {
  std::ifstream in(folder_of(data) / path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

inline json::Value parsed_reference(std::string_view text) {
  Expected<json::Value> value = json::parse(text);
  EXPECT_TRUE(value) << text.substr(0, 200);
  return value ? *std::move(value) : json::Value();
}

/// The values of a file of JSON lines.
inline std::vector<json::Value> reference_rows(Data data, const std::string& path) {
  std::vector<json::Value> rows;
  std::istringstream lines(read_reference(data, path));
  for (std::string line; std::getline(lines, line);) rows.push_back(parsed_reference(line));
  return rows;
}

struct ReferenceTemplate {
  std::string source;
  std::string bos_token;  ///< "": not stated.
  std::string eos_token;
};

/// By name.
inline std::map<std::string, ReferenceTemplate> reference_templates(Data data) {
  std::map<std::string, ReferenceTemplate> templates;
  for (const json::Value& row : reference_rows(data, "templates/manifest.jsonl")) {
    ReferenceTemplate one;
    one.source = read_reference(data, "templates/" + *row.find("file")->if_string());
    const auto token = [&](std::string_view key) {
      const std::string* text = row.find(key)->if_string();
      return text == nullptr ? std::string() : *text;
    };
    one.bos_token = token("bos");
    one.eos_token = token("eos");
    templates[*row.find("template")->if_string()] = std::move(one);
  }
  return templates;
}

/// Contexts by id.
inline std::map<std::string, json::Object> reference_conversations(Data data) {
  std::map<std::string, json::Object> conversations;
  const json::Value all = parsed_reference(read_reference(data, "templates/conversations.json"));
  for (const json::Value& one : *all.if_array()) {
    conversations[*one.find("id")->if_string()] = *one.find("context")->if_object();
  }
  return conversations;
}

}  // namespace tenon::prompt
