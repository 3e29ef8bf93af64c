#include "verify/check.h"

#include <algorithm>
#include <array>
#include <utility>

namespace tenon::app::verify {
namespace {

struct GroupRow {
  std::string_view name;
  void (*add)(std::vector<Check>& checks);
};

constexpr std::array kGroups = {
    GroupRow{"protocol", add_protocol},
    GroupRow{"streaming", add_streaming},
    GroupRow{"choice", add_choice},
    GroupRow{"schemas", add_schemas},
    GroupRow{"history", add_history},
    GroupRow{"text", add_text},
    GroupRow{"limits", add_limits},
    GroupRow{"injection", add_injection},
    GroupRow{"structured", add_structured},
    GroupRow{"determinism", add_determinism},
    GroupRow{"cancellation", add_cancellation},
};

// The first time as exactly as possible, then with some chance.
Question again(Question question) {
  question.temperature = 0.8;
  return question;
}

Answer ask_with_fallback(Session& session, Question question, std::size_t attempt) {
  const auto ask = [&] {
    return attempt == 0 ? session.ask(question) : session.ask_anew(again(question));
  };
  Answer answer = ask();
  if (!question.is_choice_optional || !answer.is_refused()) return answer;
  question.choice = {};
  return ask();
}

}  // namespace

std::string_view verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::pass:
      return "pass";
    case Verdict::fail:
      return "fail";
    case Verdict::unsupported:
      return "not supported";
    case Verdict::undecided:
      return "undecided";
  }
  return "";
}

Judgement passes(std::string why) {
  return {Verdict::pass, std::move(why)};
}
Judgement fails(std::string why) {
  return {Verdict::fail, std::move(why)};
}
Judgement unsupported(std::string why) {
  return {Verdict::unsupported, std::move(why)};
}
Judgement undecided(std::string why) {
  return {Verdict::undecided, std::move(why)};
}

bool Check::is_for(Dialect dialect) const {
  return dialects.empty() || std::ranges::find(dialects, dialect) != dialects.end();
}

std::optional<Judgement> unusable(const Answer& answer, const Question& question, Refusal refusal) {
  if (answer.is_late) return undecided("there is no answer within --timeout");
  if (answer.status == 0) return fails("there is no answer: " + answer.trouble);
  const std::string status = "status " + std::to_string(answer.status);
  if (answer.is_busy()) return undecided("the server is busy (" + status + ")");
  if (answer.is_refused()) {
    if (refusal == Refusal::passes) return passes(status + ": " + answer.error);
    if (refusal == Refusal::fails)
      return fails("it is refused with " + status + ": " + answer.error);
    if (answer.error.empty()) return fails(status + " without a message that says why");
    const std::string why = status + ": " + answer.error;
    return refusal == Refusal::told ? passes(why) : unsupported(why);
  }
  if (answer.status != 200) return fails(status + ": " + answer.error);
  if (!answer.error.empty()) return fails("the answer ends with an error: " + answer.error);
  if (answer.finish == Finish::length && !question.may_be_cut) {
    return undecided("the answer was cut; --max-tokens lets it be longer");
  }
  return std::nullopt;
}

Judgement judged(Session& session, const Question& question, const Judge& judge, Refusal refusal) {
  const std::size_t tries = session.is_played() ? 1 : session.target().tries;
  Judgement last;
  for (std::size_t attempt = 0; attempt < tries; ++attempt) {
    const Answer answer = ask_with_fallback(session, question, attempt);
    auto judgement = unusable(answer, question, refusal);
    last = judgement ? *std::move(judgement) : judge(answer);
    if (last.verdict != Verdict::undecided) return last;
    if (answer.is_busy() || (answer.is_late && !session.is_played())) return last;
  }
  if (session.is_played()) return fails(last.why + ", though the played model did it");
  return undecided(last.why + " (" + std::to_string(tries) + " of " + std::to_string(tries) +
                   " tries)");
}

Runner asked(Question question, Judge judge, Refusal refusal) {
  return [question = std::move(question), judge = std::move(judge), refusal](Session& session) {
    return judged(session, question, judge, refusal);
  };
}

Judge keeps_rule(std::string_view rule, bool needs_call) {
  return [rule, needs_call](const Answer& answer) {
    if (const Flaw* flaw = answer.flaw(rule)) {
      return flaw->may_be_models ? undecided(flaw->what) : fails(flaw->what);
    }
    if (needs_call && answer.calls.empty()) return undecided("the model made no call");
    return passes();
  };
}

Result run_check(const Check& check, Session& session) {
  const auto begin = std::chrono::steady_clock::now();
  session.take_exchanges();
  Result result{&check, {}, {}, {}};
  if (check.needs_play && !session.is_played()) {
    result.judgement = undecided("no model does this reliably; --played decides it");
  } else {
    result.judgement = check.run(session);
  }
  result.exchanges = session.take_exchanges();
  result.time = std::chrono::steady_clock::now() - begin;
  return result;
}

std::vector<Check> all_checks(Dialect dialect) {
  std::vector<Check> checks;
  for (const GroupRow& group : kGroups) group.add(checks);
  std::erase_if(checks, [dialect](const Check& check) { return !check.is_for(dialect); });
  return checks;
}

std::vector<std::string_view> group_names() {
  std::vector<std::string_view> names;
  for (const GroupRow& group : kGroups) names.push_back(group.name);
  return names;
}

}  // namespace tenon::app::verify
