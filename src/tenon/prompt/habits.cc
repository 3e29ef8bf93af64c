#include "tenon/prompt/habits.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "tenon/jinja/lexer.h"

namespace tenon::prompt {
namespace {

constexpr std::size_t kMostShown = 80;
constexpr std::size_t kMostWords = 512;

json::Object habit_turn(std::string_view role, std::string_view content) {
  return {{"role", role}, {"content", content}};
}

json::Value offered_tool() {
  return *json::parse(
      R"([{"type": "function", "function": {"name": "probetool", "description": "probes",
           "parameters": {"type": "object", "properties": {"probekey": {"type": "string",
           "description": "what"}}, "required": ["probekey"]}}}])");
}

json::Object question_to_a_tool(std::string_view id) {
  json::Object turn = habit_turn("assistant", "");
  turn.set("reasoning_content", "probethought");
  turn.set("tool_calls",
           json::Array{json::Object{
               {"id", id},
               {"type", "function"},
               {"function", json::Object{{"name", "probetool"},
                                         {"arguments", R"({"probekey": "probevalue"})"}}}}});
  return turn;
}

json::Object tool_result(std::string_view id, std::string_view content) {
  json::Object result = habit_turn("tool", content);
  result.set("tool_call_id", id);
  result.set("name", "probetool");
  return result;
}

std::optional<Prompt> habit_prompt(const ChatTemplate& chat_template, json::Array messages,
                                   bool add_generation_prompt) {
  json::Object context{{"messages", std::move(messages)},
                       {"add_generation_prompt", add_generation_prompt}};
  if (chat_template.capabilities().tools) context.set("tools", offered_tool());
  PromptOptions options;
  options.now_unix_s = 1;
  auto prompt = chat_template.render_context(std::move(context), options);
  if (!prompt) return std::nullopt;
  return *std::move(prompt);
}

json::Array three_questions(const Capabilities& can) {
  json::Array messages;
  for (const std::string_view number : {"one", "two", "three"}) {
    messages.emplace_back(habit_turn("user", "probe question " + std::string(number)));
    if (can.calls && can.tool_results) {
      const std::string id = "probeid0" + std::to_string(messages.size());
      messages.emplace_back(question_to_a_tool(id));
      messages.emplace_back(tool_result(id, "probe result " + std::string(number)));
    }
    json::Object answer = habit_turn("assistant", "probe answer " + std::string(number));
    answer.set("reasoning_content", "probethought " + std::string(number));
    messages.emplace_back(std::move(answer));
  }
  return messages;
}

std::string shown_from(std::string_view text, std::size_t begin) {
  begin = std::min(begin, text.size());
  while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0U) == 0x80U) --begin;
  std::size_t end = std::min(begin + kMostShown, text.size());
  while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return std::string(text.substr(begin, end - begin));
}

/// The text that the template itself wrote.
std::string own_text(const Prompt& prompt) {
  std::string own;
  for (const jinja::Span& span : prompt.spans) {
    if (!span.is_data) own += prompt.text.substr(span.begin, span.end - span.begin);
  }
  return own;
}

// Strings of the template's expressions.
std::set<std::string> strings_in(const std::string& source) {
  std::set<std::string> strings;
  const std::string text = jinja::normalize_newlines(source);
  for (const jinja::Lexeme& lexeme : jinja::tokenize(text, true, true)) {
    if (lexeme.token != jinja::Token::string || strings.size() == kMostWords) continue;
    std::string word = text.substr(lexeme.begin, lexeme.size);
    const bool is_word = word.size() > 1 && word.size() <= kMostShown &&
                         word.find('\\') == std::string::npos &&
                         word.find_first_not_of(" \t\n") != std::string::npos;
    if (is_word) strings.insert(std::move(word));
  }
  return strings;
}

// What `longer` has and `shorter` has not, between what both begin and end with.
std::string added(std::string_view shorter, std::string_view longer) {
  const auto begin =
      static_cast<std::size_t>(std::ranges::mismatch(shorter, longer).in2 - longer.begin());
  shorter.remove_prefix(begin);
  longer.remove_prefix(begin);
  while (!shorter.empty() && !longer.empty() && shorter.back() == longer.back()) {
    shorter.remove_suffix(1);
    longer.remove_suffix(1);
  }
  return shown_from(longer, 0);
}

}  // namespace

std::optional<PrefixBreak> prefix_break(const ChatTemplate& chat_template) {
  const json::Array all = three_questions(chat_template.capabilities());
  std::string before;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (*all[i].find("role") != json::Value("assistant")) continue;
    // The prompt for the answer, then with the answer.
    for (const bool has_answer : {false, true}) {
      json::Array messages;
      for (std::size_t j = 0; j < i + (has_answer ? 1 : 0); ++j) messages.push_back(all[j]);
      const auto prompt = habit_prompt(chat_template, std::move(messages), !has_answer);
      if (!prompt) return std::nullopt;
      if (!prompt->text.starts_with(before)) {
        const auto at = static_cast<std::size_t>(std::ranges::mismatch(before, prompt->text).in1 -
                                                 before.begin());
        return PrefixBreak{i, shown_from(before, at), shown_from(prompt->text, at)};
      }
      before = prompt->text;
    }
  }
  return std::nullopt;
}

std::vector<WordGate> word_gates(const ChatTemplate& chat_template) {
  const Capabilities& can = chat_template.capabilities();
  const auto prompt_with = [&](std::string_view role, std::string_view word) {
    const std::string text = "probe " + std::string(word) + " probe";
    json::Array messages;
    if (role == "system") messages.emplace_back(habit_turn("system", text));
    messages.emplace_back(habit_turn("user", role == "user" ? text : "probe"));
    if (role == "tool") {
      messages.emplace_back(question_to_a_tool("probeid01"));
      messages.emplace_back(tool_result("probeid01", text));
    }
    return habit_prompt(chat_template, std::move(messages), true);
  };
  const std::set<std::string> words = strings_in(chat_template.source());
  std::vector<WordGate> gates;
  for (const std::string_view role : {"user", "system", "tool"}) {
    if ((role == "system" && !can.system) || (role == "tool" && !(can.calls && can.tool_results))) {
      continue;
    }
    const auto plain = prompt_with(role, "word");
    if (!plain) continue;
    const std::string own = own_text(*plain);
    for (const std::string& word : words) {
      const auto prompt = prompt_with(role, word);
      if (!prompt) continue;
      const std::string text = own_text(*prompt);
      if (text != own) gates.push_back({word, std::string(role), added(own, text)});
    }
  }
  return gates;
}

json::Object habits_of(const ChatTemplate& chat_template) {
  const auto broken = prefix_break(chat_template);
  json::Object habits{{"prefix_stable", !broken}};
  if (broken) {
    habits.set("prefix_breaks_at", "message " + std::to_string(broken->message));
    habits.set("prefix_was", broken->was);
    habits.set("prefix_is", broken->is);
  }
  json::Array gates;
  for (const WordGate& gate : word_gates(chat_template)) {
    gates.emplace_back(json::Object{{"word", gate.word}, {"role", gate.role}, {"adds", gate.adds}});
  }
  habits.set("content_words", std::move(gates));
  return habits;
}

}  // namespace tenon::prompt
