#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "verify/check.h"
#include "verify/questions.h"

// Streams: their events, and that they say the same as a document.
namespace tenon::app::verify {
namespace {

const std::vector<Dialect> kChatAlone = {Dialect::chat};
const std::vector<Dialect> kEndSaysCalls = {Dialect::chat, Dialect::messages};

struct StreamRule {
  const char* name;
  const char* about;
  std::string_view rule;
  Question (*question)();
  bool needs_call = false;
  std::vector<Dialect> dialects{};  // as in Check
};

const std::vector<StreamRule> kStreamRules = {
    {"content_type_is_event_stream", "Is the content type text/event-stream?",
     "content_type_is_event_stream", text_question},
    {"events_are_json", "Is each event JSON, and the last one whole?", "events_are_json",
     text_question},
    {"chunk_shape", "Has each event the members that the dialect wants?", "chunk_shape",
     text_question},
    {"chunk_shape_of_calls", "Has each event of a call the members that the dialect wants?",
     "chunk_shape", two_calls_question, true},
    {"chunk_id_stays", "Have all chunks the same id?", "chunk_id_stays", text_question, false,
     kChatAlone},
    {"begins_with_role", "Does it begin as it must (role; response.created; message_start)?",
     "begins_with_role", text_question},
    {"begins_with_role_before_calls", "Does a stream of a call begin so, too?", "begins_with_role",
     call_question, true},
    {"ends_with_done", "Does it end as it must ([DONE]; response.completed; message_stop)?",
     "ends_with_done", text_question},
    {"ends_with_done_after_calls", "Does a stream of a call end so, too?", "ends_with_done",
     call_question, true},
    {"finish_comes_once", "Does the reason for the end come once, after everything?",
     "finish_comes_once", call_question},
    {"finish_says_calls", "Does a stream with a call end as one (not with `stop`)?",
     "finish_says_calls", call_question, true, kEndSaysCalls},
    {"finish_is_known", "Is the reason for the end told?", "finish_is_known", text_question},
    {"index_counts_up", "Do the indexes of calls or blocks count up from 0?", "index_counts_up",
     two_calls_question, true},
    {"call_begins_with_name", "Has the first part of a call its id and name?",
     "call_begins_with_name", call_question, true},
    {"call_name_comes_once", "Do a call's id and name come in its first part alone?",
     "call_name_comes_once", long_call_question, true, kChatAlone},
    {"call_id_stays", "Does a call keep its id to the end?", "call_id_stays", long_call_question,
     true},
    {"call_has_id", "Has each call an id?", "call_has_id", call_question, true},
    {"call_ids_differ", "Have two calls different ids?", "call_ids_differ", two_calls_question,
     true},
    {"arguments_are_text", "Is each piece of arguments a text?", "arguments_are_text",
     call_question, true},
    {"arguments_fold_to_json",
     "Do the pieces of arguments make one JSON object, none repeated or taken back?",
     "arguments_fold_to_json", long_call_question, true},
    {"usage_adds_up", "Is the total of the usage the sum of its parts?", "usage_adds_up",
     text_question},
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
  const Answer whole = session.ask(question);
  if (auto judgement = unusable(whole, question, Refusal::unsupported)) return *judgement;
  const Answer stream = session.ask(streamed(question));
  if (auto judgement = unusable(stream, question, Refusal::unsupported)) return *judgement;
  if (needs_call && whole.calls.empty()) {
    return session.is_played() ? fails("the call of a played model did not come")
                               : undecided("the model made no call");
  }
  for (const std::string_view rule : {"text_folds_to_whole", "calls_fold_to_whole"}) {
    if (const Flaw* flaw = stream.flaw(rule)) return fails(flaw->what);
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

bool has_replaced(const Answer& answer) {
  return answer.text.find("\uFFFD") != std::string::npos;
}

// A model can write U+FFFD itself, but then it does so in the document, too.
Judgement check_characters(Session& session) {
  const Question question = unicode_question();
  const Answer whole = session.ask(question);
  const bool is_streams = whole.is_ok() && !has_replaced(whole);
  const auto judge = [&](const Answer& answer) {
    if (const Flaw* flaw = answer.flaw("unicode_whole")) return fails(flaw->what);
    if (has_replaced(answer)) {
      const std::string why = "a character was replaced by U+FFFD: " + answer.text;
      return is_streams ? fails(why) : undecided(why);
    }
    const bool has_any = std::ranges::any_of(answer.text, [](char c) { return (c & 0x80) != 0; });
    return has_any ? passes() : undecided("the model wrote no character beyond ASCII");
  };
  return judged(session, streamed(question), judge, Refusal::fails);
}

Question cut_call_question() {
  Question question = long_call_question();
  question.is_streamed = true;
  question.max_tokens = 20;
  question.may_be_cut = true;
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
  if (session.is_played()) question.max_tokens = 120;  // its tokens are bytes
  return judged(session, question, tells_the_cut, Refusal::unsupported);
}

}  // namespace

void add_streaming(std::vector<Check>& checks) {
  const std::string group = "streaming";
  for (const StreamRule& row : kStreamRules) {
    Check check{group, row.name, row.about,
                asked(streamed(row.question()), keeps_rule(row.rule, row.needs_call),
                      row.needs_call ? Refusal::unsupported : Refusal::fails),
                row.dialects};
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
                    check_characters});
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
