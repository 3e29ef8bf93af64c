#include "tenon/prompt/plain_text.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/vocab/byte_tokenizer.h"

namespace tenon::prompt {
namespace {

const vocab::ByteTokenizer& tokenizer() {
  static const vocab::ByteTokenizer all(
      {"<|im_start|>", "<|im_end|>", "<|im_end|>>", "｜a｜", "<c>", "\u00a7"});
  return all;
}

Prompt prompt_of(const std::vector<std::pair<bool, std::string_view>>& stretches) {
  Prompt prompt;
  for (const auto& [is_data, text] : stretches) {
    const std::size_t begin = prompt.text.size();
    prompt.text += text;
    prompt.spans.push_back({begin, prompt.text.size(), is_data});
  }
  return prompt;
}

struct PlainTextRow {
  std::string_view name;
  std::vector<std::pair<bool, std::string_view>> stretches;  // (data, text)
  std::string_view text;
};

const PlainTextRow kPlainTextRows[] = {
    {"Nothing", {}, ""},
    {"PlainText",
     {{false, "<|im_start|>"}, {true, "hi < | <|im_end"}, {false, "<|im_end|>"}},
     "<|im_start|>hi < | <|im_end<|im_end|>"},
    {"DataSpellsOne", {{true, "a<|im_end|>b"}}, "a<\u200b|im_end|>b"},
    {"OneThatBeginsAnother", {{true, "<|im_end|>>"}}, "<\u200b|im_end|>>"},
    {"ManyCharacters", {{true, "｜a｜｜a｜"}}, "｜\u200ba｜｜\u200ba｜"},
    {"TheTemplateEndsIt", {{true, "<|im_end"}, {false, "|>"}}, "<|im_end\u200b|>"},
    {"TheTemplateBeginsIt", {{false, "<|im_"}, {true, "end|>"}}, "<|im_\u200bend|>"},
    {"DataInItsMiddle", {{false, "<|im_"}, {true, "end"}, {false, "|>"}}, "<|im_\u200bend|>"},
    {"DataLengthensOne", {{false, "<|im_end|>"}, {true, ">"}}, "<|im_end|>\u200b>"},
    {"DataLengthensOneOfTwoSpans",
     {{false, "<|im_end"}, {false, "|>"}, {true, ">"}},
     "<|im_end|>\u200b>"},
    {"DataBeforeOne", {{true, "<"}, {false, "<|im_end|>"}}, "<<|im_end|>"},
    {"OneCharacterCannotBeCut", {{true, "\u00a7"}}, "\u00a7"},
    {"AtTheEnd", {{true, "<c"}}, "<c"},
};

TEST(PlainText, CutsWhatOutsidersSpell) {
  const PlainText plain(tokenizer());
  for (const PlainTextRow& row : kPlainTextRows) {
    EXPECT_EQ(plain.of(prompt_of(row.stretches)), row.text) << row.name;
  }
}

// All texts of a few pieces, divided between template and data in every way: a server reads all of
// the template's control tokens, and no other.
TEST(PlainText, GivesNoControlTokenToData) {
  const PlainText plain(tokenizer());
  const std::string_view pieces[] = {"<", "<|im_end", "|>", ">", "c>", "｜", "a", "<|im_end|>"};
  const auto controls_in = [](std::string_view text) {
    std::vector<vocab::TokenId> ids;
    EXPECT_TRUE(tokenizer().encode(text, vocab::Controls::on, true, ids));
    return std::ranges::count_if(ids, [](auto id) { return tokenizer().is_control(id); });
  };
  for (std::size_t i = 0; i < 8 * 8 * 8 * 8 * 16; ++i) {
    std::size_t rest = i / 16;
    std::vector<std::pair<bool, std::string_view>> stretches;
    std::ptrdiff_t own = 0;
    std::string template_text;
    for (std::size_t at = 0; at < 4; ++at, rest /= 8) {
      const bool is_data = (i >> at & 1U) != 0;
      stretches.emplace_back(is_data, pieces[rest % 8]);
      if (!is_data) template_text += pieces[rest % 8];
      if (is_data || at == 3) {
        own += controls_in(template_text);
        template_text.clear();
      }
    }
    const std::string text = plain.of(prompt_of(stretches));
    ASSERT_EQ(controls_in(text), own) << text;
  }
}

}  // namespace
}  // namespace tenon::prompt
