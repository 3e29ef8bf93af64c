#include "user.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iostream>
#include <system_error>
#include <utility>
#include <vector>

#include "terminal.h"
#include <fcntl.h>
#include <spawn.h>
#include <unistd.h>

#include "tenon/json/members.h"
#include "tenon/schema/schema.h"

// What a server of tools asks of the user: to fill in a form (elicitation of the Model Context
// Protocol), or to log in. A form is a flat JSON Schema; each member is asked for in one line.

namespace tenon::app {
namespace {

std::string plain(const json::Value& value) {
  return value.if_string() != nullptr ? *value.if_string() : json::to_string(value);
}

// The values that a member of the form may have: `enum`, or `const` of each of `oneOf` or `anyOf`.
std::vector<json::Value> choices_of(const json::Value& schema) {
  std::vector<json::Value> choices;
  const json::Value* const values = schema.find("enum");
  if (values != nullptr && values->if_array() != nullptr) {
    choices.assign(values->if_array()->begin(), values->if_array()->end());
  }
  for (const std::string_view key : {"oneOf", "anyOf"}) {
    const json::Value* const options = schema.find(key);
    if (options == nullptr || options->if_array() == nullptr) continue;
    for (const json::Value& one : *options->if_array()) {
      if (const json::Value* const value = one.find("const")) choices.push_back(*value);
    }
  }
  return choices;
}

// "age (how old you are; 1, 2 or 3) [2]: "
std::string prompt_for(const std::string& name, const json::Value& schema) {
  std::string about = json::text_in(schema, "description");
  if (about.empty()) about = json::text_in(schema, "title");
  const json::Value* const items = schema.find("items");
  std::string choices;
  for (const json::Value& one : choices_of(items == nullptr ? schema : *items)) {
    choices += (choices.empty() ? "" : ", ") + plain(one);
  }
  if (json::text_in(schema, "type") == "boolean") choices = "yes, no";
  if (!choices.empty()) about += (about.empty() ? "" : "; ") + choices;
  if (items != nullptr) about += ", several with commas between them";
  std::string prompt = "  " + name + (about.empty() ? "" : " (" + about + ")");
  if (const json::Value* const value = schema.find("default")) prompt += " [" + plain(*value) + "]";
  return prompt + ": ";
}

// What the user wrote, as the type that the schema wants; as text if it is something else.
json::Value value_of(const std::string& line, const json::Value& schema) {
  const std::string type = json::text_in(schema, "type");
  if (type == "boolean") {
    for (const char* const yes : {"y", "yes", "true"}) {
      if (line == yes) return true;
    }
    for (const char* const no : {"n", "no", "false"}) {
      if (line == no) return false;
    }
  }
  if (type == "number" || type == "integer") {
    if (auto number = json::parse(line); number && number->if_number() != nullptr) return *number;
  }
  if (type != "array") return line;
  json::Array items;
  std::string_view rest = line;
  while (!rest.empty()) {
    std::string_view item = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(item.size() + 1, rest.size()));
    item.remove_prefix(std::min(item.find_first_not_of(' '), item.size()));
    if (!item.empty()) items.emplace_back(std::string(item));
  }
  return items;
}

// What is wrong with the form; "": nothing.
std::string fault_of(const json::Object& content, const json::Value* schema) {
  if (schema == nullptr) return "";
  const auto compiled = schema::Schema::compile(*schema);
  if (!compiled) return "";  // the server checks it
  const auto violations = (*compiled)->validate(content);
  if (!violations || violations->empty()) return "";
  return violations->front().instance_path + " " + violations->front().message;
}

// Asks for each member. An empty line takes the default, or leaves the member out. No value: the
// input has ended.
std::optional<json::Object> fill_in(const json::Value* properties, const ReadLine& read) {
  json::Object content;
  if (properties == nullptr || properties->if_object() == nullptr) return content;
  for (const json::Member& one : *properties->if_object()) {
    std::string line;
    if (!read(prompt_for(one.key, one.value), line)) return std::nullopt;
    const json::Value* const value = one.value.find("default");
    if (!line.empty()) {
      content.set(one.key, value_of(line, one.value));
    } else if (value != nullptr) {
      content.set(one.key, *value);
    }
  }
  return content;
}

// Starts the browser in a session of its own, so that it lives on when this command has ended, with
// the user's whole environment. It stays a zombie until then if it ends first. Returns the error.
int open_in(const std::string& browser, const std::string& address) {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&files);
  posix_spawnattr_init(&attributes);
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    posix_spawn_file_actions_addopen(&files, stream, "/dev/null", O_RDWR, 0);
  }
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
  std::string program = browser;
  std::string argument = address;
  const std::array<char*, 3> command = {program.data(), argument.data(), nullptr};
  pid_t process = 0;
  const int error =
      posix_spawnp(&process, program.c_str(), &files, &attributes, command.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  return error;
}

}  // namespace

// The message and the form come from the server, so they are shown as data: control characters are
// escaped, and the length is bounded. After three forms that do not fit, the answer is no.
std::optional<json::Object> ask_user(const std::string& server, const json::Value& params,
                                     const ReadLine& read) {
  constexpr int kTries = 3;
  constexpr std::size_t kMaxMessage = 4096;
  const json::Value* const schema = params.find("requestedSchema");
  std::cout << shown(server + " asks: " + json::text_in(params, "message").substr(0, kMaxMessage),
                     STDOUT_FILENO)
            << '\n';
  for (int tries = 0; tries < kTries; ++tries) {
    std::string word;
    if (!read("answer it? [y]es, [n]o: ", word) || (word != "y" && word != "yes")) {
      return std::nullopt;
    }
    auto content = fill_in(schema == nullptr ? nullptr : schema->find("properties"), read);
    if (!content) return std::nullopt;
    const std::string fault = fault_of(*content, schema);
    if (fault.empty()) return content;
    std::cout << shown("It does not fit: " + fault, STDOUT_FILENO) << '\n';
  }
  return std::nullopt;
}

void show_login(const std::string& address, bool opens) {
  std::cerr << "Log in at this address; Tenon waits for the answer:\n  "
            << shown(address, STDERR_FILENO) << std::endl;
  const char* const named = std::getenv("BROWSER");
  // Without a display xdg-open would start a browser in the terminal, over our output.
  const bool has_desktop =
      std::getenv("DISPLAY") != nullptr || std::getenv("WAYLAND_DISPLAY") != nullptr;
  const std::string browser = named != nullptr ? named : has_desktop ? "xdg-open" : "";
  if (!opens || browser.empty()) return;
  if (const int error = open_in(browser, address); error != 0) {
    std::cerr << shown("cannot start " + browser + ": " + std::generic_category().message(error),
                       STDERR_FILENO)
              << std::endl;
  }
}

}  // namespace tenon::app
