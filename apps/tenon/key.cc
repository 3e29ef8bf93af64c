#include <cstdint>
#include <iostream>
#include <memory>
#include <string>

#include "command.h"

#include "tenon/api/keys.h"
#include "tenon/base/ids.h"
#include "tenon/config/files.h"

namespace tenon::app {
namespace {

// 43 of 62 characters hold 256 bits.
constexpr std::size_t kRandomCharacters = 43;
// A key that is hashed once and without salt must not be a word that a person has chosen.
constexpr std::size_t kMinKeyBytes = 32;

struct KeyOptions {
  std::string name;
  api::KeyLimits limits;
  bool read = false;
  bool json = false;
};

// A key that was made elsewhere, from stdin, so that it is in no list of processes or history of a
// shell.
OrComplaint<std::string> read_key() {
  auto key = config::read_input("-");
  if (!key) return complaint(kBadInput, key.error().message);
  while (!key->empty() && (key->back() == '\n' || key->back() == '\r')) key->pop_back();
  if (key->size() < kMinKeyBytes || key->size() > api::ApiKeys::kMaxKeyBytes ||
      key->find_first_of(" \t\r\n") != std::string::npos) {
    return complaint(kBadInput, "a key has " + std::to_string(kMinKeyBytes) + " to " +
                                    std::to_string(api::ApiKeys::kMaxKeyBytes) +
                                    " characters and no spaces: only its hash is kept, and short "
                                    "ones are found by trying");
  }
  return *std::move(key);
}

int run_key(const KeyOptions& options) {
  if (!api::ApiKeys::is_name(options.name)) {
    return complain({kUsage, "a name has up to 64 letters, digits, '.', '_' and '-'"});
  }
  std::string key = random_id("tenon-", kRandomCharacters);
  if (options.read) {
    auto given = read_key();
    if (!given) return complain(given.error());
    key = *std::move(given);
  }
  const std::string line = api::ApiKeys::line(options.name, key, options.limits);
  if (options.json) {
    std::cout << json::to_string(json::Object{{"name", options.name}, {"key", key}, {"line", line}})
              << std::endl;
    return kOk;
  }
  std::cout << line << std::endl;
  // On stderr, so that the key does not get into the file of the line.
  if (!options.read) {
    std::cerr << "the key of " << options.name << ", which is shown this once: " << key
              << std::endl;
  }
  return kOk;
}

}  // namespace

Command add_key(App tenon) {
  const App app = tenon.add_subcommand("key", "Makes an API key for the key file of a server");
  auto options = std::make_shared<KeyOptions>();
  app.add_option("name", options->name, "Whose it is, for the log").required();
  const auto add_limit = [app](const char* flag, std::uint64_t& limit, const char* what) {
    app.add_option(flag, limit, what).between(std::uint64_t{1}, api::KeyLimits::kMost);
  };
  add_limit("--running", options->limits.running, "Limit: requests under way at a time");
  add_limit("--requests-per-minute", options->limits.requests_per_minute, "Limit");
  add_limit("--tokens-per-minute", options->limits.tokens_per_minute,
            "Limit: of prompts and answers together");
  app.add_flag("--read", options->read,
               "Take the key from stdin instead of making one: 32 characters or more, random");
  app.add_flag("--json", options->json, "Name, key and line as JSON");
  app.footer(
      "The line for the file goes to stdout, the key to stderr. The file has hashes only.\n"
      "Example:\n  tenon key ann --requests-per-minute 60 >> keys.txt\n"
      "  tenon serve --api-keys keys.txt");
  return {app, [options] { return run_key(*options); }};
}

}  // namespace tenon::app
