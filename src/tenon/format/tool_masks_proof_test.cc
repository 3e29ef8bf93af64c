// Masks of a grammar of tools over a vocabulary whose tokens hold several characters: along answers
// that are text, calls of the format's own and calls in other forms, a mask has the tokens that the
// grammar accepts, no more and no fewer. Some formats, and of each mask every seventh token, which
// the next mask continues; with TENON_LONG=1 all of them.
#include <cstddef>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/base/long_for_test.h"
#include "tenon/format/definition.h"
#include "tenon/format/fallbacks.h"
#include "tenon/format/registry.h"
#include "tenon/format/sample_tools_for_test.h"
#include "tenon/format/tool_grammar.h"
#include "tenon/grammar/machine/grammar.h"
#include "tenon/grammar/machine/matcher.h"
#include "tenon/grammar/machine/token_set.h"
#include "tenon/grammar/rules/rules.h"
#include "tenon/vocab/tokenizer_file.h"
#include "tenon/vocab/vocab.h"

namespace tenon::format {
namespace {

constexpr std::string_view kMaskAnswers[] = {
    "Sure, here: {\"name\": \"get_all\", \"arguments\": {\"text\": \"a\"}}",
    "```json\n{\"name\": \"get\", \"arguments\": {}}\n```",
    "I call it.\n<tool_call>\n{\"name\": \"map\"",
    "<function=get_all>{\"text\": \"<b>\"}</function>",
    "[get_all(text='x', n=3)]",
    "{\"type\": \"function\", \"function\": {\"name\": \"open\", \"parameters\": {}}}",
    "It is 3 < 4; `{\"name\": \"get\"`. \"Quoted\": {\"name\": \"Alice\", \"age\": 3} "
    "\u00e9\U0001F600 == x",
    "For example:\n{\"name\": \"get\", \"arguments\": {}}",
    "<think>so (a = b): [1]</think> <|tool",
};

TEST(ToolMasks, HaveWhatTheGrammarAccepts) {
  const auto tokenizer = *vocab::load_tokenizer(std::filesystem::path(TENON_SOURCE_DIR) / "models" /
                                                "tenon-tiny.gguf");
  const auto index = std::make_shared<grammar::VocabIndex>(*vocab::Vocab::of(*tokenizer));
  const auto size = static_cast<vocab::TokenId>(tokenizer->size());
  const std::size_t stride = is_long_test() ? 1 : 9;
  const vocab::TokenId step = is_long_test() ? 1 : 29;
  std::size_t number = 0;
  std::size_t masks = 0;
  for (const auto& own : all()) {
    if (own->syntaxes.empty()) continue;
    // Calls that may come and calls that must, in turn; both in the long test.
    for (const auto mode : {message::ToolMode::automatic, message::ToolMode::required}) {
      if (number++ % stride != 0) continue;
      const auto format = with_fallbacks(*own, Fallbacks::all, AnswerMode::held);
      SCOPED_TRACE(format->info.name);
      const auto rules = tool_grammar(*format, tools().list, {.mode = mode},
                                      {.tokenizer = tokenizer.get(), .required_in_any_form = true});
      ASSERT_TRUE(rules) << rules.error().message;
      const auto grammar = grammar::Grammar::make(
          [&](grammar::Machine& machine) {
            return grammar::add_rules(machine, *rules, index->vocab());
          },
          index);
      ASSERT_TRUE(grammar) << grammar.error().message;
      std::vector<std::uint32_t> mask(grammar::mask_words(index->vocab().size()));
      for (const std::string_view answer : kMaskAnswers) {
        std::vector<vocab::TokenId> ids;
        ASSERT_TRUE(tokenizer->encode(answer, vocab::Controls::on, true, ids));
        grammar::Matcher matcher(*grammar);
        std::string so_far;
        for (const vocab::TokenId id : ids) {
          ASSERT_TRUE(matcher.fill_mask(mask)) << so_far;
          const auto first = static_cast<vocab::TokenId>(masks++) % step;
          for (vocab::TokenId token = first; token < size; token += step) {
            const auto at = static_cast<std::uint32_t>(token);
            const bool is_in_mask = (mask[at / 32] >> at % 32 & 1U) != 0;
            grammar::Matcher fork = matcher;
            ASSERT_EQ(is_in_mask, fork.accept(token))
                << "'" << tokenizer->bytes(token) << "' behind '" << so_far << "'";
          }
          if (!matcher.accept(id)) break;
          so_far += tokenizer->bytes(id);
        }
      }
    }
  }
  std::cout << masks << " masks\n";
  EXPECT_GT(masks, 100U);
}

}  // namespace
}  // namespace tenon::format
