#include "tenon/format/asked.h"

#include <algorithm>
#include <cctype>
#include <initializer_list>
#include <string>
#include <vector>

// A request is read sentence by sentence, in lower case. A sentence that wants a call as text
// (is_to_show_calls), or asks to write something about tools (is_of_tools, asks_to_write), decides
// at once. The lists are words of requests for which JSON in the answer was meant as text. A
// request without such words is for calls.

namespace tenon::format {
namespace {

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

/// The byte belongs to a word, an address or a path: `docs/guide.py`, `my-script`, `@example`.
bool joins_words(char c) {
  return is_word(c) || c == '/' || c == '\\' || c == '-' || c == '@';
}

/// What goes on at `at` is more of the same word, address or path. A full stop or a colon joins two
/// words if no white space follows it.
bool goes_on(std::string_view text, std::size_t at) {
  if (at >= text.size()) return false;
  if (text[at] != '.' && text[at] != ':') return joins_words(text[at]);
  return at + 1 < text.size() && joins_words(text[at + 1]);
}

/// `text` has one of `phrases`. Each must begin and end at a word's ends; one that ends with `*`
/// needs only the beginning. A word in a path or an address does not count.
bool has_any(std::string_view text, std::initializer_list<std::string_view> phrases) {
  return std::ranges::any_of(phrases, [text](std::string_view phrase) {
    const bool is_beginning = phrase.ends_with('*');
    if (is_beginning) phrase.remove_suffix(1);
    for (std::size_t at = text.find(phrase); at != text.npos; at = text.find(phrase, at + 1)) {
      const std::size_t end = at + phrase.size();
      const bool begins = at == 0 || !(joins_words(text[at - 1]) || text[at - 1] == '.');
      if (!begins) continue;
      std::size_t stop = end;
      while (is_beginning && stop < text.size() && is_word(text[stop])) ++stop;
      if (!goes_on(text, stop)) return true;
    }
    return false;
  });
}

std::string lowered(std::string_view text) {
  std::string low(text);
  for (char& c : low) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return low;
}

/// The pieces between the marks that end sentences, if white space follows the mark.
std::vector<std::string_view> sentences_of(std::string_view text) {
  std::vector<std::string_view> sentences;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_mark = text[i] == '.' || text[i] == '?' || text[i] == '!' || text[i] == '\n';
    const bool ends = i + 1 == text.size() || std::isspace(static_cast<unsigned char>(text[i + 1]));
    if (!is_mark || !ends) continue;
    sentences.push_back(text.substr(begin, i + 1 - begin));
    begin = i + 1;
  }
  sentences.push_back(text.substr(begin));
  return sentences;
}

/// The sentence asks for something to be written or shown: that is its first word.
bool asks_to_write(std::string_view sentence) {
  for (const std::string_view polite : {"please ", "can you ", "could you ", "now "}) {
    sentence.remove_prefix(std::min(sentence.find_first_not_of(" \t\r\n"), sentence.size()));
    if (sentence.starts_with(polite)) sentence.remove_prefix(polite.size());
  }
  const std::string_view first = sentence.substr(0, sentence.find_first_of(" \t"));
  constexpr std::string_view kVerbs[] = {"write", "show",     "give",    "draft",   "generate",
                                         "print", "document", "explain", "describe"};
  return std::ranges::find(kVerbs, first) != std::end(kVerbs);
}

// The sentence is about tools or programs: a call in the answer may be the work or may be an
// example.
bool is_of_tools(std::string_view sentence, bool names_tool) {
  if (has_any(sentence, {"tool call*", "tool-call*", "function call*", "function-call*"})) {
    return true;
  }
  if (has_any(sentence, {"api"}) && has_any(sentence, {"describe*", "document*", "explain*"})) {
    return true;
  }
  if (has_any(sentence, {"call", "calls", "calling", "invoke", "invokes"}) &&
      has_any(sentence,
              {"code", "snippet", "program", "script", "python", "javascript", "typescript"})) {
    return true;
  }
  return names_tool &&
         has_any(sentence, {"explain*",  "describe*", "document*",  "docs",       "tutorial",
                            "readme",    "guide",     "unit test*", "test case*", "tests for",
                            "schema",    "python",    "javascript", "typescript", "program",
                            "script",    "code",      "snippet",    "how does",   "how is",
                            "what does", "what is",   "arguments",  "difference"});
}

// The sentence wants a call as text, or wants that none is made.
bool is_to_show_calls(std::string_view sentence, bool names_tool) {
  if (has_any(sentence, {"tool call*", "tool-call*", "function call*", "function-call*"}) &&
      has_any(sentence, {"example*", "look", "looks", "like", "show", "what", "how", "is this",
                         "correct", "valid", "form", "format*", "explain"})) {
    return true;
  }
  if (has_any(sentence, {"don't call", "dont call", "do not call", "without calling", "not call it",
                         "don't invoke", "do not invoke", "don't execute", "do not execute",
                         "don't run anything", "do not run anything", "don't do anything"})) {
    return true;
  }
  if (has_any(sentence, {"json you would", "json you'd", "json that you would", "json that you'd",
                         "json would you", "only show", "just show", "show it only"})) {
    return true;
  }
  if (has_any(sentence, {"system prompt*", "what can you do", "who are you"})) return true;
  const bool speaks_of_tools = names_tool || has_any(sentence, {"tool*", "function*", "api call*"});
  if (speaks_of_tools &&
      has_any(sentence,
              {"which tool*", "what tool*", "which function*", "what function*", "what format",
               "which format", "tools do you have", "functions do you have", "what are your",
               "which are your", "what arguments", "which arguments", "syntax", "teach*"})) {
    return true;
  }
  const bool is_of_call =
      speaks_of_tools || has_any(sentence, {"call", "calls", "calling", "invoke"});
  if (is_of_call && has_any(sentence, {"json", "payload", "request body", "curl", "postman"})) {
    return true;
  }
  const bool calls = has_any(sentence, {"call", "calls", "calling", "invoke", "invokes"});
  if (calls && has_any(sentence, {"format of", "format for", "looks", "look like"})) return true;
  if (!names_tool) return false;
  return has_any(sentence, {"example*",
                            "syntax",
                            "signature",
                            "parameters",
                            "how do i call",
                            "how do i use",
                            "how would i",
                            "how would you",
                            "how to call",
                            "how to use",
                            "how can i call",
                            "beispiel*",
                            "exemple*",
                            "ejemplo*",
                            "exemplo*",
                            "esempio*",
                            "voorbeeld*",
                            "przykład*",
                            "exempel*",
                            "örnek*",
                            "ример*",
                            "риклад*",
                            "例",
                            "示例",
                            "範例",
                            "예시",
                            "예제"});
}

}  // namespace

Asked asked_for(std::string_view request, std::span<const std::string> tools) {
  const std::string low = lowered(request);
  std::vector<std::string> names;
  for (const std::string& tool : tools) {
    std::string name = lowered(tool);
    // A tool's name that is also an ordinary word may be meant as that word.
    // "get_weather" and "getWeather" are names, "search" may be the verb.
    const bool is_name = name.find_first_of("_.-") != name.npos ||
                         std::ranges::any_of(tool, [](char c) { return c >= 'A' && c <= 'Z'; });
    if (is_name) names.push_back(std::move(name));
  }
  Asked asked = Asked::for_calls;
  for (const std::string_view sentence : sentences_of(low)) {
    const bool names_tool = std::ranges::any_of(
        names, [sentence](const std::string& name) { return has_any(sentence, {name}); });
    const bool is_of = is_of_tools(sentence, names_tool);
    if ((is_of && asks_to_write(sentence)) || is_to_show_calls(sentence, names_tool)) {
      return Asked::to_show_calls;
    }
    if (is_of) asked = Asked::of_tools;
  }
  return asked;
}

}  // namespace tenon::format
