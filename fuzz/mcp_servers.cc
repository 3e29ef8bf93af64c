// Files of mcpServers: each server is behind pipes or at an address.
#include "fuzz.h"

#include "tenon/json/value.h"
#include "tenon/mcp/servers.h"

using tenon::fuzz::promise;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto config = tenon::json::parse(tenon::fuzz::text_of(data, size));
  if (!config) return 0;
  const auto servers = tenon::mcp::read_servers(*config);
  if (!servers) {
    promise(servers.error().message.find("mcpServers") != std::string::npos, "the place is named");
    return 0;
  }
  for (const auto& entry : *servers) {
    if (entry.fault) {
      promise(entry.fault->message.find("mcpServers." + entry.config.name) == 0, "it is named");
    } else if (!entry.is_disabled) {
      promise(entry.config.command.empty() != entry.config.url.empty(), "it is at one place");
    }
  }
  return 0;
}
