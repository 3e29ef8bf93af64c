#include "tenon/prompt/habits.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <string_view>
#include <utility>

#include "tenon/jinja/lexer.h"
#include "tenon/jinja/template.h"

// Two habits are found by rendering. prefix_break() renders a growing conversation and looks for
// the first prompt that does not begin with the one before it. word_gates() takes the words that
// stand in the template's expressions, puts each into a message and compares the text that the
// template itself writes with that for a word without meaning. Only text of the template is
// compared, since data differ anyway. Both are for an operator (tenon inspect) and may take longer
// than the probes of capabilities.cc; word_gates() stops after kMostTime.
namespace tenon::prompt {
namespace {

// Bytes of a text or word that is shown.
constexpr std::size_t kMostShown = 80;
constexpr std::size_t kMostWords = 512;
constexpr std::size_t kMostParts = 8;  // from which one word is put together
constexpr std::chrono::seconds kMostTime{5};

json::Object habit_turn(std::string_view role, std::string_view content) {
  return {{"role", role}, {"content", content}};
}

json::Value offered_tool() {
  return *json::parse(
      R"([{"type": "function", "function": {"name": "probetool", "description": "probes",
           "parameters": {"type": "object", "properties": {"probekey": {"type": "string",
           "description": "what"}}, "required": ["probekey"]}}}])");
}

// An assistant's message that calls the tool, with reasoning.
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

// From `begin`, moved back to the beginning of a character.
std::string shown_from(std::string_view text, std::size_t begin) {
  begin = std::min(begin, text.size());
  while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0U) == 0x80U) --begin;
  std::size_t end = std::min(begin + kMostShown, text.size());
  while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return std::string(text.substr(begin, end - begin));
}

json::Object habit_context(const ChatTemplate& chat_template, json::Array messages,
                           bool add_generation_prompt) {
  json::Object context{{"messages", std::move(messages)},
                       {"add_generation_prompt", add_generation_prompt}};
  if (chat_template.capabilities().tools) context.set("tools", offered_tool());
  return context;
}

// Nothing if the template fails, which tells nothing about habits.
std::optional<Prompt> habit_prompt(const ChatTemplate& chat_template, json::Object context) {
  PromptOptions options;
  options.now_unix_s = 1;
  auto prompt = chat_template.render_context(std::move(context), options);
  if (!prompt) return std::nullopt;
  return *std::move(prompt);
}

// A prompt, and the messages that it was made from.
struct Made {
  json::Object context;
  std::string text;
};

// The line that writes the byte at `at`. It is found by rendering again with a limit on the output
// of `at` bytes: the error is then at this line.
std::size_t line_at(const jinja::Template& chat_template, const Made& made, std::size_t at) {
  jinja::RenderOptions options;
  options.now_unix_s = 1;
  // The history may have been rewritten (shape), and then this text is another one.
  const auto whole = render_context(chat_template, made.context, options);
  if (!whole || whole->text != made.text) return 0;
  options.max_output_bytes = at;
  const auto cut = render_context(chat_template, made.context, options);
  return !cut && cut.error().code == Errc::limit_exceeded ? cut.error().line : 0;
}

PrefixBreak break_at(const ChatTemplate& chat_template, std::size_t message, const Made& before,
                     const Made& now) {
  // The first byte that differs.
  const auto at = static_cast<std::size_t>(std::ranges::mismatch(before.text, now.text).in1 -
                                           before.text.begin());
  PrefixBreak found{message, shown_from(before.text, at), shown_from(now.text, at)};
  if (const auto plain = jinja::Template::compile(chat_template.source(), {.superset = true})) {
    found.was_line = line_at(**plain, before, at);
    found.is_line = line_at(**plain, now, at);
  }
  return found;
}

// With a call and its result in each turn if the template has them. Ids have nine letters and
// digits, which every template accepts.
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

/// The text that the template itself wrote.
std::string own_text(const Prompt& prompt) {
  std::string own;
  for (const jinja::Span& span : prompt.spans) {
    if (!span.is_data) own += prompt.text.substr(span.begin, span.end - span.begin);
  }
  return own;
}

/// A word to try in messages: a string of the template, or several strings of one tag together.
struct Word {
  std::string text;
  std::vector<std::string> parts;
};

// The strings of each of the template's tags.
std::vector<std::vector<std::string>> strings_of_tags(const std::string& source) {
  std::vector<std::vector<std::string>> tags(1);
  const std::string text = jinja::normalize_newlines(source);
  for (const jinja::Lexeme& lexeme : jinja::tokenize(text, true, true)) {
    const bool is_begin =
        lexeme.token == jinja::Token::block_begin || lexeme.token == jinja::Token::variable_begin;
    if (is_begin && !tags.back().empty()) tags.emplace_back();
    if (lexeme.token != jinja::Token::string) continue;
    std::string word = text.substr(lexeme.begin, lexeme.size);
    // Escapes would have to be read; such words are left out.
    const bool is_word =
        !word.empty() && word.size() <= kMostShown && word.find('\\') == std::string::npos;
    if (is_word) tags.back().push_back(std::move(word));
  }
  return tags;
}

std::vector<Word> words_of(const std::string& source) {
  std::vector<Word> words;
  std::set<std::string> known;
  const auto add = [&](std::string text, const std::vector<std::string>& parts) {
    const bool is_word = text.size() > 1 && text.find_first_not_of(" \t\n") != std::string::npos;
    if (!is_word || words.size() == kMostWords || !known.insert(text).second) return;
    words.push_back({std::move(text), parts});
  };
  const auto tags = strings_of_tags(source);
  for (const auto& strings : tags) {
    for (const std::string& one : strings) add(one, {one});
  }
  // Single words come first, so that words put together are tried only if their parts alone do
  // nothing.
  std::ranges::sort(words, {}, &Word::text);
  for (const auto& strings : tags) {
    if (strings.size() < 2 || strings.size() > kMostParts) continue;
    std::string joined;
    std::string spaced;
    for (const std::string& one : strings) {
      joined += one;
      spaced += (spaced.empty() ? "" : " ") + one;
    }
    add(std::move(joined), strings);
    add(std::move(spaced), strings);
  }
  return words;
}

// The part of `longer` that lies between the beginning and the end that it shares with `shorter`.
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
  Made before;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (*all[i].find("role") != json::Value("assistant")) continue;
    // First the prompt for the answer, then the prompt that has the answer.
    for (const bool has_answer : {false, true}) {
      json::Array messages;
      for (std::size_t j = 0; j < i + (has_answer ? 1 : 0); ++j) messages.push_back(all[j]);
      Made now{habit_context(chat_template, std::move(messages), !has_answer), {}};
      auto prompt = habit_prompt(chat_template, now.context);
      if (!prompt) return std::nullopt;
      now.text = std::move(prompt->text);
      if (!now.text.starts_with(before.text)) return break_at(chat_template, i, before, now);
      before = std::move(now);
    }
  }
  return std::nullopt;
}

std::vector<WordGate> word_gates(const ChatTemplate& chat_template) {
  const Capabilities& can = chat_template.capabilities();
  const auto own_text_with = [&](std::string_view role, std::string_view text) {
    json::Array messages;
    if (role == "system") messages.emplace_back(habit_turn("system", text));
    messages.emplace_back(habit_turn("user", role == "user" ? text : "probe"));
    if (role == "tool") {
      messages.emplace_back(question_to_a_tool("probeid01"));
      messages.emplace_back(tool_result("probeid01", text));
    }
    const auto prompt =
        habit_prompt(chat_template, habit_context(chat_template, std::move(messages), true));
    return prompt ? std::optional(own_text(*prompt)) : std::nullopt;
  };
  // Among other words, and as the whole message, which may also be compared or looked up.
  const auto among = [](const std::string& word) { return "probe " + word + " probe"; };
  const auto end = std::chrono::steady_clock::now() + kMostTime;
  const std::vector<Word> words = words_of(chat_template.source());
  std::vector<WordGate> gates;
  for (const std::string_view role : {"user", "system", "tool"}) {
    if ((role == "system" && !can.system) || (role == "tool" && !(can.calls && can.tool_results))) {
      continue;
    }
    const auto own_among = own_text_with(role, among("word"));
    const auto own_alone = own_text_with(role, "word");
    if (!own_among || !own_alone) continue;
    std::set<std::string> found;  // words that change the text by themselves
    std::vector<std::string> together;
    for (const Word& word : words) {
      if (std::chrono::steady_clock::now() > end) return gates;
      // A part of it has been found already, or the same parts with a space.
      const bool is_told =
          word.parts == together || std::ranges::any_of(word.parts, [&](const std::string& part) {
            return found.contains(part);
          });
      if (is_told) continue;
      auto own = own_among;
      auto text = own_text_with(role, among(word.text));
      if (text == own) {
        own = own_alone;
        text = own_text_with(role, word.text);
      }
      if (!text || text == own) continue;
      gates.push_back({word.text, std::string(role), added(*own, *text)});
      if (word.parts.size() == 1) {
        found.insert(word.text);
      } else {
        together = word.parts;
      }
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
    if (broken->was_line > 0) habits.set("prefix_was_line", std::to_string(broken->was_line));
    if (broken->is_line > 0) habits.set("prefix_is_line", std::to_string(broken->is_line));
  }
  json::Array gates;
  for (const WordGate& gate : word_gates(chat_template)) {
    gates.emplace_back(json::Object{{"word", gate.word}, {"role", gate.role}, {"adds", gate.adds}});
  }
  habits.set("content_words", std::move(gates));
  return habits;
}

}  // namespace tenon::prompt
