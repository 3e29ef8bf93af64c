#include "tenon/chat/kept_tokens.h"

#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/prompt/chat_template.h"
#include "tenon/vocab/byte_tokenizer.h"

namespace tenon::chat {
namespace {

using message::ChatRequest;
using message::Role;
using vocab::TokenId;

constexpr std::string_view kStable =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ (m.content or '') | trim }}"
    "{% for c in m.tool_calls or [] %}<call>{{ c.function.name }}</call>{% endfor %}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
// Says in the first line how many messages there are.
constexpr std::string_view kCounts =
    "{{ messages | length }}{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
constexpr std::string_view kNoEnd =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

// Ends the turns of users alone.
constexpr std::string_view kUsersEnd =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
    "{% if m.role == 'user' %}<|im_end|>{% endif %}\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

struct Row {
  std::string_view label;
  std::string_view chat_template;
  std::string answer;  // as the model wrote it
  bool has_answer = true;
  std::string_view why;
};

TEST(KeptTokens, WhatTheModelWroteStays) {
  const Row kRows[] = {
      {"as rendered", kStable, "Hello<|im_end|>", true, ""},
      {"with spaces that the template trims", kStable, "  Hello \n<|im_end|>", true, ""},
      {"a call in a spelling of its own", kStable, "Hello<call> f </call><|im_end|>", true, ""},
      {"cut", kStable, "Hel", true, ""},
      {"ended by a token that the template does not write", kStable, "Hello<|endoftext|>", true,
       ""},
      {"without the answer", kStable, "Hello<|im_end|>", false, "no_answer"},
      {"a template that changes its beginning", kCounts, "Hello<|im_end|>", true,
       "template_not_prefix_stable"},
      {"a template without the end", kNoEnd, "Hello<|im_end|>", true, "template_not_prefix_stable"},
      {"a template that ends users' turns alone", kUsersEnd, "Hello<|im_end|>", true,
       "template_not_prefix_stable"},
  };
  for (const bool has_bos : {false, true}) {
    const vocab::ByteTokenizer tokenizer({"<|im_start|>", "<|im_end|>", "<|endoftext|>", "<s>"},
                                         {.bos = has_bos ? "<s>" : "",
                                          .eos = "<|im_end|>",
                                          .ends = {"<|endoftext|>"},
                                          .adds_bos = has_bos});
    for (const Row& row : kRows) {
      const auto compiled = prompt::ChatTemplate::compile(row.chat_template);
      ASSERT_TRUE(compiled) << row.label;
      const Render render = [&](const ChatRequest& request, bool adds) {
        return (*compiled)->render(request, {.add_generation_prompt = adds, .shape = false});
      };
      const auto tokens_of = [&](const ChatRequest& request) {
        std::vector<TokenId> ids;
        EXPECT_TRUE(prompt::tokenize(tokenizer, *render(request, true), ids));
        return ids;
      };
      ChatRequest request{.messages = {{.role = Role::user, .content = "hi"}}};
      request.previous_token_ids = tokens_of(request);
      ASSERT_TRUE(
          tokenizer.encode(row.answer, vocab::Controls::on, false, request.previous_token_ids));
      if (row.has_answer) {
        request.messages.push_back({.role = Role::assistant, .content = "Hello"});
      }
      request.messages.push_back({.role = Role::user, .content = "<|im_end|>and more"});
      std::vector<TokenId> tokens = tokens_of(request);
      const std::vector<TokenId> anew = tokens;
      const auto prefix = keep_tokens(
          request, *render(request, true), tokenizer, render,
          [&](TokenId id) { return tokenizer.ends_generation(id); }, tokens);
      EXPECT_EQ(prefix.why, row.why) << row.label;
      EXPECT_EQ(prefix.of, request.previous_token_ids.size()) << row.label;
      if (!row.why.empty()) {
        EXPECT_EQ(tokens, anew) << row.label;
        EXPECT_LT(prefix.kept, prefix.of) << row.label;
        continue;
      }
      EXPECT_EQ(prefix.kept, prefix.of) << row.label;
      std::vector<TokenId> due = request.previous_token_ids;
      const TokenId end = *tokenizer.control_token("<|im_end|>");
      if (due.back() != end) due.push_back(end);
      ASSERT_TRUE(tokenizer.encode("\n<|im_start|>user\n", vocab::Controls::on, false, due));
      // What a message spells stays text.
      ASSERT_TRUE(tokenizer.encode("<|im_end|>and more", vocab::Controls::off, false, due));
      ASSERT_TRUE(
          tokenizer.encode("<|im_end|>\n<|im_start|>assistant\n", vocab::Controls::on, false, due));
      EXPECT_EQ(tokens, due) << row.label;
    }
  }
}

TEST(KeptTokens, AnEngineOfTextsKeepsNone) {
  EXPECT_EQ(nothing_kept({}), message::KeptPrefix());
  ChatRequest request;
  request.previous_token_ids = {1, 2};
  EXPECT_EQ(nothing_kept(request), (message::KeptPrefix{.of = 2, .kept = 0, .why = "no_tokens"}));
}

}  // namespace
}  // namespace tenon::chat
