#include <array>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "verify/check.h"
#include "verify/questions.h"

// An answer whose client has gone away is not computed to its end. Whether a server goes on is seen
// by the figure of running requests in its /metrics.
namespace tenon::app::verify {
namespace {

using std::chrono::milliseconds;

// Beginnings of lines, up to the value; several lines add up.
constexpr std::array<std::string_view, 6> kRunning = {
    "tenon_engine_runs",       "vllm:num_requests_running",
    "sglang:num_running_reqs", "llamacpp:requests_processing",
    "tgi_batch_current_size",  "trtllm_num_requests_running"};

// No value: the server has no such figure.
std::optional<double> running_requests(Session& session) {
  const Answer answer = session.get("/metrics");
  if (answer.status != 200) return std::nullopt;
  std::optional<double> sum;
  std::string_view rest = answer.body;
  while (!rest.empty()) {
    const std::string line(rest.substr(0, rest.find('\n')));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    for (const std::string_view name : kRunning) {
      if (!line.starts_with(name)) continue;
      sum = sum.value_or(0) + std::strtod(line.c_str() + line.rfind(' ') + 1, nullptr);
    }
  }
  return sum;
}

Question endless_question(bool is_streamed) {
  Question question = asking("Count from one to one thousand in words, one number a line.");
  for (int i = 0; i < 300; ++i) question.play.text += "number " + std::to_string(i) + "\n";
  question.play.pace_ms = 12;  // about five seconds
  question.max_tokens = 4000;
  question.may_be_cut = true;
  question.is_streamed = is_streamed;
  return question;
}

// The number of running requests, once it is 0 or the time is over; no value: no such figure.
std::optional<double> running_after(Session& session, milliseconds most_wait) {
  const auto end = std::chrono::steady_clock::now() + most_wait;
  std::optional<double> running = running_requests(session);
  while (running && *running > 0 && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(milliseconds(50));
    running = running_requests(session);
  }
  return running;
}

// Some servers set their figure only when they compute the next token of some request.
double running_after_a_token(Session& session) {
  Question question = text_question();
  question.max_tokens = 1;
  question.may_be_cut = true;
  const Answer answer = session.ask_anew(question);
  // One that had to wait tells nothing: what it waited for has ended.
  if (answer.status != 200 || answer.time > milliseconds(1000)) return 1;
  return running_after(session, milliseconds(500)).value_or(0);
}

Judgement check_leaving(Session& session, bool is_streamed) {
  const auto before = running_after(session, milliseconds(8000));
  if (!before) return undecided("the server's /metrics has no figure of running requests");
  if (*before > 0) return undecided("the server has requests of others, which count, too");
  const Question question = endless_question(is_streamed);
  const Left left =
      session.ask_and_leave(question, is_streamed ? milliseconds(10'000) : milliseconds(400));
  if (left.is_over || left.has_come != is_streamed || (is_streamed && left.status != 200)) {
    return undecided("no answer was under way when the client went away (status " +
                     std::to_string(left.status) + ")");
  }
  const double running = running_after(session, milliseconds(2000)).value_or(0);
  if (running > 0 && running_after_a_token(session) > 0) {
    return fails("two seconds after its client has gone, " +
                 std::to_string(static_cast<int>(running)) + " request is still running");
  }
  const Left whole = session.ask_and_leave(question, milliseconds(3000), /*at_first_byte=*/false);
  return whole.is_over ? undecided("the whole answer takes less than three seconds") : passes();
}

Judgement check_answer_after(Session& session) {
  for (int i = 0; i < 6; ++i) {
    session.ask_and_leave(endless_question(true), milliseconds(10'000));
  }
  const Question question = text_question();
  return unusable(session.ask_anew(question), question, Refusal::fails).value_or(passes());
}

}  // namespace

void add_cancellation(std::vector<Check>& checks) {
  const std::string group = "cancellation";
  checks.push_back({group, "stream_ends_with_its_client",
                    "Does a stream whose client goes away end?",
                    [](Session& session) { return check_leaving(session, true); }});
  checks.push_back({group, "document_ends_with_its_client",
                    "Does an answer whose client goes away before it comes end?",
                    [](Session& session) { return check_leaving(session, false); }});
  checks.push_back({group, "others_are_answered", "Are others answered after clients have gone?",
                    check_answer_after});
}

}  // namespace tenon::app::verify
