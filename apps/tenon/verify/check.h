#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "verify/answer.h"
#include "verify/question.h"
#include "verify/session.h"

/// What is verified: a list of checks, each a question and how its answer is judged.
///
///     {"choice", "required_makes_a_call", "Does `required` make a call?",
///      asked(needless({Choice::Kind::required}), must_call)}
namespace tenon::app::verify {

enum class Verdict : std::uint8_t {
  pass,
  fail,
  unsupported,  ///< The server says clearly that it does not do it.
  undecided,    ///< The model would not do what the check needs.
};
/// "pass", "fail", "not supported", "undecided".
[[nodiscard]] std::string_view verdict_name(Verdict verdict);

struct Judgement {
  Verdict verdict = Verdict::pass;
  std::string why{};
};
[[nodiscard]] Judgement passes(std::string why = "");
[[nodiscard]] Judgement fails(std::string why);
[[nodiscard]] Judgement unsupported(std::string why);
/// From a judge: the model did not do it. The question is then asked again, as often as
/// Target::tries says. A played model always does it, so there the check fails.
[[nodiscard]] Judgement undecided(std::string why);

using Judge = std::function<Judgement(const Answer& answer)>;
using Runner = std::function<Judgement(Session& session)>;

struct Check {
  std::string group;
  std::string name;
  std::string about;  ///< A question whose answer is yes where the check passes.
  Runner run;
  /// Which dialects have what it is about; empty: all.
  std::vector<Dialect> dialects{};
  bool needs_play = false;  ///< No model does it reliably enough; undecided without --played.

  [[nodiscard]] std::string id() const { return group + "/" + name; }
  [[nodiscard]] bool is_for(Dialect dialect) const;
};

struct Result {
  const Check* check = nullptr;
  Judgement judgement;
  std::vector<Exchange> exchanges;
  std::chrono::nanoseconds time{0};
};

/// What a 4xx means for a check.
enum class Refusal : std::uint8_t {
  fails,        ///< Everything that speaks the dialect must take such a request.
  unsupported,  ///< The server may lack it.
  passes,       ///< That is the right answer, or one of them.
  told,         ///< The same, if a message says why.
};

/// Asks, and again if the model did not do it; judges an answer with status 200.
[[nodiscard]] Judgement judged(Session& session, const Question& question, const Judge& judge,
                               Refusal refusal);
/// A check of one question.
[[nodiscard]] Runner asked(Question question, Judge judge, Refusal refusal = Refusal::unsupported);
/// Passes if the answer does not break the rule. `needs_call`: undecided without a call.
[[nodiscard]] Judge keeps_rule(std::string_view rule, bool needs_call);
/// No value: the answer has status 200 and can be judged.
[[nodiscard]] std::optional<Judgement> unusable(const Answer& answer, const Question& question,
                                                Refusal refusal);

[[nodiscard]] Result run_check(const Check& check, Session& session);

/// Appends the checks of a group; one function in each file checks_*.cc. `errors` is a part of
/// `protocol`.
void add_protocol(std::vector<Check>& checks);
void add_errors(std::vector<Check>& checks);
void add_streaming(std::vector<Check>& checks);
void add_choice(std::vector<Check>& checks);
void add_schemas(std::vector<Check>& checks);
void add_history(std::vector<Check>& checks);
void add_text(std::vector<Check>& checks);
void add_limits(std::vector<Check>& checks);
void add_injection(std::vector<Check>& checks);
void add_structured(std::vector<Check>& checks);
void add_determinism(std::vector<Check>& checks);
void add_cancellation(std::vector<Check>& checks);

/// All checks that there are for a dialect, in the order of their groups.
[[nodiscard]] std::vector<Check> all_checks(Dialect dialect);
/// The names of the groups, in order.
[[nodiscard]] std::vector<std::string_view> group_names();

}  // namespace tenon::app::verify
