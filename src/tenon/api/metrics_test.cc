#include "tenon/api/metrics.h"

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <map>
#include <ostream>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/base/file.h"

namespace tenon::api {
namespace {

struct Described {
  std::string type;
  std::set<std::string> labels;

  bool operator==(const Described&) const = default;
  friend std::ostream& operator<<(std::ostream& out, const Described& described) {
    out << described.type;
    for (const std::string& label : described.labels) out << " " << label;
    return out;
  }
};
using All = std::map<std::string, Described>;

std::vector<std::string> found(const std::string& text, const std::regex& what, std::size_t group) {
  std::vector<std::string> all;
  for (std::sregex_iterator next(text.begin(), text.end(), what), end; next != end; ++next) {
    all.push_back((*next)[group]);
  }
  return all;
}

// The text of GET /metrics once everything has happened.
All of_the_server() {
  Metrics metrics;
  metrics.first_event("m", std::chrono::seconds(1));
  metrics.answer_ended("m", message::Finish{}, {.begun = 1});
  metrics.repaired("m", "unknown_tool");
  metrics.grammars("m", {});
  metrics.engine("m", {.upstreams = {{.url = "http://a"}}});
  metrics.models({{.name = "m"}});
  metrics.spans({.exported = 1});
  RunningRequest(metrics).ended(200);

  All all;
  std::istringstream lines(metrics.text());
  const std::regex type("# TYPE (\\S+) (\\S+)");
  const std::regex label("(\\w+)=\"");
  std::string name;
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (std::regex_match(line, match, type)) {
      name = match[1];
      all[name].type = match[2];
    } else if (!line.starts_with('#')) {
      for (const std::string& each : found(line, label, 1)) {
        if (each != "le") all[name].labels.insert(each);  // every histogram has "le"
      }
    }
  }
  return all;
}

All of_the_page() {
  const auto text =
      read_file(std::filesystem::path(TENON_SOURCE_DIR) / "docs" / "metrics.md", 1 << 20);
  EXPECT_TRUE(text);
  All all;
  std::istringstream lines(text.value_or(""));
  const std::regex row(R"(\| `(tenon_\w+)` \| (\w+) \|([^|]*)\|.*)");
  const std::regex label("`(\\w+)`");
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (!std::regex_match(line, match, row)) continue;
    EXPECT_FALSE(all.contains(match[1])) << line;
    Described& described = all[match[1]];
    described.type = match[2];
    for (const std::string& each : found(match[3], label, 1)) described.labels.insert(each);
  }
  return all;
}

// A model that a new configuration has no longer.
TEST(Metrics, SayNothingOfModelsThatAreGone) {
  Metrics metrics;
  const chat::ModelRegistry::Entry old{
      .name = "old", .loaded = chat::ModelRegistry::Loaded{}, .memory_bytes = 7};
  metrics.models({old, {.name = "kept"}});
  EXPECT_NE(metrics.text().find("tenon_model_bytes{model=\"old\"} 7"), std::string::npos);
  metrics.models({{.name = "kept"}});
  for (const std::string_view gauge : {"tenon_model_loaded", "tenon_model_bytes"}) {
    const std::string line = std::string(gauge) + "{model=\"old\"} 0";
    EXPECT_NE(metrics.text().find(line), std::string::npos) << metrics.text();
  }
}

// A server that a new configuration has no longer.
TEST(Metrics, SayNothingOfServersThatAreGone) {
  Metrics metrics;
  const auto stats_of = [](std::initializer_list<const char*> urls) {
    engine::EngineStats stats;
    for (const char* const url : urls) stats.upstreams.push_back({.url = url, .answered = 3});
    return stats;
  };
  metrics.engine("m", stats_of({"http://a", "http://b"}));
  EXPECT_NE(metrics.text().find("http://a"), std::string::npos);
  metrics.engine("m", stats_of({"http://b"}));
  EXPECT_EQ(metrics.text().find("http://a"), std::string::npos) << metrics.text();
  EXPECT_NE(metrics.text().find("http://b"), std::string::npos);
  metrics.models({{.name = "m"}});
  metrics.models({});
  EXPECT_EQ(metrics.text().find("http://b"), std::string::npos) << metrics.text();
}

TEST(Metrics, AllStandInThePageAndNoOthers) {
  EXPECT_EQ(of_the_server(), of_the_page());
}

}  // namespace
}  // namespace tenon::api
