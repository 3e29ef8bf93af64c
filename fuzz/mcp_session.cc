// A server of tools that says anything: after the handshake, each line is a message, sent when it
// is next asked.
#include <chrono>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "fuzz.h"

#include "tenon/mcp/client.h"
#include "tenon/mcp/transport.h"

using tenon::Errc;
using tenon::Status;
using tenon::fuzz::promise;
namespace json = tenon::json;
namespace mcp = tenon::mcp;

namespace {

constexpr std::size_t kMaxBytes = 10'000;
constexpr std::size_t kMaxTools = 10;

class Script final : public mcp::Transport {
 public:
  Script(std::string_view lines, mcp::TransportHandlers handlers)
      : lines_(lines), handlers_(std::move(handlers)) {}

  Status send(const json::Value& message, std::int64_t id,
              const std::vector<tenon::http::Header>& /*headers*/) override {
    const json::Value* const method = message.find("method");
    if (method != nullptr && *method == json::Value("initialize")) {
      const json::Object hello{{"protocolVersion", "2025-06-18"},
                               {"capabilities", json::Object{{"tools", json::Object{}}}}};
      handlers_.on_message(json::Object{{"id", id}, {"result", hello}});
    } else if (id != 0) {
      say();
    }
    return {};
  }
  void abandon(std::int64_t /*id*/) override {}
  void begin(const std::string& /*version*/, const json::Value& /*hello*/,
             const mcp::CallOptions& /*call*/) override {}

 private:
  // Up to an empty line.
  void say() {
    while (!lines_.empty()) {
      const auto end = lines_.find('\n');
      const std::string_view line = lines_.substr(0, end);
      lines_.remove_prefix(end == lines_.npos ? lines_.size() : end + 1);
      if (line.empty()) return;
      if (auto message = mcp::parse_message(line)) {
        handlers_.on_message(*std::move(message));
      } else {
        handlers_.on_unreadable(line, message.error());
      }
    }
  }

  std::string_view lines_;
  const mcp::TransportHandlers handlers_;
};

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view lines = tenon::fuzz::text_of(data, size);
  const auto open = [lines](mcp::TransportHandlers handlers) {
    return tenon::Expected<std::unique_ptr<mcp::Transport>>(
        std::make_unique<Script>(lines, std::move(handlers)));
  };
  const auto client = mcp::connect_over(
      "s", open,
      {.expects_handshake = true, .max_message_bytes = kMaxBytes, .max_tools = kMaxTools}, {});
  promise(client.has_value(), "the handshake is whole");
  // What is not there by then does not come.
  const auto now = std::chrono::steady_clock::now();
  const auto tools = (*client)->list_tools({.deadline = now});
  if (tools) {
    promise(tools->size() <= kMaxTools, "the number of tools is bounded");
    std::size_t bytes = 0;
    for (const mcp::Tool& tool : *tools) {
      promise(!tool.name.empty(), "each tool has a name");
      bytes +=
          tool.name.size() + tool.description.size() + json::to_string(tool.input_schema).size();
    }
    promise(bytes <= 2 * kMaxBytes, "and so are their bytes");
  }
  double last = 0;
  const auto result = (*client)->call_tool(
      "f", {}, {.deadline = now, .on_progress = [&last](const mcp::Progress& told) {
                  last = told.progress;
                }});
  const tenon::Error* const of_list = tools ? nullptr : &tools.error();
  const tenon::Error* const of_call = result ? nullptr : &result.error();
  for (const tenon::Error* const error : {of_list, of_call}) {
    promise(error == nullptr || !error->message.empty(), "a failure says why");
    promise(error == nullptr || error->message.size() < 10'000, "and is brief");
  }
  return 0;
}
