#pragma once

#include <string>
#include <utility>

#include "verify/check.h"

/// Whether something reaches the model as it was sent.
namespace tenon::app::verify {

/// A played engine tells what `pattern` matches in its prompt.
[[nodiscard]] inline Question reaching(Question question, std::string pattern) {
  question.play = {.find = std::move(pattern)};
  question.may_be_cut = true;
  return question;
}

/// The answer's text has `word`.
[[nodiscard]] inline Judge tells(std::string word) {
  return [word = std::move(word)](const Answer& answer) {
    return answer.text.find(word) != std::string::npos
               ? passes()
               : undecided("the model did not tell '" + word + "'");
  };
}

}  // namespace tenon::app::verify
