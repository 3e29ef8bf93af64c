#include <set>
#include <string>
#include <utility>

#include "verify/check.h"
#include "verify/questions.h"

// The same request has the same answer where that is promised.
namespace tenon::app::verify {
namespace {

std::string told_by(const Answer& answer) {
  std::string all = answer.reasoning + answer.text;
  for (const GivenCall& call : answer.calls) all += "\n" + call.name + call.arguments;
  return all;
}

Question exact(Question question) {
  question.may_be_cut = true;
  return question;
}

Question drawn_question(std::int64_t seed) {
  Question question = asking("Write twelve random words.");
  question.play.is_drawn = true;
  question.temperature = 1;
  question.seed = seed;
  question.max_tokens = 60;
  question.may_be_cut = true;
  return question;
}

// Two of the answers must be the same. Not all: the first one may have been computed in other
// batches than those whose prompt was in a cache, and floating point numbers add up otherwise then.
Judgement repeats(Session& session, const Question& question, Judgement otherwise) {
  std::set<std::string> before;
  for (int i = 0; i < 4; ++i) {
    const Answer answer = session.ask_anew(question);
    if (auto judgement = unusable(answer, question, Refusal::unsupported)) return *judgement;
    const std::string now = told_by(answer);
    if (now.empty()) return undecided("the answer is empty");
    if (!before.insert(now).second) return passes();
  }
  return otherwise;
}

Runner repeating_at_zero(Question (*question)()) {
  return [question](Session& session) {
    const std::string why = "four answers at temperature 0 were four different ones";
    return repeats(session, exact(question()), session.is_played() ? fails(why) : undecided(why));
  };
}

// Answers that differ may all the same obey the seed: a token that floating point numbers change
// leads to another text. One token of many seeds is changed seldom, so it shows which it is: drawn
// twice with the same seed it is mostly the same, and drawn by chance it is mostly another one.
Judgement judge_first_tokens(Session& session) {
  constexpr std::int64_t kSeeds = 9;
  int alike = 0;
  for (std::int64_t seed = 1; seed <= kSeeds; ++seed) {
    Question question = drawn_question(seed);
    question.max_tokens = 1;
    const std::string once = told_by(session.ask_anew(question));
    if (once == told_by(session.ask_anew(question))) ++alike;
  }
  const std::string found = "four answers with one seed differ; with " + std::to_string(alike) +
                            " of " + std::to_string(kSeeds) + " seeds the first token is the same";
  return alike <= kSeeds / 3 ? fails(found) : undecided(found);
}

Judgement check_seed(Session& session) {
  const std::string why = "four answers with one seed all differ";
  Judgement judgement = repeats(session, drawn_question(417), undecided(why));
  if (judgement.verdict != Verdict::undecided) return judgement;
  return session.is_played() ? fails(why) : judge_first_tokens(session);
}

Judgement check_other_seed(Session& session) {
  const Question first = drawn_question(1);
  const Answer one = session.ask(first);
  if (auto judgement = unusable(one, first, Refusal::unsupported)) return *judgement;
  if (told_by(one).empty()) return undecided("the answer is empty");
  for (std::int64_t seed = 2; seed < 5; ++seed) {
    if (told_by(session.ask(drawn_question(seed))) != told_by(one)) return passes();
  }
  const std::string why = "four seeds gave the same answer at temperature 1";
  return session.is_played() ? fails(why) : undecided(why);
}

}  // namespace

void add_determinism(std::vector<Check>& checks) {
  const std::string group = "determinism";
  checks.push_back({group, "text_repeats", "Is a text at temperature 0 the same again?",
                    repeating_at_zero(text_question)});
  checks.push_back({group, "call_repeats", "Is a call at temperature 0 the same again?",
                    repeating_at_zero(call_question)});
  checks.push_back({group,
                    "seed_repeats",
                    "Is an answer with the same seed the same again?",
                    check_seed,
                    {Dialect::chat}});
  checks.push_back({group,
                    "other_seed_differs",
                    "Does another seed give another answer?",
                    check_other_seed,
                    {Dialect::chat}});
}

}  // namespace tenon::app::verify
