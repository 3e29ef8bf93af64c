#include "tenon/api/secrets.h"

#include <utility>

#include "tenon/http/client.h"
#include "tenon/json/value.h"

namespace tenon::api {
namespace {

constexpr std::string_view kMask = "***";

// Masks what a server of tools is reached with: tokens, keys in its address, values of headers.
// Returns whether there was anything to mask.
bool mask(json::Value& server) {
  json::Object* const members = server.if_object();
  if (members == nullptr) return false;
  bool is_changed = false;
  for (const std::string_view key : {"authorization", "authorization_token"}) {
    if (!members->contains(key)) continue;
    members->set(std::string(key), kMask);
    is_changed = true;
  }
  // A query may have a key in it, as ".../mcp?key=...".
  for (const std::string_view key : {"server_url", "url"}) {
    json::Value* const address = members->find(key);
    const std::string* const given = address == nullptr ? nullptr : address->if_string();
    if (given == nullptr) continue;
    std::string told = http::without_secrets(*given);
    if (told == *given) continue;
    *address = std::move(told);
    is_changed = true;
  }
  json::Value* const headers = members->find("headers");
  if (headers == nullptr) return is_changed;
  if (headers->if_object() == nullptr) {
    *headers = kMask;
    return true;
  }
  json::Object masked;
  for (const json::Member& header : *headers->if_object()) masked.set(header.key, kMask);
  *headers = std::move(masked);
  return true;
}

}  // namespace

// The body is only parsed if it can have a server of tools, and is given back as it came if nothing
// was masked: recordings have the client's own bytes.
std::string without_secrets(std::string_view body) {
  std::string text(body);
  // The word may be written in escapes.
  if (body.find("mcp") == body.npos && body.find("\\u") == body.npos) return text;
  auto parsed = json::parse(body);
  if (!parsed || parsed->if_object() == nullptr) return text;
  bool is_changed = false;
  for (const std::string_view list : {"tools", "mcp_servers"}) {
    json::Value* const found = parsed->find(list);
    json::Array* const items = found == nullptr ? nullptr : found->if_array();
    if (items == nullptr) continue;
    for (json::Value& item : *items) {
      const json::Value* const type = item.if_object() == nullptr ? nullptr : item.find("type");
      if (list == "tools" && (type == nullptr || *type != json::Value("mcp"))) continue;
      is_changed = mask(item) || is_changed;
    }
  }
  return is_changed ? json::to_string(*parsed) : text;
}

}  // namespace tenon::api
