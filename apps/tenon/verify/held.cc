#include "verify/held.h"

#include <optional>
#include <string>
#include <utility>

#include "tenon/schema/schema.h"

namespace tenon::app::verify {
namespace {

struct Written {
  bool is_there = false;
  std::string text;
};

Written written_in(const Answer& answer, Held held) {
  if (held == Held::arguments) {
    if (answer.calls.empty()) return {};
    return {true, answer.calls.front().arguments};
  }
  if (held == Held::text_or_call && !answer.calls.empty()) return {};
  return {!answer.text.empty(), answer.text};
}

// No value: `text` fits.
std::optional<Judgement> misfit(const std::string& text, const json::Value& schema) {
  const auto value = json::parse(text);
  if (!value) return fails("it is no JSON: " + text.substr(0, 200));
  const auto compiled = schema::Schema::compile(schema, {.assert_format = true});
  if (!compiled) return undecided("Tenon cannot judge it: " + compiled.error().message);
  const auto violations = (*compiled)->validate(*value);
  if (!violations) return undecided("Tenon cannot judge it: " + violations.error().message);
  if (violations->empty()) return std::nullopt;
  return fails(violations->front().instance_path + " " + violations->front().message + ": " +
               text.substr(0, 200));
}

Judgement judge_held(const Answer& answer, const HeldCase& held) {
  if (held.held == Held::text_or_call && !answer.calls.empty()) return passes("a call came");
  const Written written = written_in(answer, held.held);
  if (!written.is_there) {
    return undecided(held.held == Held::arguments ? "the model made no call"
                                                  : "the answer has no text");
  }
  const auto found = misfit(written.text, held.schema);
  if (!found) return passes();
  if (found->verdict != Verdict::fail) return *found;
  if (answer.is_told_unenforced()) return unsupported("the answer says that it is not enforced");
  if (held.is_remark)
    return unsupported("the keyword is only a remark to the server: " + found->why);
  return *found;
}

// What the played model wrote must come through as it is.
Judgement judge_right(const Answer& answer, const HeldCase& held) {
  Judgement judgement = judge_held(answer, held);
  if (judgement.verdict != Verdict::pass) return judgement;
  const Written written = written_in(answer, held.held);
  const std::string& played =
      held.held == Held::arguments ? held.right.play.calls.front().arguments : held.right.play.text;
  if (!written.is_there || json::parse(written.text) == json::parse(played)) return judgement;
  return fails("the model wrote " + played + ", what came is " + written.text);
}

// Silence is the fault: an error in place of the answer tells enough.
Judgement judge_wrong(Session& session, const HeldCase& held) {
  const Answer answer = session.ask(held.wrong);
  if (answer.status == 200 && !answer.error.empty()) return passes("told by an error");
  if (auto judgement = unusable(answer, held.wrong, Refusal::passes)) return *judgement;
  if (written_in(answer, held.held).is_there || !answer.calls.empty()) {
    Judgement judgement = judge_held(answer, held);
    const bool is_told = judgement.verdict == Verdict::unsupported && !held.is_remark;
    if (is_told) return passes(judgement.why);
    return judgement;
  }
  return passes("what did not fit was kept back");
}

}  // namespace

Judgement check_held(Session& session, const HeldCase& held) {
  if (!session.is_played()) {
    return judged(
        session, held.wrong, [&](const Answer& answer) { return judge_held(answer, held); },
        Refusal::unsupported);
  }
  Judgement right = judged(
      session, held.right, [&](const Answer& answer) { return judge_right(answer, held); },
      Refusal::unsupported);
  if (right.verdict != Verdict::pass) return right;
  return judge_wrong(session, held);
}

}  // namespace tenon::app::verify
