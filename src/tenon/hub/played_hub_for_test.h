#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <unistd.h>

#include "tenon/http/fake_server_for_test.h"
#include "tenon/hub/digest.h"
#include "tenon/hub/settings.h"
#include "tenon/json/value.h"

namespace tenon::hub {

/// A request that a played hub has received.
struct Asked {
  std::string target;
  std::string head;

  [[nodiscard]] std::string header(std::string_view name) const {
    const std::string start = "\r\n" + std::string(name) + ": ";
    const std::size_t at = head.find(start);
    if (at == std::string::npos) return {};
    return head.substr(at + start.size(), head.find("\r\n", at + 2) - at - start.size());
  }
};

inline std::string http_answer(std::string_view status, std::string_view headers,
                               std::string_view body) {
  return "HTTP/1.1 " + std::string(status) +
         "\r\nConnection: close\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" +
         std::string(headers) + "\r\n" + std::string(body);
}

/// A fake hub with one repository, "owner/repo". A test can choose the bytes of its answers.
class PlayedHub {
 public:
  static constexpr std::string_view kCommit = "0123456789abcdef0123456789abcdef01234567";
  /// Gets the request and how many requests for the same target came before. Returns the bytes of
  /// the answer, or no value to answer as a good hub does.
  using Fault = std::function<std::optional<std::string>(const Asked& asked, int before)>;

  explicit PlayedHub(std::map<std::string, std::string> files = {}, Fault fault = {})
      : files_(std::move(files)),
        fault_(std::move(fault)),
        server_([this](int connection, int /*number*/) { serve(connection); }) {}

  [[nodiscard]] std::string url() const {
    const std::string url = server_.url();
    return url.substr(0, url.size() - 1);
  }
  [[nodiscard]] std::vector<Asked> asked() const {
    const std::lock_guard lock(mutex_);
    return asked_;
  }
  [[nodiscard]] std::string entry(const std::string& path, const std::string& bytes) const {
    Digest digest = Digest::sha256();
    digest.add(bytes);
    const auto size = std::uint64_t{bytes.size()};
    return json::to_string(json::Object{
        {"type", "file"},
        {"path", path},
        {"size", size},
        {"oid", std::string(40, 'a')},
        {"lfs", json::Object{{"oid", digest.hex()}, {"size", size}, {"pointerSize", 134}}}});
  }
  [[nodiscard]] std::string list() const {
    std::string text;
    for (const auto& [path, bytes] : files_) text += (text.empty() ? "" : ",") + entry(path, bytes);
    return "[" + text + "]";
  }
  /// The answer of a good hub.
  [[nodiscard]] std::string good(const Asked& asked) const {
    const std::string& target = asked.target;
    const std::string api = "/api/models/owner/repo/";
    const std::string resolve = "/owner/repo/resolve/" + std::string(kCommit) + "/";
    if (target.starts_with(api + "revision/")) {
      return http_answer("200 OK", "", R"({"sha":")" + std::string(kCommit) + R"("})");
    }
    if (target.starts_with(api + "tree/")) return http_answer("200 OK", "", list());
    const auto file =
        target.starts_with(resolve) ? files_.find(target.substr(resolve.size())) : files_.end();
    if (file == files_.end()) return http_answer("404 Not Found", "", "{}");
    return file_answer(asked, file->second);
  }
  [[nodiscard]] static std::string file_answer(const Asked& asked, const std::string& bytes) {
    const std::string range = asked.header("Range");
    if (range.empty()) return http_answer("200 OK", "", bytes);
    const std::size_t begin = std::stoul(range.substr(range.find('=') + 1));
    if (begin >= bytes.size()) return http_answer("416 Range Not Satisfiable", "", "");
    return http_answer("206 Partial Content",
                       "Content-Range: bytes " + std::to_string(begin) + "-" +
                           std::to_string(bytes.size() - 1) + "/" + std::to_string(bytes.size()) +
                           "\r\n",
                       bytes.substr(begin));
  }

 private:
  void serve(int connection) {
    const std::string head = http::read_request(connection);
    const std::size_t begin = head.find(' ') + 1;
    Asked asked{.target = head.substr(begin, head.find(' ', begin) - begin), .head = head};
    if (head.empty()) return;
    int before = 0;
    {
      const std::lock_guard lock(mutex_);
      for (const Asked& other : asked_) before += other.target == asked.target ? 1 : 0;
      asked_.push_back(asked);
    }
    auto bytes = fault_ ? fault_(asked, before) : std::nullopt;
    http::say(connection, bytes ? *bytes : good(asked));
  }

  const std::map<std::string, std::string> files_;
  const Fault fault_;
  mutable std::mutex mutex_;
  std::vector<Asked> asked_;  // guarded by mutex_
  http::FakeServer server_;   // last: its thread uses the members above
};

/// A cache in a temporary folder of its own, with short pauses. A silent hub is waited for as long
/// as a busy machine may need, since an answer that came too late would be asked for again.
class TestCache {
 public:
  explicit TestCache(const PlayedHub& hub, std::string_view name)
      : folder_(std::filesystem::path("/tmp") /
                ("tenon_hub_test_" + std::to_string(::getpid()) + "_" + std::string(name))) {
    std::filesystem::remove_all(folder_);
    settings.endpoint = hub.url();
    settings.cache = folder_;
    settings.ollama.clear();
    settings.first_pause = std::chrono::milliseconds(1);
    settings.silence_limit = std::chrono::minutes(1);
    settings.max_pause = std::chrono::milliseconds(2'000);
  }
  TestCache(const TestCache&) = delete;
  TestCache& operator=(const TestCache&) = delete;
  ~TestCache() { std::filesystem::remove_all(folder_); }

  Settings settings;

 private:
  std::filesystem::path folder_;
};

}  // namespace tenon::hub
