#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tenon/format/schema_list.h"
#include "tenon/grammar/machine/grammar.h"
#include "tenon/message/event.h"
#include "tenon/prompt/prompt.h"
#include "tenon/vocab/tokenizer.h"

/// What an answer starts from, and what constrains it.
namespace tenon::chat {

/// What constrains an answer, in one of two forms or not at all.
struct Constraint {
  std::shared_ptr<grammar::Grammar> grammar;
  std::shared_ptr<const std::string> printed;  ///< In the language of an upstream.
  /// The schemas of the tools that may be called, in order, if answers with the same constraint
  /// share them; else empty.
  format::SchemaList schemas{};
  /// Tools whose schema the grammar does not fully enforce; "" stands for the response format.
  std::vector<std::string> unenforced;
  /// What the reader of the answer should know about it.
  std::vector<message::Diagnostic> diagnostics;
};

/// What the model is assumed to have written already: (bytes, whether it is a control token).
using Opening = std::vector<std::pair<std::string, bool>>;

/// What an answer starts from.
struct Prepared {
  prompt::Prompt prompt;
  Opening opening;                     ///< Begins the call that the request demands; else empty.
  std::vector<vocab::TokenId> tokens;  ///< Prompt and opening.
  Constraint constraint;
  message::KeptPrefix prefix{};  ///< What is kept of ChatRequest::previous_token_ids.
};

}  // namespace tenon::chat
