#include "tenon/format/asked.h"

#include <algorithm>
#include <cctype>
#include <initializer_list>
#include <string>
#include <vector>

namespace tenon::format {
namespace {

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

/// `text` has one of `phrases`. Each must begin and end at a word's ends; one that ends with `*`
/// needs only the beginning.
bool has_any(std::string_view text, std::initializer_list<std::string_view> phrases) {
  return std::ranges::any_of(phrases, [text](std::string_view phrase) {
    const bool is_beginning = phrase.ends_with('*');
    if (is_beginning) phrase.remove_suffix(1);
    for (std::size_t at = text.find(phrase); at != text.npos; at = text.find(phrase, at + 1)) {
      const std::size_t end = at + phrase.size();
      const bool begins = at == 0 || !is_word(text[at - 1]);
      if (begins && (is_beginning || end == text.size() || !is_word(text[end]))) return true;
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

/// The text behind `phrase`, if `text` begins with it and it ends a word.
std::string_view behind(std::string_view text, std::string_view phrase) {
  if (!text.starts_with(phrase)) return {};
  text.remove_prefix(phrase.size());
  return text.empty() || is_word(text.front()) ? std::string_view() : text;
}

/// Whether `text` begins with one of `phrases`, as words of their own.
bool begins_with(std::string_view text, std::initializer_list<std::string_view> phrases) {
  return std::ranges::any_of(phrases, [text](std::string_view phrase) {
    return text == phrase || !behind(text, phrase).empty();
  });
}

/// The sentence without white space and politeness before it.
std::string_view begin_of(std::string_view sentence) {
  constexpr std::string_view kPolite[] = {"please",  "now",       "then",      "and",
                                          "can you", "could you", "would you", "i want you to",
                                          "kindly",  ","};
  for (bool goes_on = true; goes_on;) {
    const std::size_t first = sentence.find_first_not_of(" \t\r\n,");
    sentence.remove_prefix(std::min(first, sentence.size()));
    goes_on = false;
    for (const std::string_view word : kPolite) {
      const std::string_view rest = behind(sentence, word);
      if (rest.empty()) continue;
      sentence = rest;
      goes_on = true;
    }
  }
  return sentence;
}

/// Whether the sentence tells the model to call one of the tools: "Use NAME to ...", "Create the
/// file with NAME". Whatever else it speaks of (a script, documents) is then what the tool works
/// on. "Use NAME in a script" is not such a sentence, nor is "Write a script with NAME".
bool orders_call(std::string_view sentence, const std::vector<std::string>& names) {
  const std::string_view begin = begin_of(sentence);
  for (const std::string& name : names) {
    for (const std::string_view verb : {"use", "call", "run", "invoke", "execute", "try", "do"}) {
      std::string_view rest = behind(begin, verb);
      for (const std::string_view article : {" the tool", " the function", " the", " tool"}) {
        const std::string_view shorter = behind(rest, article);
        if (!shorter.empty()) rest = shorter;
      }
      if (!rest.starts_with(' ')) continue;
      rest.remove_prefix(1);
      if (rest == name) return true;
      rest = behind(rest, name);
      if (!rest.empty() && !begins_with(rest.substr(1), {"in", "from", "inside", "within"})) {
        return true;
      }
    }
    if (begin.starts_with(name + " ") || begin == name) {
      // The name as a verb: "write_file a README". In other languages a name may stand first.
      const std::string_view rest = begin.substr(name.size());
      if (begins_with(rest.substr(rest.empty() ? 0 : 1), {"a", "an", "the", "my", "this"})) {
        return true;
      }
    }
    const bool is_means =
        std::ranges::any_of(std::initializer_list<std::string_view>{"with ", "using ", "via "},
                            [&](std::string_view word) {
                              const std::string phrase = std::string(word) + name;
                              return has_any(sentence, {phrase});
                            });
    if (is_means && !begins_with(begin, {"write", "show", "give", "explain", "describe", "document",
                                         "generate", "teach", "draft", "print", "create", "make",
                                         "how", "what", "which", "why", "is", "are"})) {
      return true;
    }
  }
  return false;
}

/// Whether the user speaks of what assistants do, or did before, and does not ask for more of it.
bool is_about_assistants(std::string_view sentence) {
  if (has_any(sentence, {"did you do", "did you send", "did you call", "did you run", "did you use",
                         "your abilities", "your capabilities", "prompt injection*", "attacker*",
                         "commit message*", "release notes", "changelog*", "dialogue", "dialog",
                         "transcript*", "chat of", "conversation between"})) {
    return true;
  }
  const std::string_view begin = begin_of(sentence);
  if (begins_with(begin, {"why was it", "why was that", "why did it", "why did that"})) return true;
  const bool is_how = begins_with(begin, {"how do you", "how can i", "how could i"});
  if (is_how && (has_any(sentence, {"with you"}) ||
                 (begin.starts_with("how do you") &&
                  !has_any(sentence, {"say", "spell", "pronounce", "translate", "write", "make",
                                      "cook", "get"})))) {
    return true;
  }
  if (begins_with(begin, {"define"}) && has_any(sentence, {"tool", "tools", "function"})) {
    return true;
  }
  if (begins_with(begin, {"is this", "is it", "is that"}) && has_any(sentence, {"safe"})) {
    return true;
  }
  return has_any(sentence, {"agent", "agents", "agent's", "assistant", "assistants", "llm", "llms",
                            "language model*", "small models", "chatbot*"}) &&
         has_any(sentence, {"call", "calls", "tool*", "prompt*", "abuse*", "attack*", "let",
                            "never", "inject*"});
}

bool is_about_calls(std::string_view sentence, bool names_tool, bool orders) {
  if (has_any(sentence, {"tool call*", "tool-call*", "function call*", "function-call*"})) {
    return true;
  }
  if (has_any(sentence, {"don't call", "dont call", "do not call", "without calling", "not call it",
                         "don't invoke", "do not invoke", "don't execute", "do not execute",
                         "don't run anything", "do not run anything", "don't do anything"})) {
    return true;
  }
  if (orders) return false;
  if (is_about_assistants(sentence)) return true;
  if (has_any(sentence, {"json you would", "json you'd", "json that you would", "json that you'd",
                         "json would you"})) {
    return true;
  }
  if (has_any(sentence, {"system prompt*", "what can you do", "who are you"})) return true;
  if (has_any(sentence, {"api"}) && has_any(sentence, {"describe*", "document*", "explain*"})) {
    return true;
  }
  const bool is_of_tools = names_tool || has_any(sentence, {"tool*", "function*", "api call*"});
  if (is_of_tools && has_any(sentence, {"which tool*", "what tool*", "which function*",
                                        "what function*", "what format", "which format",
                                        "tools do you have", "functions do you have",
                                        "what are your", "which are your", "syntax", "teach*"})) {
    return true;
  }
  const bool is_of_call = is_of_tools || has_any(sentence, {"call", "calls", "calling", "invoke"});
  if (is_of_call && has_any(sentence, {"json", "payload", "request body", "curl", "postman"})) {
    return true;
  }
  const bool calls = has_any(sentence, {"call", "calls", "calling", "invoke", "invokes"});
  if (calls && has_any(sentence, {"format of", "format for", "looks", "look like"})) return true;
  if (calls && has_any(sentence, {"code", "snippet", "program", "script", "python", "javascript",
                                  "typescript"})) {
    return true;
  }
  if (!names_tool) return false;
  return has_any(sentence, {"example*",       "explain*",      "describe*",     "document*",
                            "docs",           "tutorial",      "readme",        "guide",
                            "unit test*",     "test case*",    "tests for",     "schema",
                            "syntax",         "python",        "javascript",    "typescript",
                            "program",        "script",        "code",          "snippet",
                            "curl",           "how does",      "how do i call", "how do i use",
                            "how would i",    "how would you", "how to call",   "how to use",
                            "how can i call", "how is",        "what does",     "what is",
                            "signature",      "parameters",    "arguments",     "difference",
                            "beispiel*",      "exemple*",      "ejemplo*",      "exemplo*",
                            "esempio*",       "voorbeeld*",    "przykład*",     "exempel*",
                            "örnek*",         "ример*",        "риклад*",       "例",
                            "示例",           "範例",          "예시",          "예제"});
}

}  // namespace

bool asks_about_calls(std::string_view request, std::span<const std::string> tools) {
  const std::string low = lowered(request);
  // A request that quotes a call is about that call: it is to be translated, shortened, explained.
  if (low.find("\"name\"") != low.npos && low.find("\"arguments\"") != low.npos) return true;
  std::vector<std::string> names;
  for (const std::string& tool : tools) {
    std::string name = lowered(tool);
    // A tool's name that is also an ordinary word may be meant as that word.
    const bool is_name = name.find_first_of("_.-") != name.npos ||
                         std::ranges::any_of(tool, [](char c) { return c >= 'A' && c <= 'Z'; });
    if (is_name) names.push_back(std::move(name));
  }
  return std::ranges::any_of(sentences_of(low), [&](std::string_view sentence) {
    const bool names_tool = std::ranges::any_of(
        names, [sentence](const std::string& name) { return has_any(sentence, {name}); });
    return is_about_calls(sentence, names_tool, names_tool && orders_call(sentence, names));
  });
}

}  // namespace tenon::format
