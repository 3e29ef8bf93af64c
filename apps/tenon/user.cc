#include "user.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iostream>
#include <iterator>
#include <system_error>
#include <utility>
#include <vector>

#include "terminal.h"
#include <fcntl.h>
#include <spawn.h>
#include <unistd.h>

#include "tenon/chat/call_check.h"
#include "tenon/json/members.h"
#include "tenon/schema/schema.h"

// What a server of tools asks of the user: to fill in a form (elicitation of the Model Context
// Protocol), or to log in. A form is a flat JSON Schema; each member is asked for in one line, and
// again until it fits.

namespace tenon::app {
namespace {

std::string plain(const json::Value& value) {
  return value.if_string() != nullptr ? *value.if_string() : json::to_string(value);
}

struct Choice {
  json::Value value;
  std::string title;  // for people; "": none
};

// What a member of the form may be: `enum`, whose titles are `enumNames`, or `const` and `title` of
// each of `oneOf` or `anyOf`.
std::vector<Choice> choices_of(const json::Value& schema) {
  std::vector<Choice> choices;
  const auto array_at = [&schema](std::string_view key) {
    const json::Value* const list = schema.find(key);
    return list == nullptr ? nullptr : list->if_array();
  };
  const json::Array* const titles = array_at("enumNames");
  if (const json::Array* const values = array_at("enum")) {
    for (const json::Value& value : *values) {
      const std::size_t i = choices.size();
      const bool has_title = titles != nullptr && i < titles->size();
      const std::string* const title = has_title ? (*titles)[i].if_string() : nullptr;
      choices.push_back({value, title == nullptr ? "" : *title});
    }
  }
  for (const std::string_view key : {"oneOf", "anyOf"}) {
    const json::Array* const options = array_at(key);
    if (options == nullptr) continue;
    for (const json::Value& one : *options) {
      const json::Value* const value = one.find("const");
      if (value != nullptr) choices.push_back({*value, json::text_in(one, "title")});
    }
  }
  return choices;
}

// The value of the choice that `text` is the value or the title of. Null: it is neither. Values go
// before titles, so that a title cannot hide another choice's value.
const json::Value* chosen(const std::vector<Choice>& choices, const std::string& text) {
  const auto by_value =
      std::ranges::find(choices, text, [](const Choice& one) { return plain(one.value); });
  if (by_value != choices.end()) return &by_value->value;
  const auto by_title = std::ranges::find(choices, text, &Choice::title);
  return by_title == choices.end() || text.empty() ? nullptr : &by_title->value;
}

// `value` with the values of choices in place of their titles.
json::Value without_titles(const json::Value& value, const json::Value& schema) {
  if (const json::Array* const list = value.if_array()) {
    const json::Value* const items = schema.find("items");
    json::Array out;
    for (const json::Value& one : *list) {
      out.push_back(items == nullptr ? one : without_titles(one, *items));
    }
    return out;
  }
  if (value.if_string() == nullptr) return value;
  const std::vector<Choice> choices = choices_of(schema);
  const json::Value* const found = chosen(choices, *value.if_string());
  return found == nullptr ? value : *found;
}

// "s = Small, m = Medium"
std::string list_of(const std::vector<Choice>& choices) {
  std::string list;
  for (const Choice& one : choices) {
    const std::string value = plain(one.value);
    list += (list.empty() ? "" : ", ") + value;
    if (!one.title.empty() && one.title != value) list += " = " + one.title;
  }
  return list;
}

// "1 to 5", "at least 1", "at most 5"; "": the schema has neither bound.
std::string range_of(const json::Value& schema, std::string_view least, std::string_view most) {
  const json::Value* const low = schema.find(least);
  const json::Value* const high = schema.find(most);
  if (low != nullptr && high != nullptr) return plain(*low) + " to " + plain(*high);
  if (low != nullptr) return "at least " + plain(*low);
  return high == nullptr ? "" : "at most " + plain(*high);
}

// What the user is told of a format; others are told by their names.
constexpr std::pair<std::string_view, std::string_view> kFormats[] = {
    {"date", "a date like 2026-01-31"},
    {"date-time", "a time like 2026-01-31T18:30:00Z"},
    {"email", "an e-mail address"},
    {"uri", "an address like https://example.com"},
};

std::string about_format(const json::Value& schema) {
  const std::string name = json::text_in(schema, "format");
  const auto* const known =
      std::ranges::find(kFormats, name, &std::pair<std::string_view, std::string_view>::first);
  return known == std::end(kFormats) ? name : std::string(known->second);
}

// "size (how large; s = Small, m = Medium) [m]: "
std::string prompt_for(const std::string& name, const json::Value& schema) {
  const json::Value* const items = schema.find("items");
  std::string about = json::text_in(schema, "description");
  if (about.empty()) about = json::text_in(schema, "title");
  const auto add = [&about](const std::string& part, std::string_view unit = "") {
    if (!part.empty()) about += (about.empty() ? "" : "; ") + part + std::string(unit);
  };
  add(json::text_in(schema, "type") == "boolean"
          ? "yes, no"
          : list_of(choices_of(items == nullptr ? schema : *items)));
  if (items != nullptr) about += ", several with commas between them";
  add(range_of(schema, "minItems", "maxItems"), " of them");
  add(range_of(schema, "minimum", "maximum"));
  add(range_of(schema, "minLength", "maxLength"), " characters");
  add(about_format(schema));
  std::string prompt = "  " + name + (about.empty() ? "" : " (" + about + ")");
  if (const json::Value* const value = schema.find("default")) prompt += " [" + plain(*value) + "]";
  return prompt + ": ";
}

// What the user wrote, as the type that the schema wants; as text if it is something else.
json::Value value_of(const std::string& line, const json::Value& schema) {
  const std::vector<Choice> choices = choices_of(schema);
  if (const json::Value* const value = chosen(choices, line)) return *value;
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
  return without_titles(items, schema);
}

// Which choices there are, for a value that is not one of them; "": it is one, or the schema has no
// choices. A validator would say that it fits no branch of oneOf.
std::string choice_fault(const std::string& path, const json::Value& value,
                         const json::Value& schema) {
  const json::Array* const list = value.if_array();
  const json::Value* const items = schema.find("items");
  if (list != nullptr && items != nullptr) {
    for (std::size_t i = 0; i < list->size(); ++i) {
      std::string fault = choice_fault(path + "/" + std::to_string(i), (*list)[i], *items);
      if (!fault.empty()) return fault;
    }
    return "";
  }
  const std::vector<Choice> choices = choices_of(schema);
  if (choices.empty() || std::ranges::find(choices, value, &Choice::value) != choices.end()) {
    return "";
  }
  return path + " is " + json::to_string(value) + ", must be one of " + list_of(choices);
}

// What is wrong with the member of that name; "": nothing. Formats are checked as far as they are
// known here.
std::string fault_of_member(const std::string& name, const json::Value& value,
                            const json::Value& schema) {
  const json::Object form{{"properties", json::Object{{name, schema}}}};
  auto compiled = schema::Schema::compile(form, {.assert_format = true});
  if (!compiled) compiled = schema::Schema::compile(form);
  if (!compiled) return "";  // the server checks it
  std::string fault = chat::fault_of(json::to_string(json::Object{{name, value}}), **compiled);
  if (fault.empty()) return fault;
  // Only of a member that is wrong: a branch beside the choices may allow other values.
  std::string of_choice = choice_fault("/" + name, value, schema);
  return of_choice.empty() ? fault : of_choice;
}

// What is wrong with the form; "": nothing.
std::string fault_in(const json::Object& content, const json::Value* schema) {
  if (schema == nullptr) return "";
  const json::Value* const properties = schema->find("properties");
  for (const json::Member& member : content) {
    const json::Value* const property =
        properties == nullptr ? nullptr : properties->find(member.key);
    if (property == nullptr) continue;
    std::string fault = fault_of_member(member.key, member.value, *property);
    if (!fault.empty()) return fault;
  }
  const auto compiled = schema::Schema::compile(*schema);
  return compiled ? chat::fault_of(json::to_string(content), **compiled) : "";
}

bool is_required(const json::Value& schema, const std::string& name) {
  const json::Value* const list = schema.find("required");
  return list != nullptr && list->if_array() != nullptr &&
         std::ranges::find(*list->if_array(), json::Value(name)) != list->if_array()->end();
}

void tell_fault(const std::string& fault) {
  std::cout << shown("It does not fit: " + fault, STDOUT_FILENO) << '\n';
}

// Asks for a member until it fits, and adds it to `content`. An empty line takes the default, or
// leaves the member out. False: the input has ended.
bool ask_member(const json::Member& one, bool must_be_there, const ReadLine& read,
                json::Object& content) {
  const json::Value* const fallback = one.value.find("default");
  std::string line;
  while (read(prompt_for(one.key, one.value), line)) {
    if (line.empty() && fallback == nullptr) {
      if (!must_be_there) return true;
      tell_fault("/" + one.key + " must be given");
      continue;
    }
    const json::Value value = line.empty() ? *fallback : value_of(line, one.value);
    const std::string fault = fault_of_member(one.key, value, one.value);
    if (fault.empty()) {
      content.set(one.key, value);
      return true;
    }
    tell_fault(fault);
  }
  return false;
}

// Asks for each member of the form. No value: the input has ended.
std::optional<json::Object> fill_in(const json::Value* schema, const ReadLine& read) {
  json::Object content;
  const json::Value* const properties = schema == nullptr ? nullptr : schema->find("properties");
  if (properties == nullptr || properties->if_object() == nullptr) return content;
  for (const json::Member& one : *properties->if_object()) {
    if (!ask_member(one, is_required(*schema, one.key), read, content)) return std::nullopt;
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

std::vector<std::string> words_of(std::string_view line) {
  constexpr std::string_view kSpace = " \t\r";
  std::vector<std::string> words;
  while (!line.empty()) {
    const std::string_view word = line.substr(0, line.find_first_of(kSpace));
    line.remove_prefix(std::min(word.size() + 1, line.size()));
    if (!word.empty()) words.emplace_back(word);
  }
  return words;
}

std::vector<std::string> addresses_in(std::string_view line) {
  std::vector<std::string> addresses;
  for (const std::string& word : words_of(line)) {
    const auto begin = word.find_first_not_of("([{<\"'`");
    const auto end = word.find_last_not_of(")]}>\"'`.,;:?!");
    if (begin == std::string::npos || end == std::string::npos || word[begin] != '@') continue;
    if (end > begin) addresses.push_back(word.substr(begin + 1, end - begin));
  }
  return addresses;
}

std::string ask_word(std::string_view question, std::initializer_list<std::string_view> words,
                     const ReadLine& read) {
  std::string prompt(question);
  for (const std::string_view word : words) {
    prompt += prompt.size() == question.size() ? " [" : ", [";
    prompt += std::string(word.substr(0, 1)) + "]" + std::string(word.substr(1));
  }
  prompt += ": ";
  std::string line;
  while (read(prompt, line)) {
    for (const std::string_view word : words) {
      if (line == word || line == word.substr(0, 1)) return std::string(word);
    }
  }
  return "";
}

// The message and the form come from the server, so they are shown as data: control characters are
// escaped, and the length is bounded. The whole may break a rule that no member breaks; after three
// such forms the answer is no.
std::optional<json::Object> ask_user(const std::string& server, const json::Value& params,
                                     const ReadLine& read) {
  constexpr int kTries = 3;
  constexpr std::size_t kMaxMessage = 4096;
  const json::Value* const schema = params.find("requestedSchema");
  std::cout << shown(server + " asks: " + json::text_in(params, "message").substr(0, kMaxMessage),
                     STDOUT_FILENO)
            << '\n';
  for (int tries = 0; tries < kTries; ++tries) {
    if (ask_word("answer it?", {"yes", "no"}, read) != "yes") return std::nullopt;
    auto content = fill_in(schema, read);
    if (!content) return std::nullopt;
    const std::string fault = fault_in(*content, schema);
    if (fault.empty()) return content;
    tell_fault(fault);
  }
  return std::nullopt;
}

Expected<json::Object> answer_form(const json::Object& given, const json::Value& params) {
  const json::Value* const schema = params.find("requestedSchema");
  const json::Value* const properties = schema == nullptr ? nullptr : schema->find("properties");
  json::Object content;
  if (properties != nullptr && properties->if_object() != nullptr) {
    for (const json::Member& one : *properties->if_object()) {
      const json::Value* value = given.find(one.key);
      if (value == nullptr) value = one.value.find("default");
      if (value != nullptr) content.set(one.key, without_titles(*value, one.value));
    }
  }
  const std::string fault = fault_in(content, schema);
  if (!fault.empty()) return Unexpected(Error{Errc::invalid, fault});
  return content;
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
