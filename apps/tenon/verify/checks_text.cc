#include <array>
#include <string>
#include <utility>

#include "verify/check.h"
#include "verify/questions.h"
#include "verify/reached.h"

// Text and arguments come through as the model wrote them, without markers of its format.
namespace tenon::app::verify {
namespace {

constexpr std::array<std::string_view, 18> kMarkers = {
    "<tool_call>",   "</tool_call>",   "<|tool_call",  "<function=", "[TOOL_CALLS]",
    "[/TOOL_CALLS]", "<|python_tag|>", "<|channel|>",  "<|im_end|>", "<|im_start|>",
    "<|eot_id|>",    "<|end|>",        "<think>",      "</think>",   "<end_of_turn>",
    "</s>",          "<|endoftext|>",  "<|assistant|>"};

// These answers may be cut: what is wrong is seen all the same.
Question seen_cut(Question question) {
  question.may_be_cut = true;
  return question;
}

Judgement cut_too_early() {
  return undecided("the answer was cut; --max-tokens lets it be longer");
}

Judge has_no_marker(bool needs_call) {
  return [needs_call](const Answer& answer) {
    for (const std::string_view marker : kMarkers) {
      if (answer.text.find(marker) != std::string::npos) {
        return fails("the text has the marker " + std::string(marker) + ": " +
                     answer.text.substr(0, 200));
      }
    }
    if (answer.finish == Finish::length) return cut_too_early();
    return needs_call && answer.calls.empty() ? undecided("the model made no call") : passes();
  };
}

constexpr std::string_view kThought = "The user greets me, so I greet back.";

Question thinking_question() {
  Question question = text_question();
  question.play.reasoning = kThought;
  return question;
}

Judge keeps_reasoning_apart(bool is_played) {
  return [is_played](const Answer& answer) {
    if (answer.text.find("think>") != std::string::npos ||
        answer.text.find(kThought) != std::string::npos) {
      return fails("the text has the reasoning: " + answer.text.substr(0, 200));
    }
    if (answer.finish == Finish::length) return cut_too_early();
    return is_played && answer.reasoning.find(kThought) == std::string::npos
               ? fails("the reasoning is lost")
               : passes();
  };
}

Judgement check_reasoning(Session& session) {
  return judged(session, seen_cut(thinking_question()), keeps_reasoning_apart(session.is_played()),
                Refusal::fails);
}

Question thinking_with_call() {
  Question question = call_question();
  question.play.reasoning = kThought;
  return question;
}

// ---- what is written comes through

Question repeating(std::string line) {
  Question question = asking("Repeat this exactly, and nothing else: " + line);
  question.play.text = std::move(line);
  return question;
}

Judge has_text_of(std::string line) {
  return [line = std::move(line)](const Answer& answer) {
    return answer.text.find(line) != std::string::npos
               ? passes()
               : undecided("the text is '" + answer.text.substr(0, 100) + "'");
  };
}

Question noting(const std::string& text) {
  Question question = asking("Call `note` with exactly this text: " + text);
  question.tools = {text_tool("note", "Notes a text", "text")};
  question.choice = {Choice::Kind::named, {"note"}};
  question.is_choice_optional = true;
  question.play.calls = {{"note", json::to_string(json::Object{{"text", text}})}};
  return question;
}

Judge has_note_of(std::string text) {
  return [text = std::move(text)](const Answer& answer) {
    if (answer.calls.empty()) return undecided("the model made no call");
    const auto arguments = json::parse(answer.calls.front().arguments);
    if (!arguments) return undecided("the arguments are no JSON: " + arguments.error().message);
    const std::string_view came = word_at(*arguments, "text");
    return came == text ? passes()
                        : undecided("the argument is " + json::quoted(came.substr(0, 100)));
  };
}

Question large_number() {
  Question question = asking("Call `count` with the number 12345678901234567890.");
  question.tools = {{.name = "count",
                     .description = "Counts",
                     .parameters = json_of(R"({"type": "object", "properties": {
                         "n": {"type": "integer"}}, "required": ["n"]})")}};
  question.choice = {Choice::Kind::named, {"count"}};
  question.is_choice_optional = true;
  question.play.calls = {{"count", R"({"n": 12345678901234567890})"}};
  return question;
}

Judgement keeps_all_digits(const Answer& answer) {
  if (answer.calls.empty()) return undecided("the model made no call");
  const std::string& arguments = answer.calls.front().arguments;
  if (arguments.find("12345678901234567890") != std::string::npos) return passes();
  // As floating point numbers are printed; other digits are the model's.
  for (const char* printed : {"1.2345678901234567e19", "1.2345678901234567e+19",
                              "12345678901234567168", "12345678901234567000"}) {
    if (arguments.find(printed) != std::string::npos) return fails("digits are lost: " + arguments);
  }
  return undecided("the arguments are " + arguments.substr(0, 100));
}

std::string long_text() {
  std::string text;
  for (int line = 0; text.size() < 100'000; ++line) {
    text += "line " + std::to_string(line) + ": \"quoted\", a \\ and Grüße\n";
  }
  return text;
}

constexpr std::string_view kQuoted =
    "Write it like this:\n```json\n{\"name\": \"get_weather\", \"arguments\": {\"city\": "
    "\"Oslo\"}}\n"
    "```\nThat is all.";

Question quoting() {
  Question question = asking("How does a call of get_weather look? Only show it.");
  question.tools = {weather_tool()};
  question.play.text = kQuoted;
  return question;
}

Judgement quotes_only(const Answer& answer) {
  if (!answer.calls.empty()) return fails("an example within a code block became a call");
  return answer.text == kQuoted ? passes() : fails("the text came as: " + answer.text);
}

Question text_then_call() {
  Question question = call_question();
  question.choice = {Choice::Kind::automatic};
  question.play.text = "I will look that up.";
  return question;
}

Judgement keeps_text(const Answer& answer) {
  if (answer.calls.empty()) return fails("the call is lost");
  return answer.text.find("I will look that up.") != std::string::npos
             ? passes()
             : fails("the text before the call is lost");
}

Question silent() {
  Question question = text_question();
  question.play = {};
  return question;
}

Judgement is_empty(const Answer& answer) {
  return answer.text.empty() && answer.calls.empty() ? passes()
                                                     : fails("an empty answer came as text");
}

// A lone half of a surrogate pair, which no text can have; some clients send it all the same.
Judgement check_lone_surrogate(Session& session) {
  Question question = text_question();
  std::string body = session.written(question);
  const std::size_t at = body.find("Say hello");
  question.raw = body.replace(at, 0, "\\ud83d ");
  return judged(session, question, [](const Answer&) { return passes(); }, Refusal::passes);
}

Question with_null_character() {
  Question question = text_question();
  question.turns.back().text.insert(0, std::string("a\0b ", 4));
  question.may_be_cut = true;
  return question;
}

void add_markers(std::vector<Check>& checks) {
  const std::string group = "text";
  checks.push_back({group, "no_markers_in_text", "Is a text free of the model's markers?",
                    asked(seen_cut(text_question()), has_no_marker(false), Refusal::fails)});
  checks.push_back(
      {group, "no_markers_in_a_stream", "Is the text of a stream free of markers?",
       asked(seen_cut(streamed(text_question())), has_no_marker(false), Refusal::fails)});
  checks.push_back({group, "no_markers_beside_calls", "Is the text beside a call free of markers?",
                    asked(seen_cut(call_question()), has_no_marker(true))});
  checks.push_back({group, "no_markers_beside_calls_in_a_stream",
                    "Is it free of them in a stream, too?",
                    asked(seen_cut(streamed(two_calls_question())), has_no_marker(true))});
  checks.push_back(
      {group, "reasoning_is_apart", "Is reasoning a field of its own, not text?", check_reasoning});
  checks.push_back({group, "reasoning_is_apart_beside_calls", "Is it apart beside a call, too?",
                    asked(seen_cut(thinking_with_call()), has_no_marker(true))});
}

}  // namespace

void add_text(std::vector<Check>& checks) {
  const std::string group = "text";
  const std::string line = "Grüße, 世界! 👩‍🚀 Ελλάδα नमस्ते 🇵🇹";
  const std::string escapes = "say \"hi\" \\ to\tC:\\new\nline {\"a\": [1]} </x> & 'y'";
  add_markers(checks);
  checks.push_back({group, "unicode_in_text", "Does text of all scripts come through?",
                    asked(repeating(line), has_text_of(line), Refusal::fails)});
  checks.push_back({group, "unicode_in_arguments", "Do arguments of all scripts come through?",
                    asked(noting(line), has_note_of(line))});
  checks.push_back({group, "escapes_in_arguments",
                    "Do quotes, backslashes and line ends come through?",
                    asked(noting(escapes), has_note_of(escapes))});
  checks.push_back(
      {group, "unicode_reaches_model", "Does text of all scripts reach the model?",
       asked(reaching(asking("Repeat the code word: Grüße-世界-417"), "Grüße-世界-[0-9]+"),
             tells("Grüße-世界-417"), Refusal::fails)});
  checks.push_back({group,
                    "large_numbers_in_arguments",
                    "Do numbers keep all their digits?",
                    asked(large_number(), keeps_all_digits),
                    {Dialect::chat, Dialect::responses}});
  checks.push_back({group,
                    "long_arguments",
                    "Do arguments of 100 KB come through?",
                    asked(noting(long_text()), has_note_of(long_text())),
                    {},
                    true});
  checks.push_back({group,
                    "long_arguments_in_a_stream",
                    "Do they come through in a stream?",
                    asked(streamed(noting(long_text())), has_note_of(long_text())),
                    {},
                    true});
  checks.push_back({group,
                    "text_before_a_call",
                    "Is the text before a call kept?",
                    asked(text_then_call(), keeps_text),
                    {},
                    true});
  checks.push_back({group,
                    "quoted_call_is_text",
                    "Is an example of a call within a code block text?",
                    asked(quoting(), quotes_only),
                    {},
                    true});
  checks.push_back({group,
                    "empty_answer",
                    "Is an empty answer told as one?",
                    asked(silent(), is_empty),
                    {},
                    true});
  checks.push_back(
      {group, "lone_surrogate", "Does half of a character get no 5xx?", check_lone_surrogate});
  checks.push_back(
      {group, "null_character", "Does the character U+0000 get no 5xx?",
       asked(with_null_character(), [](const Answer&) { return passes(); }, Refusal::passes)});
}

}  // namespace tenon::app::verify
