#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "verify/check.h"
#include "verify/questions.h"

// Streams: their events, and that they say the same as a document.
namespace tenon::app::verify {
namespace {

struct StreamRule {
  const char* name;
  const char* about;
  Question (*question)();
  bool needs_call;
};

constexpr std::array kStreamRules = {
    StreamRule{"content_type_is_event_stream", "Is the content type text/event-stream?",
               text_question, false},
    StreamRule{"events_are_json", "Is each event JSON, and the last one whole?", text_question,
               false},
    StreamRule{"chunk_shape", "Has each event the members that the dialect wants?", text_question,
               false},
    StreamRule{"chunk_id_stays", "Have all chunks the same id?", text_question, false},
    StreamRule{"begins_with_role",
               "Does it begin as it must (role; response.created; message_start)?", text_question,
               false},
    StreamRule{"ends_with_done",
               "Does it end as it must ([DONE]; response.completed; message_stop)?", text_question,
               false},
    StreamRule{"finish_comes_once", "Does the reason for the end come once, after everything?",
               call_question, false},
    StreamRule{"finish_says_calls", "Does a stream with a call end as one (not with `stop`)?",
               call_question, true},
    StreamRule{"finish_is_known", "Is the reason for the end told?", text_question, false},
    StreamRule{"index_counts_up", "Do the indexes of calls or blocks count up from 0?",
               two_calls_question, true},
    StreamRule{"call_begins_with_name", "Has the first part of a call its id and name?",
               call_question, true},
    StreamRule{"call_id_stays", "Does a call keep its id to the end?", long_call_question, true},
    StreamRule{"call_has_id", "Has each call an id?", call_question, true},
    StreamRule{"call_ids_differ", "Have two calls different ids?", two_calls_question, true},
    StreamRule{"arguments_are_text", "Is each piece of arguments a text?", call_question, true},
    StreamRule{"arguments_fold_to_json",
               "Do the pieces of arguments make one JSON object, none repeated or taken back?",
               long_call_question, true},
    StreamRule{"usage_adds_up", "Is the total of the usage the sum of its parts?", text_question,
               false},
};

Judgement has_usage_in_stream(const Answer& answer) {
  return answer.usage && answer.usage->completion > 0
             ? passes()
             : fails("no event has the usage, though the request asks for it");
}

Judgement comes_in_pieces(const Answer& answer) {
  if (answer.calls.empty()) return undecided("the model made no call");
  if (answer.argument_pieces > 1) return passes();
  return answer.calls.front().arguments.size() < 60
             ? undecided("the arguments were too short to be cut")
             : unsupported("all arguments came in one piece");
}

// What two answers must have in common; ids differ.
std::string told(const Answer& answer) {
  std::string all = answer.text;
  for (const GivenCall& call : answer.calls) {
    const auto arguments = json::parse(call.arguments);
    all += "\n" + call.name + " " + (arguments ? json::to_string(*arguments) : call.arguments);
  }
  return all;
}

std::string difference(const std::string& whole, const std::string& folded) {
  const auto at = std::ranges::mismatch(whole, folded).in1 - whole.begin();
  const auto from = static_cast<std::size_t>(at);
  return "from byte " + std::to_string(at) + " on the document has '" + whole.substr(from, 60) +
         "', the stream '" + (from < folded.size() ? folded.substr(from, 60) : "") + "'";
}

// A model that is asked twice may say two things even at temperature 0, because sums of floating
// point numbers depend on what else the server computes. So the difference counts only if both ways
// stay the same when they are asked again.
Judgement folds_alike(Session& session, const Question& question, bool needs_call) {
  const Answer& whole = session.ask(question);
  if (auto judgement = unusable(whole, question, Refusal::unsupported)) return *judgement;
  const Answer& stream = session.ask(streamed(question));
  if (auto judgement = unusable(stream, question, Refusal::unsupported)) return *judgement;
  if (needs_call && whole.calls.empty()) {
    return session.is_played() ? fails("the call of a played model did not come")
                               : undecided("the model made no call");
  }
  if (told(whole) == told(stream)) return passes();
  const bool is_steady =
      session.is_played() || (told(session.ask_anew(question)) == told(whole) &&
                              told(session.ask_anew(streamed(question))) == told(stream));
  return is_steady ? fails(difference(told(whole), told(stream)))
                   : undecided("the model says something else each time");
}

Runner folding(Question (*question)(), bool needs_call) {
  return [question, needs_call](Session& session) {
    Question asked = question();
    asked.may_be_cut = !session.is_played();
    return folds_alike(session, asked, needs_call);
  };
}

Question unicode_question() {
  Question question = asking(
      "Repeat this line exactly: Grüße, 世界! 👩‍🚀 Ελλάδα नमस्ते "
      "🇵🇹");
  question.play.text = "Grüße, 世界! 👩‍🚀 Ελλάδα नमस्ते 🇵🇹";
  return question;
}

Judgement has_whole_characters(const Answer& answer) {
  if (const Flaw* flaw = answer.flaw("unicode_whole")) return fails(flaw->what);
  if (answer.text.find("\uFFFD") != std::string::npos) {
    return fails("a character was replaced by U+FFFD: " + answer.text);
  }
  const bool has_any = std::ranges::any_of(answer.text, [](char c) { return (c & 0x80) != 0; });
  return has_any ? passes() : undecided("the model wrote no character beyond ASCII");
}

Question cut_call_question() {
  Question question = long_call_question();
  question.is_streamed = true;
  question.max_tokens = 20;
  question.may_be_cut = true;
  // As a played engine's tokens are bytes, this much of the call's text has its name.
  question.play.calls.front().name = "write_file";
  return question;
}

Judgement tells_the_cut(const Answer& answer) {
  if (answer.finish == Finish::length) return passes();
  const bool is_whole = answer.flaw("arguments_fold_to_json") == nullptr;
  if (!answer.calls.empty() && !is_whole) {
    return fails("the call was cut, and the answer ends with '" + answer.finish_word + "'");
  }
  return undecided("the answer was not cut");
}

Judgement check_cut_call(Session& session) {
  Question question = cut_call_question();
  if (session.is_played()) question.max_tokens = 120;
  return judged(session, question, tells_the_cut, Refusal::unsupported);
}

}  // namespace

void add_streaming(std::vector<Check>& checks) {
  const std::string group = "streaming";
  for (const StreamRule& row : kStreamRules) {
    Check check{group, row.name, row.about,
                asked(streamed(row.question()), keeps_rule(row.name, row.needs_call),
                      row.needs_call ? Refusal::unsupported : Refusal::fails)};
    const std::string_view name = row.name;
    if (name == "chunk_id_stays") check.dialects = {Dialect::chat};
    checks.push_back(std::move(check));
  }
  checks.push_back({group,
                    "sequence_counts_up",
                    "Do the sequence numbers count up from 0?",
                    asked(streamed(call_question()), keeps_rule("sequence_counts_up", false)),
                    {Dialect::responses}});
  checks.push_back({group, "usage_is_there", "Does a stream tell the tokens that it took?",
                    asked(streamed(text_question()), has_usage_in_stream)});
  checks.push_back({group, "arguments_come_in_pieces", "Are long arguments sent as they are made?",
                    asked(streamed(long_call_question()), comes_in_pieces)});
  checks.push_back({group, "unicode_whole", "Are characters of several bytes never cut in two?",
                    asked(streamed(unicode_question()), has_whole_characters, Refusal::fails)});
  checks.push_back({group, "text_folds_to_whole", "Is the text of a stream that of the document?",
                    folding(text_question, false)});
  checks.push_back({group, "calls_fold_to_whole",
                    "Are the calls of a stream those of the document?",
                    folding(long_call_question, true)});
  checks.push_back({group, "two_calls_fold_to_whole", "Are two calls of a stream kept apart?",
                    folding(two_calls_question, true)});
  checks.push_back({group, "cut_call_is_told", "Is it told that a call was cut?", check_cut_call});
}

}  // namespace tenon::app::verify
