#include "prompt_view.h"

#include <gtest/gtest.h>

namespace tenon::app {
namespace {

struct Row {
  const char* name;
  std::string_view text;
  std::vector<jinja::Span> spans;
  std::vector<std::string> controls;
  std::string_view shown;
};

class Coloured : public testing::TestWithParam<Row> {};

TEST_P(Coloured, TellsTemplateFromData) {
  const Row& row = GetParam();
  EXPECT_EQ(coloured(row.text, row.spans, row.controls), row.shown);
}

INSTANTIATE_TEST_SUITE_P(
    Rows, Coloured,
    testing::Values(Row{"ControlTokensOfTheTemplateAreBoxed",
                        "<e>user <e>",
                        {{0, 8, false}, {8, 11, true}},
                        {"<e", "<e>"},
                        "\x1b[7m<e>\x1b[0m\x1b[34muser \x1b[0m<e>"},
                    Row{"WithoutAVocabularyTheirLookDecides",
                        "[INST]<|a|> < b>",
                        {{0, 16, false}},
                        {},
                        "\x1b[7m[INST]\x1b[0m\x1b[7m<|a|>\x1b[0m\x1b[34m < b>\x1b[0m"},
                    Row{"NothingIsObeyed", "\x1b[31mx", {{0, 6, true}}, {}, "\\u001b[31mx"}),
    [](const auto& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace tenon::app
