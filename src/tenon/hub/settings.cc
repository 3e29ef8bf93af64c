#include "tenon/hub/settings.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "tenon/base/failure.h"
#include "tenon/base/file.h"
#include "tenon/http/client.h"
#include "tenon/http/wire.h"

namespace tenon::hub {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxTokenBytes = 4096;
// Where the service that Ollama's installer sets up keeps its models.
constexpr std::string_view kOllamaService = "/usr/share/ollama/.ollama/models";

// The first of these variables that is set, or "".
std::string variable(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const char* const value = std::getenv(name);
    if (value != nullptr && *value != '\0') return value;
  }
  return {};
}

// The words that the hub's own client accepts.
bool is_true(const std::string& value) {
  std::string upper = value;
  std::ranges::transform(upper, upper.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return upper == "1" || upper == "ON" || upper == "YES" || upper == "TRUE";
}

// `path` with "~/" replaced by the home folder, since a shell does not do that in `HF_HOME="~/x"`.
fs::path expanded(const std::string& path) {
  if (!path.starts_with("~/")) return path;
  return fs::path(variable({"HOME"})) / path.substr(2);
}

fs::path in_home(std::string_view path) {
  const std::string home = variable({"HOME"});
  return home.empty() ? fs::path() : fs::path(home) / path;
}

// Where the hub's own client keeps its token and cache; "" without a home folder.
fs::path hub_home() {
  if (const std::string home = variable({"HF_HOME"}); !home.empty()) return expanded(home);
  if (const std::string cache = variable({"XDG_CACHE_HOME"}); !cache.empty()) {
    return expanded(cache) / "huggingface";
  }
  return in_home(".cache/huggingface");
}

std::string trimmed(std::string text) {
  const auto is_space = [](unsigned char c) { return std::isspace(c) != 0; };
  text.erase(text.begin(), std::ranges::find_if_not(text, is_space));
  while (!text.empty() && is_space(static_cast<unsigned char>(text.back()))) text.pop_back();
  return text;
}

// The token of the environment, else that of the file which `hf auth login` writes. Its place is
// kept for errors; the token itself is never part of one.
Status find_token(Settings& settings) {
  settings.token = trimmed(variable({"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"}));
  settings.token_place = "HF_TOKEN";
  if (settings.token.empty() && !is_true(variable({"HF_HUB_DISABLE_IMPLICIT_TOKEN"}))) {
    const std::string chosen = variable({"HF_TOKEN_PATH"});
    const fs::path file = chosen.empty() ? hub_home() / "token" : expanded(chosen);
    settings.token_place = file.string();
    if (auto text = read_file(file, kMaxTokenBytes)) settings.token = trimmed(*std::move(text));
  }
  // The token becomes part of a header.
  const bool is_good =
      std::ranges::all_of(settings.token, [](char c) { return c > ' ' && c < 127; });
  if (!is_good) {
    return invalid("the token in " + settings.token_place +
                   " has spaces or characters that no token has: write it anew, as the hub shows "
                   "it under Settings, Access Tokens");
  }
  if (settings.token.empty()) settings.token_place.clear();
  return {};
}

}  // namespace

Expected<Settings> settings_from_environment() {
  Settings settings;
  if (std::string endpoint = variable({"HF_ENDPOINT"}); !endpoint.empty()) {
    while (endpoint.ends_with('/')) endpoint.pop_back();
    if (const auto url = http::parse_url(endpoint); !url) {
      return invalid("HF_ENDPOINT = '" + endpoint + "': " + url.error().message);
    }
    settings.endpoint = std::move(endpoint);
  }
  if (Status found = find_token(settings); !found) return Unexpected(found.error());
  const std::string cache = variable({"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"});
  const fs::path home = hub_home();
  if (!cache.empty()) {
    settings.cache = expanded(cache);
  } else if (!home.empty()) {
    settings.cache = home / "hub";
  }
  settings.is_offline = is_true(variable({"HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"}));
  // Ollama itself looks only there if the variable is set.
  if (const std::string store = variable({"OLLAMA_MODELS"}); !store.empty()) {
    settings.ollama = {expanded(store)};
  } else {
    if (fs::path own = in_home(".ollama/models"); !own.empty()) {
      settings.ollama.push_back(std::move(own));
    }
    settings.ollama.emplace_back(kOllamaService);
  }
  return settings;
}

}  // namespace tenon::hub
