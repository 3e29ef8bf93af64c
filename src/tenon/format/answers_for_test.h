#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/format/definition.h"
#include "tenon/format/tool_grammar.h"
#include "tenon/grammar/machine/matcher.h"
#include "tenon/vocab/byte_tokenizer.h"
#include "tenon/vocab/vocab.h"

/// What the tests of tool grammars share.
namespace tenon::format {

/// All bytes, an end token and, if they are to be tokens, the format's markers and the markers that
/// end its turns.
inline std::shared_ptr<const vocab::Tokenizer> tokenizer_of(const Format& format,
                                                            bool has_controls) {
  std::vector<std::string> controls{"<|the end|>"};
  if (has_controls) {
    controls.insert(controls.end(), format.special.begin(), format.special.end());
    for (const std::string& stop : format.stop) {
      if (std::ranges::find(controls, stop) == controls.end()) controls.push_back(stop);
    }
  }
  return std::make_shared<vocab::ByteTokenizer>(std::move(controls),
                                                vocab::ByteTokenizer::Roles{.eos = "<|the end|>"});
}

inline std::vector<vocab::TokenId> ends_of(const Format& format,
                                           const vocab::Tokenizer& tokenizer) {
  std::vector<vocab::TokenId> ends;
  for (const std::string& stop : format.stop) {
    if (const auto id = tokenizer.control_token(stop)) ends.push_back(*id);
  }
  return ends;
}

/// The answers that a tool grammar allows.
class Answers {
 public:
  Answers(const Format& format, const message::ToolChoice& choice, bool has_controls, bool parallel,
          const std::vector<message::Tool>& tools, std::string prompt_tail = {},
          bool others_first = false, std::optional<std::uint32_t> max_reasoning_tokens = {})
      : tokenizer_(tokenizer_of(format, has_controls)) {
    const auto rules = tool_grammar(format, tools, choice,
                                    {.parallel = parallel,
                                     .tokenizer = tokenizer_.get(),
                                     .prompt_tail = std::move(prompt_tail),
                                     .max_reasoning_tokens = max_reasoning_tokens,
                                     .required_in_any_form = true,
                                     .others_first = others_first});
    if (!rules) throw std::runtime_error(format.info.name + ": " + rules.error().message);
    auto index = std::make_shared<grammar::VocabIndex>(
        *vocab::Vocab::of(*tokenizer_, ends_of(format, *tokenizer_)));
    auto machine = std::make_unique<grammar::Machine>();
    const auto root = grammar::add_rules(*machine, *rules, index->vocab());
    if (!root) throw std::runtime_error(format.info.name + ": " + root.error().message);
    grammar_ = *grammar::Grammar::make(std::move(machine), *root, std::move(index));
  }

  [[nodiscard]] bool hold(std::string_view text) const {
    std::vector<vocab::TokenId> ids;
    EXPECT_TRUE(tokenizer_->encode(text, vocab::Controls::on, true, ids));
    grammar::Matcher matcher(grammar_);
    for (const vocab::TokenId id : ids) {
      if (!matcher.accept(id)) return false;
    }
    return matcher.is_accepting();
  }

  [[nodiscard]] grammar::Matcher matcher() const { return grammar::Matcher(grammar_); }
  /// Ids below 256 are the bytes.
  [[nodiscard]] const vocab::Tokenizer& tokenizer() const { return *tokenizer_; }

 private:
  std::shared_ptr<const vocab::Tokenizer> tokenizer_;
  std::shared_ptr<grammar::Grammar> grammar_;
};

}  // namespace tenon::format
