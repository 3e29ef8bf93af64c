#include "tenon/api/decisions.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <string_view>
#include <utility>
#include <variant>

// How a decision is made
//
// Both forms are decoded into the same DecisionQuestions: DecisionDecoder has a handler for each
// field, and branches on the form only where names differ. requests_of() then asks the model once
// for each option of each question. Such a request has the question as its prompt and a grammar
// that allows the option's tokens alone, and their log probabilities say how likely the model would
// have written them, with the token that ends the turn (ChatRequest::tells_tokens). All of them are
// choices of one ChatAnswer. DecisionEncoder::keep() adds up the log probabilities of a choice, and
// whole() divides each option's probability by the sum over its question.

namespace tenon::api {
namespace {

using json::Kind;
using json::Value;
using enum Effect;
using QuestionKind = DecisionQuestion::Kind;

// The text of the option with which the model abstains.
constexpr std::string_view kNoneOfThese = "none of these";

// The text that the model reads, which ends:
//   Answer with one of these and nothing else:
//   - yes
//   - no (the text has no date)
std::string prompt_of(const std::string& input, const DecisionQuestion& question) {
  // What all questions share comes first, so that it is read once.
  std::string prompt =
      input + "\n\n" + question.instructions + "\nAnswer with one of these and nothing else:";
  for (const DecisionOption& option : question.options) {
    prompt += "\n- " + option.text;
    if (!option.description.empty()) prompt += " (" + option.description + ")";
  }
  return prompt;
}

class DecisionDecoder : public RequestReader {
 public:
  explicit DecisionDecoder(DecisionForm form, const DecodeOptions& options)
      : RequestReader(options) {
    out_.form = form;
  }
  template <std::size_t N>
  Result<DecisionRequest, ApiError> run(const Value& body,
                                        const std::array<Field<DecisionDecoder>, N>& fields) {
    return outcome(read(body, fields) && finish(), out_);
  }

  bool input(const Value& value);
  bool state(const Value& value);
  bool questions(const Value& value);
  bool temperature(const Value& value) {
    return FieldReader::number(value, "temperature", 0.01, 100.0, out_.temperature);
  }

 private:
  bool input_message(const Value& value, const std::string& path);
  bool question_list(const Value& value);
  bool question_map(const Value& value);
  bool question(const Value& value, const std::string& path, DecisionQuestion& out);
  bool instructions(const Value& value, const std::string& path, std::string& out);
  bool kind_of(const Value& value, const std::string& path, DecisionQuestion& out);
  bool predicate(const Value& value, const std::string& path, DecisionQuestion& out);
  bool listed_options(const Value& value, const std::string& path, std::string_view key,
                      std::string_view label, DecisionQuestion& out);
  bool named_options(const Value& value, const std::string& path, DecisionQuestion& out);
  bool levels(const Value& value, const std::string& path, DecisionQuestion& out);
  bool option_value(const Value& value, const std::string& path, DecisionOption& out);
  bool options_fit(const std::string& path, const DecisionQuestion& question);
  bool finish();

  [[nodiscard]] bool is_openai() const { return out_.form == DecisionForm::openai; }

  DecisionRequest out_;
};

constexpr auto kDecisionFields = std::to_array<Field<DecisionDecoder>>({
    {{"model", honoured, false, "#ModelName"}, &DecisionDecoder::model},
    {{"input", honoured, true, "#DecisionInput"}, &DecisionDecoder::input},
    {{"questions", honoured, true, "#DecisionQuestions"}, &DecisionDecoder::questions},
    {{"temperature", honoured, false, "#DecisionTemperature"}, &DecisionDecoder::temperature},
    {{"safety_identifier", without_effect}, nullptr, Kind::string},
});

constexpr auto kSystemOneFields = std::to_array<Field<DecisionDecoder>>({
    {{"model", honoured, false, "#ModelName"}, &DecisionDecoder::model},
    {{"state", honoured, true, R"({"not": {"type": "null"}})"}, &DecisionDecoder::state},
    {{"questions", honoured, true, "#SystemOneQuestions"}, &DecisionDecoder::questions},
    {{"temperature", honoured, false, "#DecisionTemperature"}, &DecisionDecoder::temperature},
});

// A text, or messages whose texts are read one after the other.
bool DecisionDecoder::input(const Value& value) {
  if (const std::string* text = value.if_string()) {
    out_.input = *text;
    return true;
  }
  if (!kind(value, Kind::array, "input")) return false;
  const json::Array& items = *value.if_array();
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (!input_message(items[i], at("input", i))) return false;
  }
  return true;
}

// `{"role": "user", "content": "..."}`, or content in parts of text. Roles are not shown to the
// model.
bool DecisionDecoder::input_message(const Value& value, const std::string& path) {
  if (!kind(value, Kind::object, path)) return false;
  if (!only(value, path, {"type", "role", "content"})) return false;
  const Value* content = required(value, path, "content");
  if (content == nullptr) return false;
  const std::string where = in(path, "content");
  if (!out_.input.empty()) out_.input += "\n\n";
  if (const std::string* text = content->if_string()) {
    out_.input += *text;
    return true;
  }
  if (!kind(*content, Kind::array, where)) return false;
  const json::Array& parts = *content->if_array();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::string place = at(where, i);
    if (!kind(parts[i], Kind::object, place)) return false;
    const Value* type = required(parts[i], place, "type");
    if (type == nullptr) return false;
    if (*type != Value("input_text") && *type != Value("text")) {
      return fail("invalid_value", in(place, "type"),
                  in(place, "type") + " must be input_text: the model takes text only");
    }
    std::string text;
    if (!required_string(parts[i], place, "text", text)) return false;
    out_.input += text;
  }
  return true;
}

bool DecisionDecoder::state(const Value& value) {
  const std::string* text = value.if_string();
  out_.input = text != nullptr ? *text : json::to_string(value);
  return true;
}

bool DecisionDecoder::questions(const Value& value) {
  return is_openai() ? question_list(value) : question_map(value);
}

// OpenAI's list, whose questions may have a name; System One's map, below, always names them.
bool DecisionDecoder::question_list(const Value& value) {
  if (!kind(value, Kind::array, "questions")) return false;
  const json::Array& items = *value.if_array();
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::string path = at("questions", i);
    DecisionQuestion& out = out_.questions.emplace_back();
    if (!question(items[i], path, out)) return false;
    if (const Value* name = present(items[i], "name")) {
      if (!kind(*name, Kind::string, in(path, "name"))) return false;
      out.name = *name;
    }
  }
  return true;
}

bool DecisionDecoder::question_map(const Value& value) {
  if (!kind(value, Kind::object, "questions")) return false;
  for (const json::Member& member : *value.if_object()) {
    DecisionQuestion& out = out_.questions.emplace_back();
    out.name = member.key;
    if (!question(member.value, in("questions", member.key), out)) return false;
  }
  return true;
}

// Which members a question may have depends on its form and kind. only() takes a list of fixed
// length, so "type", which is there anyway, stands for a member that this kind does not have.
bool DecisionDecoder::question(const Value& value, const std::string& path, DecisionQuestion& out) {
  if (!kind(value, Kind::object, path)) return false;
  if (!instructions(value, path, out.instructions) || !kind_of(value, path, out)) return false;
  const bool is_choice = out.kind == QuestionKind::choice;
  const std::string_view name = is_openai() ? "name" : "type";
  const std::string_view abstain_of = is_choice ? "abstain" : "type";
  const std::string_view options = !is_openai()                      ? "criteria"
                                   : is_choice                       ? "choices"
                                   : out.kind == QuestionKind::score ? "levels"
                                                                     : "type";
  if (!only(value, path, {"type", "instructions", name, abstain_of, options})) return false;
  if (const Value* abstain = present(value, "abstain")) {
    bool may_abstain = false;
    if (!boolean(*abstain, in(path, "abstain"), may_abstain)) return false;
    if (may_abstain && out.kind == QuestionKind::choice) {
      out.options.push_back({.value = {}, .text = std::string(kNoneOfThese)});
    }
  }
  return options_fit(path, out);
}

// A text, or JSON that the model reads as its text.
bool DecisionDecoder::instructions(const Value& value, const std::string& path, std::string& out) {
  const Value* given = required(value, path, "instructions");
  if (given == nullptr) return false;
  const std::string* text = given->if_string();
  out = text != nullptr ? *text : json::to_string(*given);
  return true;
}

// What OpenAI calls a predicate is a "noul" in System One's form.
bool DecisionDecoder::kind_of(const Value& value, const std::string& path, DecisionQuestion& out) {
  const std::string_view yes_or_no = is_openai() ? "predicate" : "noul";
  const std::string_view type = required_word(value, path, "type", {yes_or_no, "choice", "score"});
  if (type.empty()) return false;
  if (type == "choice") {
    out.kind = QuestionKind::choice;
    return is_openai() ? listed_options(value, path, "choices", "value", out)
                       : named_options(value, path, out);
  }
  if (type == "score") {
    out.kind = QuestionKind::score;
    return is_openai() ? listed_options(value, path, "levels", "label", out)
                       : levels(value, path, out);
  }
  out.kind = QuestionKind::predicate;
  return predicate(value, path, out);
}

// System One may say what yes and no mean.
bool DecisionDecoder::predicate(const Value& value, const std::string& path,
                                DecisionQuestion& out) {
  out.options = {{.value = true, .text = "yes"}, {.value = false, .text = "no"}};
  const Value* criteria = is_openai() ? nullptr : present(value, "criteria");
  if (criteria == nullptr) return true;
  const std::string where = in(path, "criteria");
  return kind(*criteria, Kind::object, where) &&
         optional_string(*criteria, where, "true", out.options[0].description) &&
         optional_string(*criteria, where, "false", out.options[1].description);
}

// The texts of levels are their numbers, since labels may be sentences: the model would write "2",
// and reads "2 (good: no mistakes)" in the prompt.
void name_levels(DecisionQuestion& question) {
  for (std::size_t i = 0; i < question.options.size(); ++i) {
    DecisionOption& level = question.options[i];
    if (!level.description.empty()) level.description = ": " + level.description;
    level.description = level.text + level.description;
    level.text = std::to_string(i + 1);
  }
}

// OpenAI's options: a list under `key`, each an object with its value under `label`.
bool DecisionDecoder::listed_options(const Value& value, const std::string& path,
                                     std::string_view key, std::string_view label,
                                     DecisionQuestion& out) {
  const Value* list = required(value, path, key, Kind::array);
  if (list == nullptr) return false;
  const std::string where = in(path, key);
  const json::Array& items = *list->if_array();
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::string place = at(where, i);
    if (!kind(items[i], Kind::object, place)) return false;
    const Value* given = required(items[i], place, label);
    DecisionOption& option = out.options.emplace_back();
    if (given == nullptr || !option_value(*given, in(place, label), option)) return false;
    if (!optional_string(items[i], place, "description", option.description)) return false;
  }
  if (out.kind == QuestionKind::score) name_levels(out);
  return true;
}

bool DecisionDecoder::option_value(const Value& value, const std::string& path,
                                   DecisionOption& out) {
  out.value = value;
  if (value.kind() == Kind::boolean) {
    out.text = value == Value(true) ? "true" : "false";
    return true;
  }
  return string(value, path, out.text);
}

// System One's options: a map from the text of an option to its description, or null.
bool DecisionDecoder::named_options(const Value& value, const std::string& path,
                                    DecisionQuestion& out) {
  const Value* criteria = required(value, path, "criteria", Kind::object);
  if (criteria == nullptr) return false;
  for (const json::Member& member : *criteria->if_object()) {
    DecisionOption& option = out.options.emplace_back();
    option.value = member.key;
    option.text = member.key;
    if (member.value.is_null()) continue;
    if (!string(member.value, in(in(path, "criteria"), member.key), option.description)) {
      return false;
    }
  }
  return true;
}

bool DecisionDecoder::levels(const Value& value, const std::string& path, DecisionQuestion& out) {
  const Value* criteria = required(value, path, "criteria", Kind::array);
  if (criteria == nullptr) return false;
  const json::Array& items = *criteria->if_array();
  for (std::size_t i = 0; i < items.size(); ++i) {
    DecisionOption& option = out.options.emplace_back();
    if (!option_value(items[i], at(in(path, "criteria"), i), option)) return false;
  }
  name_levels(out);
  return true;
}

// Two options with one text would be the same request twice, and would halve its probability.
bool DecisionDecoder::options_fit(const std::string& path, const DecisionQuestion& question) {
  std::vector<std::string_view> texts;
  for (const DecisionOption& option : question.options) texts.push_back(option.text);
  std::ranges::sort(texts);
  if (texts.size() < 2)
    return fail("invalid_value", path, path + " must have two options at least");
  if (texts.front().empty())
    return fail("invalid_value", path, path + " has an option without text");
  const auto twice = std::ranges::adjacent_find(texts);
  if (twice == texts.end()) return true;
  return fail("invalid_value", path, path + " has the option " + shown(*twice) + " twice");
}

// Each option becomes a request that contains the input and all options of its question, so the
// whole work is bounded here by both limits.
bool DecisionDecoder::finish() {
  std::size_t options = 0;
  std::size_t bytes = out_.input.size();
  for (const DecisionQuestion& question : out_.questions) {
    options += question.options.size();
    bytes += prompt_of("", question).size();
  }
  if (!at_most(kMaxDecisionBytes, bytes, is_openai() ? "input" : "state", "bytes")) return false;
  if (options == 0) return fail("invalid_value", "questions", "questions must not be empty");
  return at_most(kMaxDecisionOptions, options, "questions", "options in all");
}

// 0 if all options are as likely, 1 if one of them is certain.
double confidence_of(const std::vector<double>& shares) {
  const auto count = static_cast<double>(shares.size());
  return (count * *std::ranges::max_element(shares) - 1) / (count - 1);
}

// The score is the mean of the levels' numbers, from 0 on, weighted by their probabilities.
json::Object openai_answer(const DecisionQuestion& question, const std::vector<double>& shares) {
  json::Object out{{"name", question.name}};
  if (question.kind == QuestionKind::predicate) {
    out.set("type", "predicate");
    out.set("probability", shares.front());
    return out;
  }
  const bool is_score = question.kind == QuestionKind::score;
  json::Array list;
  double score = 0;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const Value& value = question.options[i].value;
    score += static_cast<double>(i) * shares[i];
    json::Object each{{"value", is_score ? Value(std::uint64_t{i}) : value}};
    if (is_score) each.set("label", value);
    each.set("probability", shares[i]);
    list.emplace_back(std::move(each));
  }
  const auto best = static_cast<std::size_t>(std::ranges::max_element(shares) - shares.begin());
  out.set("type", is_score ? "score" : "choice");
  if (is_score) out.set("score", score);
  if (!is_score) out.set("choice", question.options[best].value);
  out.set("probabilities", std::move(list));
  out.set("confidence", confidence_of(shares));
  return out;
}

// The same figures under other names: a map of probabilities, and for scores a legend of the
// levels.
json::Object system_one_answer(const DecisionQuestion& question,
                               const std::vector<double>& shares) {
  if (question.kind == QuestionKind::predicate) {
    return {{"type", "noul"}, {"noul", shares.front()}};
  }
  const bool is_score = question.kind == QuestionKind::score;
  json::Object probabilities;
  json::Object legend;
  double score = 0;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const DecisionOption& option = question.options[i];
    score += static_cast<double>(i) * shares[i];
    probabilities.set(is_score ? std::to_string(i) : option.text, shares[i]);
    legend.set(std::to_string(i), option.value);
  }
  const auto best = static_cast<std::size_t>(std::ranges::max_element(shares) - shares.begin());
  json::Object out{{"type", is_score ? "score" : "choice"}};
  if (is_score) {
    out.set("score", score);
    out.set("legend", std::move(legend));
  } else {
    out.set("choice", question.options[best].value);
  }
  out.set("probabilities", std::move(probabilities));
  out.set("confidence", confidence_of(shares));
  return out;
}

// The tokens of `text`, one after the other: models have learned texts as their tokenizers write
// them. A model that chose among all tokens that begin the text would often take a first one after
// which the rest is unlikely. A text that the tokenizer cannot write is left to the model.
message::TextGrammar grammar_of(const std::string& text, const vocab::Tokenizer& tokenizer) {
  using Syntax = message::TextGrammar::Syntax;
  std::vector<vocab::TokenId> ids;
  std::string written;
  if (tokenizer.encode(text, vocab::Controls::off, /*at_start=*/false, ids)) {
    for (const vocab::TokenId id : ids) written += tokenizer.bytes(id);
  }
  if (written != text) {
    return {.syntax = Syntax::choice, .definition = json::to_string(json::Array{text})};
  }
  std::string tokens = "start:";
  for (const vocab::TokenId id : ids) tokens += " <[" + std::to_string(id) + "]>";
  return {.syntax = Syntax::lark, .definition = std::move(tokens)};
}

}  // namespace

Result<DecisionRequest, ApiError> decode_decisions(const Value& body,
                                                   const DecodeOptions& options) {
  return DecisionDecoder(DecisionForm::openai, options).run(body, kDecisionFields);
}

Result<DecisionRequest, ApiError> decode_system_one(const Value& body,
                                                    const DecodeOptions& options) {
  return DecisionDecoder(DecisionForm::system_one, options).run(body, kSystemOneFields);
}

std::span<const FieldInfo> decision_fields() {
  return infos_of<kDecisionFields>();
}

std::span<const FieldInfo> system_one_fields() {
  return infos_of<kSystemOneFields>();
}

std::vector<message::ChatRequest> requests_of(const DecisionRequest& request,
                                              const vocab::Tokenizer& tokenizer) {
  std::vector<message::ChatRequest> requests;
  for (const DecisionQuestion& question : request.questions) {
    message::ChatRequest chat = request.chat;
    chat.messages = {{.role = message::Role::user, .content = prompt_of(request.input, question)}};
    // Nothing is sampled, since the grammar leaves one text. The request's temperature is applied
    // to the probabilities in shares().
    chat.sampling.temperature = 0;
    chat.logprobs = true;
    chat.tells_tokens = true;
    // Reasoning before the option would make its probability that of the reasoning, too.
    chat.max_reasoning_tokens = 0;
    chat.max_tokens = 0;  // until the context is full
    chat.tool_choice.mode = message::ToolMode::none;
    chat.template_kwargs.set("enable_thinking", false);
    chat.response_format.kind = message::ResponseFormat::Kind::grammar;
    for (const DecisionOption& option : question.options) {
      chat.response_format.grammar = grammar_of(option.text, tokenizer);
      requests.push_back(chat);
    }
  }
  return requests;
}

DecisionEncoder::DecisionEncoder(const DecisionRequest& request)
    : model_(request.chat.model),
      form_(request.form),
      temperature_(request.temperature),
      questions_(request.questions) {
  std::size_t options = 0;
  for (const DecisionQuestion& question : questions_) options += question.options.size();
  read_.resize(options);
}

std::span<const FieldName> DecisionEncoder::field_names() const {
  static constexpr FieldName kOpenAi[] = {{"messages", "input"}};
  static constexpr FieldName kSystemOne[] = {{"messages", "state"}};
  if (form_ == DecisionForm::openai) return kOpenAi;
  return kSystemOne;
}

// Events before the end are not needed: Finish has the log probabilities of all tokens.
void DecisionEncoder::keep(unsigned choice, const message::ChatEvent& event,
                           const std::vector<message::TokenLogprob>& /*logprobs*/) {
  const auto* finish = std::get_if<message::Finish>(&event);
  if (finish == nullptr) return;
  read_[choice].usage = finish->usage;
  if (finish->tokens == nullptr) return;
  const std::vector<double>& logprobs = finish->tokens->logprobs;
  read_[choice].is_whole = finish->reason == message::FinishReason::stop && !logprobs.empty();
  read_[choice].logprob = std::accumulate(logprobs.begin(), logprobs.end(), 0.0);
}

bool DecisionEncoder::is_read(std::size_t first, std::size_t count) const {
  const std::span<const Read> read(read_);
  return std::ranges::all_of(read.subspan(first, count), &Read::is_whole);
}

// The probabilities of the options from `first` on, which add up to 1. The largest log probability
// is subtracted first, so that exp() of a long option's does not become 0 for all of them.
std::vector<double> DecisionEncoder::shares(std::size_t first, std::size_t count) const {
  std::vector<double> shares(count);
  double largest = read_[first].logprob;
  for (std::size_t i = 0; i < count; ++i) largest = std::max(largest, read_[first + i].logprob);
  double total = 0;
  for (std::size_t i = 0; i < count; ++i) {
    shares[i] = std::exp((read_[first + i].logprob - largest) / temperature_);
    total += shares[i];
  }
  for (double& share : shares) share /= total;
  return shares;
}

// read_ has the options of all questions in a row; `first` is where the present question begins. An
// option's mass is its probability among everything that the model could write: where the sum is
// small, the model would rather have answered something else.
Value DecisionEncoder::whole(const message::Usage& /*usage*/) {
  json::Array list;
  json::Object map;
  json::Array masses;
  std::uint64_t input_tokens = 0;
  std::uint64_t cached_tokens = 0;
  std::size_t first = 0;
  for (const DecisionQuestion& question : questions_) {
    const std::size_t count = question.options.size();
    if (!is_read(first, count)) {
      list.emplace_back(json::Object{{"name", question.name}, {"type", "refusal"}});
      masses.emplace_back(0);
      first += count;
      continue;
    }
    const std::vector<double> likely = shares(first, count);
    double mass = 0;
    for (std::size_t i = 0; i < count; ++i) mass += std::exp(read_[first + i].logprob);
    masses.emplace_back(mass);
    // The options of a question have the same prompt.
    input_tokens += read_[first].usage.prompt_tokens;
    cached_tokens += read_[first].usage.cached_tokens;
    if (form_ == DecisionForm::openai) {
      list.emplace_back(openai_answer(question, likely));
    } else {
      map.set(*question.name.if_string(), system_one_answer(question, likely));
    }
    first += count;
  }
  json::Object usage{{"input_tokens", input_tokens}};
  if (form_ == DecisionForm::openai) {
    usage.set("input_tokens_details", json::Object{{"cached_tokens", cached_tokens},
                                                   {"cache_write_tokens", std::uint64_t{0}}});
    usage.set("output_tokens", std::uint64_t{0});
    usage.set("output_tokens_details", json::Object{{"reasoning_tokens", std::uint64_t{0}}});
    usage.set("total_tokens", input_tokens);
  } else {
    usage.set("output_tokens", std::uint64_t{0});
  }
  const bool is_openai = form_ == DecisionForm::openai;
  return json::Object{{"model", model_},
                      {"answers", is_openai ? Value(std::move(list)) : Value(std::move(map))},
                      {"usage", std::move(usage)},
                      {"tenon", json::Object{{"option_mass", std::move(masses)}}}};
}

}  // namespace tenon::api
