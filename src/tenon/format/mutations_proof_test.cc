// Answers of models that are damaged: calls with words and thoughts around them, in every format,
// changed at random places. Every letter that stands in the answer beside the format's own texts
// must come out once, in the content, the reasoning or a call, or a diagnostic must say that
// something was left out. And the outcome is the same however the answer is cut.
//
// The letters are Greek, Cyrillic and the like, each there once, so none of them belongs to a
// marker, a name or a number. Quick: some changes of each format; with TENON_LONG=1 a thousand.
#include <algorithm>
#include <cstddef>
#include <iostream>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/base/long_for_test.h"
#include "tenon/base/utf8.h"
#include "tenon/format/definition.h"
#include "tenon/format/format.h"
#include "tenon/format/outcome_for_test.h"
#include "tenon/format/registry.h"
#include "tenon/format/render.h"
#include "tenon/format/stream_parser.h"
#include "tenon/json/value.h"

namespace tenon::format {
namespace {

using Letters = std::map<std::string, int>;  // how often each comes

constexpr char32_t kFirstLetter = 0x3B1;
constexpr char32_t kLastLetter = 0x4FF;

/// Words of letters that no other word has.
class Alphabet {
 public:
  std::string word(std::size_t size) {
    std::string word;
    for (std::size_t i = 0; i < size; ++i) utf8::append(word, next_++);
    EXPECT_LE(next_, kLastLetter);
    return word;
  }

 private:
  char32_t next_ = kFirstLetter;
};

/// All letters of an alphabet have two bytes, of which the first is one of these.
bool begins_letter(char byte) {
  const auto code = static_cast<unsigned char>(byte);
  return code >= 0xCE && code <= 0xD3;
}

void count_letters(std::string_view text, Letters& letters) {
  for (std::size_t i = 0; i + 1 < text.size(); ++i) {
    if (begins_letter(text[i])) ++letters[std::string(text.substr(i++, 2))];
  }
}

/// An answer as units that are damaged as a whole: letters, and single bytes.
std::vector<std::string> units_of(std::string_view text) {
  std::vector<std::string> units;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t size = begins_letter(text[i]) ? 2 : 1;
    units.emplace_back(text.substr(i, size));
    i += size;
  }
  return units;
}

std::string joined(const std::vector<std::string>& units) {
  std::string text;
  for (const std::string& unit : units) text += unit;
  return text;
}

class Damage {
 public:
  Damage(const Format& format, std::uint32_t seed) : dice_(seed) {
    for (const std::string_view common : {"{", "}", "[", "]", "(", ")",  "\"", "'", "\\",  ":",
                                          ",", "=", "<", ">", "|", "\n", " ",  "7", "```", "\\n"}) {
      pieces_.emplace_back(common);
    }
    pieces_.insert(pieces_.end(), format.literals.begin(), format.literals.end());
  }

  std::string changed(std::vector<std::string> units) {
    for (std::size_t changes = 1 + random(3); changes > 0 && !units.empty(); --changes) {
      const std::size_t at = random(units.size());
      const std::size_t size = std::min(1 + random(random(4) == 0 ? 30 : 4), units.size() - at);
      const auto begin = units.begin() + static_cast<std::ptrdiff_t>(at);
      const auto end = begin + static_cast<std::ptrdiff_t>(size);
      switch (random(6)) {
        case 0:
        case 1:
          units.erase(begin, end);
          break;
        case 2: {
          const std::vector<std::string> twice(begin, end);
          units.insert(end, twice.begin(), twice.end());
          break;
        }
        case 3:
          std::reverse(begin, end);
          break;
        case 4:
          units.resize(at);
          break;
        default:
          units.insert(begin, pieces_[random(pieces_.size())]);
          break;
      }
    }
    return joined(units);
  }
  std::size_t random(std::size_t below) { return dice_() % below; }

 private:
  std::mt19937 dice_;
  std::vector<std::string> pieces_;
};

/// Answers with one call and with two, with words and thoughts around them.
std::vector<std::string> whole_answers(const Format& format) {
  std::vector<std::string> answers;
  for (const bool has_two : {false, true}) {
    Alphabet alphabet;
    const auto word = [&] { return json::quoted(alphabet.word(4)); };
    std::vector<message::ToolCall> calls{
        {"", "note",
         "{\"text\": " + word() + ", \"tags\": [" + word() + ", " + word() + "], \"n\": 12}"}};
    if (has_two) {
      calls.push_back({"", "find", "{\"more\": {\"text\": " + word() + "}, \"flag\": true}"});
    }
    const auto text = render_calls(format, calls);
    if (!text) continue;
    answers.push_back(alphabet.word(5) + " " + alphabet.word(3) + ".\n" + *text + "\n" +
                      alphabet.word(4));
    answers.push_back(*text);
    if (format.reasoning_open.empty()) continue;
    answers.push_back(format.reasoning_open.front() + alphabet.word(6) + "\n" +
                      format.reasoning_close.front() + *text);
  }
  return answers;
}

ParseOptions options_of_notes() {
  const auto note = json::parse(R"({"type": "object", "properties": {"text": {"type": "string"},
      "tags": {"type": "array", "items": {"type": "string"}}, "n": {"type": "integer"}}})");
  const auto find = json::parse(R"({"type": "object", "properties": {"more": {"type": "object"},
      "flag": {"type": "boolean"}}})");
  return {.tools = {"note", "find"}, .schemas = {*note, *find}};
}

std::vector<std::size_t> random_cuts(std::size_t size, Damage& damage) {
  std::vector<std::size_t> cuts(1 + damage.random(9));
  for (std::size_t& cut : cuts) cut = damage.random(size + 1);
  std::ranges::sort(cuts);
  return cuts;
}

/// A diagnostic says that something is left out.
bool tells_of_loss(const Outcome& outcome) {
  return std::ranges::any_of(outcome.codes, [](const std::string& code) {
    return code == "ignored_member" || code == "behind_end";
  });
}

class Mutations : public ::testing::TestWithParam<std::shared_ptr<const Format>> {};

TEST_P(Mutations, LoseNoLetter) {
  const Format& format = *GetParam();
  const std::vector<std::string> answers = whole_answers(format);
  if (answers.empty()) GTEST_SKIP() << "the format writes no such call";
  const std::size_t count = is_long_test() ? 1000 : 60;
  Damage damage(format, 20261129);
  StreamParser parser(GetParam(), options_of_notes());
  std::size_t calls = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string text = damage.changed(units_of(answers[i % answers.size()]));
    const bool truncated = damage.random(4) == 0;
    const Outcome whole = outcome_at_cuts(parser, text, {}, truncated);
    Letters wanted;
    count_letters(text, wanted);
    Letters found;
    count_letters(whole.content, found);
    count_letters(whole.reasoning, found);
    for (const auto& [name, arguments] : whole.calls) count_letters(arguments, found);
    calls += whole.calls.size();
    if (!tells_of_loss(whole)) {
      EXPECT_EQ(found, wanted) << text << "\n" << ::testing::PrintToString(whole);
    }
    std::vector<std::size_t> bytes(text.size());
    for (std::size_t at = 0; at < bytes.size(); ++at) bytes[at] = at;
    EXPECT_EQ(outcome_at_cuts(parser, text, bytes, truncated), whole) << text;
    EXPECT_EQ(outcome_at_cuts(parser, text, random_cuts(text.size(), damage), truncated), whole)
        << text;
    if (::testing::Test::HasFailure()) break;
  }
  EXPECT_GT(calls, count / 5);
}

std::string format_name(const ::testing::TestParamInfo<std::shared_ptr<const Format>>& test) {
  std::string name = test.param->info.name;
  std::ranges::replace_if(
      name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(OfEveryFormat, Mutations, ::testing::ValuesIn(all()), format_name);

}  // namespace
}  // namespace tenon::format
