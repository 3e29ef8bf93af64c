#include "tenon/chat/continuation.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/vocab/byte_tokenizer.h"

namespace tenon::chat {
namespace {

using vocab::ByteTokenizer;

struct ContinuationRow {
  const char* name;
  std::vector<std::string> controls;
  ByteTokenizer::Roles roles;
  message::Continuation asked;
  std::string read;  // the tokens' texts; or, after '!', the param of the refusal
};

std::string read(const ContinuationRow& row) {
  const ByteTokenizer tokenizer(row.controls, row.roles);
  const auto ids = tokens_of(row.asked, tokenizer);
  if (!ids) return "!" + ids.error().param + " " + ids.error().code;
  std::string text;
  for (const vocab::TokenId id : *ids) {
    const bool is_control = tokenizer.is_control(id);
    text += (is_control ? "{" : "") + std::string(tokenizer.bytes(id)) + (is_control ? "}" : "");
  }
  return text;
}

TEST(Continuation, IsReadAsItIsMeant) {
  const std::vector<std::string> kFim = {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"};
  const ContinuationRow kRows[] = {
      {"TextIsText", {}, {}, {.text = "ab"}, "ab"},
      {"TextsOfControlTokensAreThese", {"<x>"}, {}, {.text = "a<x>b"}, "a{<x>}b"},
      {"TokensAreTakenAsTheyAre", {"<s>"}, {.bos = "<s>", .adds_bos = true}, {.tokens = {97}}, "a"},
      {"BosComesFirst", {"<s>"}, {.bos = "<s>", .adds_bos = true}, {.text = "a"}, "{<s>}a"},
      {"BosComesOnce", {"<s>"}, {.bos = "<s>", .adds_bos = true}, {.text = "<s>a"}, "{<s>}a"},
      {"NoBosWhereNoneIsWanted", {"<s>"}, {.bos = "<s>"}, {.text = "a"}, "a"},
      {"NothingBeginsADocument", {"<s>"}, {.bos = "<s>"}, {}, "{<s>}"},
      {"WithoutBosItIsTheEndOfAnother", {"</s>"}, {.eos = "</s>"}, {}, "{</s>}"},
      {"AGap",
       kFim,
       {},
       {.text = "a", .suffix = "b"},
       "{<|fim_prefix|>}a{<|fim_suffix|>}b{<|fim_middle|>}"},
      {"AGapInADocumentThatSpellsMarkers",
       kFim,
       {},
       {.text = "<|fim_middle|>", .suffix = ""},
       "{<|fim_prefix|>}<|fim_middle|>{<|fim_suffix|>}{<|fim_middle|>}"},
      {"AGapWithTheSuffixFirst",
       {"[SUFFIX]", "[PREFIX]"},
       {},
       {.text = "a", .suffix = "b"},
       "{[SUFFIX]}b{[PREFIX]}a"},
      {"NoMarkersNoGap",
       {"<|fim_prefix|>"},
       {},
       {.text = "a", .suffix = "b"},
       "!suffix unsupported_parameter"},
  };
  for (const ContinuationRow& row : kRows) EXPECT_EQ(read(row), row.read) << row.name;
}

}  // namespace
}  // namespace tenon::chat
