#include "tenon/hub/model_name.h"

#include <algorithm>
#include <initializer_list>
#include <vector>

#include "tenon/base/failure.h"

namespace tenon::hub {
namespace {

constexpr std::string_view kHub = "hf:";
constexpr std::string_view kOllama = "ollama:";
constexpr std::size_t kMaxNamePart = 96;  // the hub's own limit for a name
constexpr std::size_t kMaxChoice = 1024;

bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

// Whether the name can also be one part of a path: it is not "." or "..", and has no separator.
bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= kMaxNamePart &&
         text.find("..") == std::string_view::npos && text.front() != '-' && text.front() != '.' &&
         std::ranges::all_of(text, [](char c) {
           return is_letter_or_digit(c) || c == '-' || c == '_' || c == '.';
         });
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

// Branches may have slashes: "refs/pr/1".
bool is_revision(std::string_view text) {
  if (text.size() > 2 * kMaxNamePart) return false;
  return std::ranges::all_of(split(text, '/'), is_name);
}

bool is_choice(std::string_view text) {
  return !text.empty() && text.size() <= kMaxChoice &&
         std::ranges::all_of(text, [](char c) { return c > ' ' && c != '\x7f'; });
}

// Removes the first of the prefixes that `text` begins with.
void drop_prefix(std::string_view& text, std::initializer_list<std::string_view> prefixes) {
  for (const std::string_view prefix : prefixes) {
    if (!text.starts_with(prefix)) continue;
    text.remove_prefix(prefix.size());
    return;
  }
}

}  // namespace

std::string HubName::text() const {
  return repository + (revision == "main" ? "" : "@" + revision) +
         (choice.empty() ? "" : ":" + choice);
}

Expected<HubName> parse_hub_name(std::string_view text) {
  const std::string whole(text);
  const auto wrong = [&whole](std::string_view why) {
    return invalid("'" + whole + "' names no model of the hub: " + std::string(why) +
                   "; it is OWNER/REPO[@REVISION][:QUANT], like "
                   "bartowski/Llama-3.2-1B-Instruct-GGUF:Q4_K_M");
  };
  drop_prefix(text, {kHub});
  drop_prefix(text, {"https://huggingface.co/", "https://hf.co/", "huggingface.co/", "hf.co/"});
  HubName name;
  // The choice is cut off first: a file's name may have '@' and '/' in it.
  if (const std::size_t colon = text.find(':'); colon != std::string_view::npos) {
    name.choice = text.substr(colon + 1);
    text = text.substr(0, colon);
    if (!is_choice(name.choice)) return wrong("after the colon stands a QUANT or a file's name");
  }
  if (const std::size_t at = text.find('@'); at != std::string_view::npos) {
    name.revision = text.substr(at + 1);
    text = text.substr(0, at);
    if (!is_revision(name.revision)) return wrong("after @ stands a branch, a tag or a commit");
  }
  const auto parts = split(text, '/');
  if (parts.size() != 2) return wrong("it has an owner, a slash and a repository");
  for (const std::string_view part : parts) {
    // The cache joins owner and repository with "--", so the hub allows "--" in neither.
    if (!is_name(part) || part.find("--") != std::string_view::npos) {
      return wrong("the owner and the repository are letters, digits, '-', '_' and '.'");
    }
  }
  name.repository = text;
  return name;
}

std::string OllamaName::text() const {
  const OllamaName standard;
  std::string text = name + ":" + tag;
  if (host != standard.host || owner != standard.owner) text = owner + "/" + text;
  if (host != standard.host) text = host + "/" + text;
  return text;
}

Expected<OllamaName> parse_ollama_name(std::string_view text) {
  const std::string whole(text);
  const auto wrong = [&whole] {
    return invalid("'" + whole +
                   "' names no model of Ollama: it is NAME[:TAG], as `ollama list` prints it");
  };
  drop_prefix(text, {kOllama});
  OllamaName name;
  const std::size_t slash = text.rfind('/');
  const std::size_t colon = text.rfind(':');
  // A colon before the last slash belongs to the port of a host.
  if (colon != std::string_view::npos && (slash == std::string_view::npos || colon > slash)) {
    name.tag = text.substr(colon + 1);
    text = text.substr(0, colon);
    if (!is_name(name.tag)) return wrong();
  }
  const auto parts = split(text, '/');
  if (parts.size() > 3) return wrong();
  name.name = parts.back();
  if (parts.size() > 1) name.owner = parts[parts.size() - 2];
  if (parts.size() > 2) name.host = parts.front();
  std::string host = name.host;
  // Only for the check: a host may have a port, "localhost:5000".
  std::ranges::replace(host, ':', '-');
  if (!is_name(name.name) || !is_name(name.owner) || !is_name(host)) return wrong();
  return name;
}

bool is_hub_name(std::string_view path) {
  return path.starts_with(kHub);
}

bool is_model_name(std::string_view path) {
  return is_hub_name(path) || path.starts_with(kOllama);
}

}  // namespace tenon::hub
