#include "tenon/record/recorder.h"

#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/base/ids.h"
#include "tenon/base/log.h"
#include "tenon/record/list.h"
#include "tenon/record/reader.h"

namespace tenon::record {
namespace {

namespace fs = std::filesystem;

/// A folder for one test.
class RecordFolder {
 public:
  RecordFolder() : path_(fs::temp_directory_path() / random_id("tenon_record_")) {}
  ~RecordFolder() { fs::remove_all(path_); }
  RecordFolder(const RecordFolder&) = delete;
  RecordFolder& operator=(const RecordFolder&) = delete;
  [[nodiscard]] std::string path() const { return path_.string(); }
  /// The names of the recordings, newest first.
  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> names;
    const auto listed = list_recordings(path(), "", 1000);
    for (const json::Value& one : listed->recordings) {
      names.push_back(*one.find("name")->if_string());
    }
    return names;
  }
  [[nodiscard]] std::string text() const { return *read_recorded(path(), names().at(0), 0); }

 private:
  const fs::path path_;
};

std::shared_ptr<Recorder> recorder_in(const RecordFolder& folder, RecorderOptions options = {}) {
  options.folder = folder.path();
  options.tenon_version = "1.2";
  auto recorder = Recorder::open(std::move(options));
  EXPECT_TRUE(recorder) << (recorder ? "" : recorder.error().message);
  return *recorder;
}

const Heading kHeading{
    .id = "req_1", .model = "tiny", .path = "/v1/x", .is_stream = true, .request = R"({"a": [1]})"};

message::RunBegin run_for_test() {
  return {.made_by = std::make_shared<const json::Object>(json::Object{{"model", "tiny"}}),
          .text = "<u>hi",
          .spans = {{.begin = 0, .end = 3}, {.begin = 3, .end = 5, .is_data = true}},
          .tokens = {7, 8},
          .lengths = {3, 2},
          .changes = {"ids written anew"}};
}

// An answer in which everything happens once.
void record_all(Recorder& recorder) {
  const auto recording = recorder.begin(kHeading);
  recording->run(0, run_for_test());
  recording->upstream(0, message::UpstreamHead{.status = 200,
                                               .type = "text/plain",
                                               .coding = "gzip",
                                               .retry_after_s = 3,
                                               .asked_bytes = 40});
  recording->upstream(0, "data: \xc3");
  const Error broken{Errc::unavailable, "reset"};
  recording->upstream(0, message::UpstreamEnd{&broken});
  const message::TokenLogprob logprob{
      .bytes = "{", .logprob = -0.5, .top = {{"{", -0.5}, {"x", -1.5}}};
  const bool legal[] = {true, false};
  recording->made(0,
                  {.id = 9, .bytes = "{", .legal = 12, .logprob = &logprob, .top_is_legal = legal});
  recording->made(0, {.id = 10, .bytes = "\xc3"});
  const message::TokenLogprob of_end{.bytes = "<end>", .logprob = -1.0, .top = {{"\xc3", -1.0}}};
  recording->made(0, {.id = 11, .bytes = "<end>", .is_control = true});
  recording->made(0, {.id = 12, .bytes = "", .is_control = true, .logprob = &of_end});
  recording->piece(0, {.is_reasoning = true, .text = "so"});
  recording->piece(0, {.index = 1, .name = "f", .arguments = "{}"});
  recording->event(0, message::CallBegin{.index = 0, .id = "call_1", .name = "f"});
  recording->event(0, message::Diagnostic{.code = "repaired", .message = "m", .path = "p"});
  recording->sent("data: x\n\n");
  const message::Attempt attempts[] = {{"http://a", std::chrono::milliseconds(5), "gone"},
                                       {"http://b", std::chrono::milliseconds(7), ""}};
  recording->run_end(0, {.reason = message::FinishReason::stop,
                         .usage = {.prompt_tokens = 2, .completion_tokens = 3},
                         .is_constrained = true,
                         .unconstrained_because = {},
                         .error = {},
                         .attempts = attempts,
                         .closed_loops = 1});
  const message::Tool tool{.name = "near_f", .description = "d", .parameters = json::Object()};
  recording->own_tools(
      0, {.tools = {{.tool = &tool, .server = "near", .name = "f", .needs_approval = true}},
          .are_shown = true,
          .max_rounds = 10,
          .max_calls = 256});
  recording->tool_run(0,
                      {.id = "call_2", .name = "near_f", .arguments = "{}", .decision = "asked"});
  recording->tool_run(0, {.id = "call_2",
                          .name = "near_f",
                          .arguments = "{}",
                          .decision = "approved",
                          .has_run = true,
                          .output = "Error: no",
                          .is_error = true,
                          .took = std::chrono::milliseconds(3)});
  recording->event(0, message::Finish{.reason = message::FinishReason::tool_calls,
                                      .guarantee = message::Guarantee::masked,
                                      .format = "hermes"});
  recording->end(200);
}

// `text` without its times, which are different each time.
std::string without_times(std::string text) {
  for (const std::string_view name : {"\"at\":", "\"began\":"}) {
    for (std::size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + 1)) {
      const std::size_t begin = at + name.size();
      text.replace(begin, text.find_first_not_of("0123456789", begin) - begin, "0");
    }
  }
  return text;
}

TEST(Recorder, WritesEachThingInALine) {
  const RecordFolder folder;
  record_all(*recorder_in(folder));
  EXPECT_EQ(
      without_times(folder.text()),
      R"({"recording":1,"tenon":"1.2","id":"req_1","began":0,"model":"tiny","path":"/v1/x","stream":true,"request":{"a":[1]}}
{"made_by":{"model":"tiny"}}
{"run":0,"at":0,"choice":0,"made_by":0,"text":"<u>hi","spans":[[0,3,"template"],[3,5,"data"]],"ids":[7,8],"lengths":[3,2],"changes":["ids written anew"]}
{"upstream":"head","at":0,"run":0,"status":200,"type":"text/plain","coding":"gzip","retry_after_s":3,"asked_bytes":40}
{"upstream":"body","at":0,"run":0,"hex":"646174613a20c3"}
{"upstream":"end","at":0,"run":0,"code":"unavailable","error":"reset"}
{"token":9,"at":0,"run":0,"text":"{","legal":12,"logprob":-0.5,"top":[["{",-0.5,true],["x",-1.5,false]]}
{"token":10,"at":0,"run":0,"hex":"c3"}
{"token":11,"at":0,"run":0,"text":"<end>","control":true}
{"token":12,"at":0,"run":0,"text":"","control":true,"logprob":-1.0,"logprob_text":"<end>","top":[["�",-1.0,null,"c3"]]}
{"piece":"reasoning","at":0,"run":0,"text":"so"}
{"piece":"call","at":0,"run":0,"index":1,"name":"f","arguments":"{}"}
{"event":"call_begin","at":0,"choice":0,"index":0,"call_id":"call_1","name":"f"}
{"event":"diagnostic","at":0,"choice":0,"code":"repaired","message":"m","path":"p"}
{"sent":"data: x\n\n","at":0}
{"run_end":"stop","at":0,"run":0,"prompt_tokens":2,"completion_tokens":3,"cached_tokens":0,"reasoning_tokens":0,"is_constrained":true,"closed_loops":1,"attempts":[{"server":"http://a","ms":5,"error":"gone"},{"server":"http://b","ms":7}]}
{"tools":[{"name":"near_f","server":"near","server_name":"f","description":"d","parameters":{},"needs_approval":true}],"at":0,"choice":0,"are_shown":true,"are_remembered":false,"max_rounds":10,"max_calls":256}
{"tool":"near_f","at":0,"choice":0,"decision":"asked","call_id":"call_2","arguments":"{}"}
{"tool":"near_f","at":0,"choice":0,"decision":"approved","call_id":"call_2","arguments":"{}","ms":3,"bytes":9,"is_error":true,"output":"Error: no"}
{"finish":"tool_calls","at":0,"choice":0,"usage":{"prompt_tokens":0,"completion_tokens":0,"cached_tokens":0,"reasoning_tokens":0},"guarantee":"masked","format":"hermes"}
{"end":200,"at":0,"tokens":4,"calls":3,"tools":["f","near_f","near_f"],"repairs":1,"guarantee":"masked"}
)");
}

TEST(Recorder, WithoutContentsNothingOfAClientOrAModelIsWritten) {
  const RecordFolder folder;
  log::set_contents(false);
  record_all(*recorder_in(folder));
  log::set_contents(true);
  EXPECT_EQ(
      without_times(folder.text()),
      R"({"recording":1,"tenon":"1.2","id":"req_1","began":0,"model":"tiny","path":"/v1/x","stream":true}
{"made_by":{"model":"tiny"}}
{"run":0,"at":0,"choice":0,"made_by":0,"spans":[[0,3,"template"],[3,5,"data"]],"tokens":2}
{"upstream":"head","at":0,"run":0,"status":200,"type":"text/plain","coding":"gzip","retry_after_s":3,"asked_bytes":40}
{"upstream":"body","at":0,"run":0,"bytes":7}
{"upstream":"end","at":0,"run":0,"code":"unavailable"}
{"token":-1,"at":0,"run":0,"bytes":1,"legal":12}
{"token":-1,"at":0,"run":0,"bytes":1}
{"token":-1,"at":0,"run":0,"bytes":5,"control":true}
{"token":-1,"at":0,"run":0,"bytes":0,"control":true}
{"piece":"reasoning","at":0,"run":0,"text_bytes":2}
{"piece":"call","at":0,"run":0,"index":1,"name_bytes":1,"arguments_bytes":2}
{"event":"call_begin","at":0,"choice":0,"index":0,"call_id":"call_1","name_bytes":1}
{"event":"diagnostic","at":0,"choice":0,"code":"repaired"}
{"sent":"","bytes":9,"at":0}
{"run_end":"stop","at":0,"run":0,"prompt_tokens":2,"completion_tokens":3,"cached_tokens":0,"reasoning_tokens":0,"is_constrained":true,"closed_loops":1,"attempts":[{"server":"http://a","ms":5,"error":"not recorded"},{"server":"http://b","ms":7}]}
{"tools":[],"at":0,"choice":0,"count":1,"are_shown":true,"are_remembered":false,"max_rounds":10,"max_calls":256}
{"tool":"","at":0,"choice":0,"decision":"asked"}
{"tool":"","at":0,"choice":0,"decision":"approved","ms":3,"bytes":9,"is_error":true}
{"finish":"tool_calls","at":0,"choice":0,"usage":{"prompt_tokens":0,"completion_tokens":0,"cached_tokens":0,"reasoning_tokens":0},"guarantee":"masked","format":"hermes"}
{"end":200,"at":0,"tokens":4,"calls":3,"repairs":1,"guarantee":"masked"}
)");
  const auto read = read_recording(folder.text());
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_NE(read->why_not_played, "");
  EXPECT_EQ(read->events.size(), 5U);
}

TEST(Recorder, TheReaderReadsWhatItWrites) {
  const RecordFolder folder;
  record_all(*recorder_in(folder));
  const auto read = read_recording(folder.text());
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->status, 200);
  EXPECT_EQ(read->sent, "data: x\n\n");
  EXPECT_FALSE(read->is_cut);
  ASSERT_EQ(read->runs.size(), 1U);
  const std::vector<Step>& steps = read->runs[0].steps;
  ASSERT_EQ(steps.size(), 6U);
  ASSERT_TRUE(steps[0].logprob);
  EXPECT_EQ(steps[0].logprob->logprob.bytes, "{");
  EXPECT_EQ(steps[0].logprob->logprob.logprob, -0.5);
  const std::vector<std::pair<std::string, double>> top = {{"{", -0.5}, {"x", -1.5}};
  EXPECT_EQ(steps[0].logprob->logprob.top, top);
  EXPECT_EQ(steps[0].legal, 12U);
  ASSERT_EQ(steps[0].logprob->legal_tops, 2U);
  EXPECT_TRUE(steps[0].logprob->top_is_legal[0]);
  EXPECT_FALSE(steps[0].logprob->top_is_legal[1]);
  EXPECT_FALSE(steps[1].legal);
  EXPECT_EQ(steps[3].logprob->legal_tops, 0U);
  EXPECT_FALSE(steps[1].logprob);
  EXPECT_EQ(steps[1].bytes, "\xc3");
  EXPECT_TRUE(steps[2].is_control);
  ASSERT_TRUE(steps[3].logprob);
  EXPECT_EQ(steps[3].logprob->logprob.bytes, "<end>");
  EXPECT_EQ(steps[3].logprob->logprob.top.front().first, "\xc3");
  EXPECT_EQ(steps[4].kind, Step::Kind::reasoning);
  EXPECT_EQ(steps[5].arguments, "{}");
  ASSERT_TRUE(read->runs[0].upstream);
  const engine::KeptAnswer& upstream = *read->runs[0].upstream;
  EXPECT_EQ(upstream.url, "http://b");
  EXPECT_EQ(upstream.status, 200U);
  EXPECT_EQ(upstream.type + " " + upstream.coding, "text/plain gzip");
  EXPECT_EQ(upstream.retry_after_s, 3U);
  EXPECT_EQ(upstream.asked_bytes, 40U);
  EXPECT_EQ(upstream.body, std::vector<std::string>{"data: \xc3"});
  EXPECT_EQ(upstream.broken, (Error{Errc::unavailable, "reset"}));
  EXPECT_EQ(read->events.size(), 5U);
  ASSERT_EQ(read->tool_runs.size(), 1U);
  EXPECT_EQ(read->tool_runs[0].output, "Error: no");
  EXPECT_TRUE(read->tool_runs[0].is_error);
  EXPECT_NE(read->own_tools.find("tools"), nullptr);
}

TEST(Recorder, AReplaySaysOfWhat) {
  const RecordFolder folder;
  record_all(*recorder_in(folder, {.replay_of = {{"id", "req_0"}, {"tokens", 12}}}));
  EXPECT_NE(folder.text().find(
                R"("stream":true,"replay_of":{"id":"req_0","tokens":12},"request":{"a":[1]}})"),
            std::string::npos)
      << folder.text().substr(0, 300);
  const auto listed = list_recordings(folder.path(), "", 1);
  EXPECT_NE(listed->recordings.at(0).find("replay_of"), nullptr);
}

TEST(Recorder, RunsInsideOfAChoiceAreToldApart) {
  const RecordFolder folder;
  {
    const auto recorder = recorder_in(folder);
    const auto recording = recorder->begin(kHeading);
    const unsigned first = recording->inside(1, "question");
    const unsigned second = recording->inside(1, "question");
    recording->run(first, run_for_test());
    recording->run(second, run_for_test());
    recording->made(second, {.id = 2, .bytes = "b"});
    recording->made(first, {.id = 1, .bytes = "a"});
    recording->end(200);
    recording->made(first, {.id = 3, .bytes = "past the end"});
  }
  const std::string text = folder.text();
  for (const std::string_view line :
       {R"("run":0,"at":0,"choice":1,"part":"question")",
        R"("run":1,"at":0,"choice":1,"part":"question")", R"("token":2,"at":0,"run":1)",
        R"("token":1,"at":0,"run":0)"}) {
    EXPECT_NE(without_times(text).find(line), std::string::npos) << line << " in " << text;
  }
  EXPECT_EQ(text.find("past the end"), std::string::npos);
  const auto read = read_recording(text);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_NE(read->why_not_played, "");
}

TEST(Recorder, ALineThatIsNotWholeIsLeftOut) {
  const RecordFolder folder;
  record_all(*recorder_in(folder));
  const std::string text = folder.text();
  for (std::size_t size = 1; size < text.size(); ++size) {
    const auto read = read_recording(std::string_view(text).substr(0, size));
    if (!read) {
      EXPECT_LE(size, text.find('\n')) << read.error().message;
    } else {
      EXPECT_EQ(read->is_cut, text[size - 1] != '\n') << size;
    }
  }
}

TEST(Recorder, RefusesWhatIsNoRecording) {
  const struct {
    std::string_view text;
    std::string_view message;
  } rows[] = {
      {"", "line 1: the recording is empty, or its first line is not whole"},
      {"x\n", "line 1: this is not JSON (column 1: "},
      {"[]\n", "line 1: must be an object"},
      {"{}\n", "line 1: this is no recording: it does not begin with \"recording\""},
      {"{\"recording\":2}\n", "line 1: the recording has version 2, and this is 1: "},
      {"{\"recording\":1,\"request\":{}}\n{\"token\":1,\"run\":0,\"text\":\"\"}\n",
       "line 2: there is no such run before this line"},
      {"{\"recording\":1,\"request\":{}}\n{\"run\":0,\"made_by\":0}\n",
       "line 2: what made this run is not known"},
      {"{\"recording\":1,\"model\":7,\"request\":{}}\n",
       "line 1: \"model\" must be a text: the file was damaged or edited"},
  };
  for (const auto& row : rows) {
    const auto read = read_recording(row.text);
    ASSERT_FALSE(read) << row.text;
    EXPECT_TRUE(read.error().message.starts_with(row.message)) << read.error().message;
  }
}

TEST(Recorder, RunsHaveABound) {
  std::string text = "{\"recording\":1,\"request\":{}}\n{\"made_by\":{}}\n";
  for (int i = 0; i < 10'000; ++i) text += "{\"run\":0,\"made_by\":0}\n";
  EXPECT_TRUE(read_recording(text));
  const auto read = read_recording(text + "{\"run\":0,\"made_by\":0}\n");
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().message, "line 10003: there are more than 10000 runs");
}

// A damaged member is not read as if it were missing: the answer would be another one.
TEST(Recorder, RefusesMembersOfAnotherType) {
  const struct {
    std::string_view line;
    std::string_view message;
  } rows[] = {
      {R"({"token":1,"run":0,"text":7})", "\"text\" must be a text"},
      {R"({"token":1,"run":0})", "a token must have \"text\" or \"hex\""},
      {R"({"token":1,"run":0,"hex":"4"})", "\"hex\" must be pairs of hexadecimal digits"},
      {R"({"token":1,"run":0,"hex":"4x"})", "\"hex\" must be pairs of hexadecimal digits"},
      {R"({"token":"1","run":0,"text":"a"})", "\"token\" must be a token's id"},
      {R"({"token":1.5,"run":0,"text":"a"})", "\"token\" must be a token's id"},
      {R"({"token":1,"run":"0","text":"a"})", "\"run\" must be a whole number"},
      {R"({"token":1,"run":-1,"text":"a"})", "\"run\" must be a whole number"},
      {R"({"token":1,"run":0,"text":"a","count":4294967296})", "\"count\" must be a whole number"},
      {R"({"token":1,"run":0,"text":"a","control":1})", "\"control\" must be true or false"},
      {R"({"token":1,"run":0,"text":"a","logprob":"-1"})", "\"logprob\" must be a number"},
      {R"({"token":1,"run":0,"text":"a","logprob":-1,"top":[["a"]]})",
       "\"top\" must be a list of [text, logprob, legal, hex]"},
      {R"({"piece":"call","run":0,"arguments":{}})", "\"arguments\" must be a text"},
      {R"({"run_end":"stop","run":0,"attempts":{}})", "\"attempts\" must be a list of objects"},
      {R"({"run":1,"made_by":0,"ids":[1,"2"]})", "\"ids\" must be a list of token ids"},
      {R"({"event":"content","choice":0,"text":null})", "\"text\" must be a text"},
      {R"({"sent":["a"]})", "\"sent\" must be a text"},
      {R"({"end":"200"})", "\"end\" must be a whole number"},
  };
  for (const auto& row : rows) {
    const auto read = read_recording(
        "{\"recording\":1,\"request\":{}}\n{\"made_by\":{}}\n{\"run\":0,\"made_by\":0}\n" +
        std::string(row.line) + "\n");
    ASSERT_FALSE(read) << row.line;
    EXPECT_EQ(read.error().code, Errc::invalid);
    EXPECT_TRUE(read.error().message.starts_with("line 4: " + std::string(row.message)))
        << read.error().message;
  }
}

TEST(Recorder, AFileHasABound) {
  const RecordFolder folder;
  {
    const auto recorder = recorder_in(folder, {.max_file_bytes = 2000});
    const auto recording = recorder->begin(kHeading);
    for (int i = 0; i < 1000; ++i) recording->sent("data: something\n\n");
    recording->end(200);
  }
  const std::string text = folder.text();
  EXPECT_LT(text.size(), 2200U);
  EXPECT_NE(text.find("{\"cut\":"), std::string::npos);
  EXPECT_TRUE(read_recording(text)->is_cut);
}

TEST(Recorder, TheOldestFilesMakeRoom) {
  const RecordFolder folder;
  const auto record = [&](Recorder& recorder, const std::string& id) {
    Heading heading = kHeading;
    heading.id = id;
    const auto recording = recorder.begin(heading);
    recording->sent(std::string(1000, 'x'));
    recording->end(200);
  };
  for (int i = 0; i < 5; ++i) {  // each recorder finds the files of those before
    record(*recorder_in(folder, {.max_bytes = 3500}), "a" + std::to_string(i));
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // names have milliseconds
  }
  const std::vector<std::string> names = folder.names();
  ASSERT_EQ(names.size(), 2U);
  EXPECT_TRUE(names[0].ends_with("-a4.jsonl")) << names[0];
  EXPECT_TRUE(names[1].ends_with("-a3.jsonl")) << names[1];
}

TEST(Recorder, OtherFilesStay) {
  const RecordFolder folder;
  const std::string others[] = {"data.jsonl",
                                "2026-01-01/notes.jsonl",
                                "2026-01-01/101500-042-req_1.txt",
                                "2026-01-01/more/101500-042-req_1.jsonl",
                                "datasets-1/101500-042-req_1.jsonl",
                                "2026-01-01/101500-042-a.b.jsonl"};
  for (const std::string& other : others) {
    fs::create_directories(fs::path(folder.path() + "/" + other).parent_path());
    std::ofstream(folder.path() + "/" + other) << std::string(5000, 'x');
  }
  std::ofstream(folder.path() + "/2026-01-01/101500-042-req_1.jsonl") << std::string(5000, 'x');
  {
    const auto recorder = recorder_in(folder, {.max_bytes = 1000});
  }
  EXPECT_FALSE(fs::exists(folder.path() + "/2026-01-01/101500-042-req_1.jsonl"));
  for (const std::string& other : others) {
    EXPECT_TRUE(fs::exists(folder.path() + "/" + other)) << other;
  }
}

// A file that another server is writing stays, and the next one goes instead.
TEST(Recorder, WhatAnotherProcessWritesStays) {
  const RecordFolder folder;
  const auto other = recorder_in(folder);
  const auto open = other->begin(kHeading);
  open->sent(std::string(5000, 'x'));
  std::this_thread::sleep_for(std::chrono::milliseconds(400));  // it is written
  const std::vector<std::string> names = folder.names();
  ASSERT_EQ(names.size(), 1U);
  const std::string ended = folder.path() + "/9999-01-01/101500-042-req_2.jsonl";
  fs::create_directories(fs::path(ended).parent_path());
  std::ofstream(ended) << std::string(5000, 'x');
  {
    const auto recorder = recorder_in(folder, {.max_bytes = 1000});
  }
  EXPECT_EQ(folder.names(), names);
  EXPECT_FALSE(fs::exists(ended));
}

TEST(Recorder, AFileThatCannotBeReadHoldsUpNoOther) {
  const RecordFolder folder;
  const std::string day = folder.path() + "/2026-01-01/";
  fs::create_directories(day);
  for (const std::string id : {"1", "2", "3"}) {
    fs::create_symlink(day + "101500-042-" + id + ".jsonl", day + "101500-042-" + id + ".jsonl");
    std::ofstream(day + "101500-043-" + id + ".jsonl") << std::string(5000, 'x');
  }
  {
    const auto recorder = recorder_in(folder, {.max_bytes = 1000});
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(day), fs::directory_iterator()), 3);
}

TEST(Recorder, AFolderThatWasThereKeepsItsPermissions) {
  const RecordFolder folder;
  fs::create_directories(folder.path());
  const auto shared = fs::perms::owner_all | fs::perms::group_all;
  fs::permissions(folder.path(), shared);
  record_all(*recorder_in(folder));
  EXPECT_EQ(fs::status(folder.path()).permissions(), shared);
  const std::string day = fs::path(folder.names().at(0)).parent_path().string();
  EXPECT_EQ(fs::status(folder.path() + "/" + day).permissions(), fs::perms::owner_all);
}

TEST(Recorder, AFolderThatIsRemovedBeforeItHasAFileIsMadeAgain) {
  for (int i = 0; i < 20; ++i) {
    const RecordFolder folder;
    {
      const auto recorder = recorder_in(folder);
      const auto recording = recorder->begin(kHeading);
      std::error_code ignored;
      for (const auto& day : fs::directory_iterator(folder.path())) fs::remove(day, ignored);
      recording->end(200);
    }
    EXPECT_EQ(folder.names().size(), 1U);
  }
}

TEST(Recorder, IsItsOwnersOnly) {
  const RecordFolder folder;
  record_all(*recorder_in(folder));
  for (const fs::directory_entry& each : fs::recursive_directory_iterator(folder.path())) {
    const auto others = fs::perms::group_all | fs::perms::others_all;
    EXPECT_EQ(each.status().permissions() & others, fs::perms::none) << each.path();
  }
}

TEST(Recorder, ReadsNoOtherFile) {
  const RecordFolder folder;
  record_all(*recorder_in(folder));
  const std::string name = folder.names().at(0);
  const std::string day = name.substr(0, 10);
  std::ofstream(folder.path() + "/" + day + "/secret.txt") << "s";
  fs::create_symlink(folder.path() + "/" + day + "/secret.txt",
                     folder.path() + "/" + day + "/link.jsonl");
  EXPECT_TRUE(read_recorded(folder.path(), name, 0));
  for (const std::string& other :
       {day + "/secret.txt", day + "/link.jsonl", std::string("../x/y.jsonl"), day + "/../" + name,
        std::string("x"), std::string()}) {
    EXPECT_FALSE(read_recorded(folder.path(), other, 0)) << other;
  }
  EXPECT_EQ(folder.names(), std::vector<std::string>{name});
}

TEST(Recorder, ListsInPagesAndSaysWhatIsUnderWay) {
  const RecordFolder folder;
  const auto recorder = recorder_in(folder);
  const auto open = recorder->begin(kHeading);
  std::this_thread::sleep_for(std::chrono::milliseconds(400));  // it is written
  const auto all = list_recordings(folder.path(), "", 10);
  ASSERT_TRUE(all);
  ASSERT_EQ(all->recordings.size(), 1U);
  EXPECT_EQ(*all->recordings[0].find("live"), json::Value(true));
  EXPECT_EQ(all->recordings[0].find("request"), nullptr);
  EXPECT_EQ(list_recordings(folder.path(), folder.names()[0], 10)->recordings.size(), 0U);
  EXPECT_FALSE(list_recordings(folder.path() + "/none", "", 10));
  EXPECT_EQ(list_recordings(folder.path(), "nope", 10).error().code, Errc::invalid);
  EXPECT_TRUE(list_recordings(folder.path(), "2020-01-01/101500-042-gone.jsonl", 10));
}

// What is left of a server that was killed is not under way, and neither is a full file.
TEST(Recorder, ListsWhatWasNeverFinished) {
  const struct {
    std::string_view text;
    std::string_view has;
  } rows[] = {
      {"{\"recording\":1,\"request\":{}}\n{\"sent\":\"a\",\"at\":0}\n{\"sen", ""},
      {"{\"recording\":1,\"request\":{}}\n", ""},
      {"{\"recording\":1,\"request\":{}}\n{\"cut\":\"it was full\"}\n", "cut"},
      {"{\"recording\":1,\"request\":{}}\n{\"end\":200,\"at\":7}\n", "status"},
  };
  for (const auto& row : rows) {
    const RecordFolder folder;
    fs::create_directories(folder.path() + "/2026-01-01");
    std::ofstream(folder.path() + "/2026-01-01/101500-042-a.jsonl") << row.text;
    const auto listed = list_recordings(folder.path(), "", 10);
    ASSERT_TRUE(listed && listed->recordings.size() == 1) << row.text;
    const json::Value& one = listed->recordings[0];
    EXPECT_EQ(*one.find("live"), json::Value(false)) << row.text;
    for (const std::string_view member : {"cut", "status"}) {
      EXPECT_EQ(one.find(member) != nullptr, member == row.has) << row.text;
    }
  }
}

// An answer may end while the list looks at its file: it is under way, or it has a status.
TEST(Recorder, ListsNoAnswerThatHasJustEndedAsUnfinished) {
  const RecordFolder folder;
  const auto recorder = recorder_in(folder);
  std::atomic<bool> is_over = false;
  std::thread answers([&] {
    for (int i = 0; i < 200; ++i) {
      recorder->begin(kHeading)->end(200);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    is_over = true;
  });
  std::size_t unfinished = 0;
  while (!is_over) {
    const auto listed = list_recordings(folder.path(), "", 5);
    for (const json::Value& one : listed->recordings) {
      if (*one.find("live") == json::Value(false) && one.find("status") == nullptr) ++unfinished;
    }
  }
  answers.join();
  EXPECT_EQ(unfinished, 0U);
}

TEST(Recorder, TheLastLineIsFoundHoweverManyToolsWereCalled) {
  const RecordFolder folder;
  {
    const auto recorder = recorder_in(folder);
    const auto recording = recorder->begin(kHeading);
    for (unsigned i = 0; i < 100; ++i) {
      recording->event(0, message::CallBegin{.index = i, .name = std::string(200, '\x01')});
    }
    recording->end(200);
  }
  const auto listed = list_recordings(folder.path(), "", 10);
  ASSERT_TRUE(listed && listed->recordings.size() == 1);
  const json::Value& one = listed->recordings[0];
  EXPECT_EQ(*one.find("live"), json::Value(false));
  EXPECT_EQ(*one.find("calls"), json::Value(100));
  EXPECT_EQ(one.find("tools")->if_array()->size(), 20U);
}

TEST(Recorder, TheEndSaysWhyAnAnswerFailed) {
  const std::string broken(1000, '\x80');
  std::string most;  // 400 bytes are the limit
  for (int i = 0; i < 133; ++i) most += "\ufffd";
  const struct {
    std::string_view of_event;
    std::string_view of_end;
    std::string_view error;
  } rows[] = {
      {"", broken, most},
      {"", "the prompt is too long", "the prompt is too long"},
      {"the engine is gone", "the upstream failed", "the engine is gone"},
      {"the engine is gone", "", "the engine is gone"},
  };
  for (const auto& row : rows) {
    const RecordFolder folder;
    {
      const auto recorder = recorder_in(folder);
      const auto recording = recorder->begin(kHeading);
      if (!row.of_event.empty()) {
        recording->event(0,
                         message::Finish{.reason = message::FinishReason::error,
                                         .error = {Errc::unavailable, std::string(row.of_event)}});
      }
      recording->end(502, row.of_end);
    }
    const auto listed = list_recordings(folder.path(), "", 10);
    EXPECT_EQ(*listed->recordings.at(0).find("error"), json::Value(row.error));
  }
}

}  // namespace
}  // namespace tenon::record
