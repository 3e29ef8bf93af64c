#include "tenon/engine/upstream/remote_tokenizer.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/engine/upstream/byte_server.h"

namespace tenon::engine {
namespace {

using json::Value;
using vocab::Controls;
using vocab::TokenId;

/// A tokenizer of bytes, which counts its questions.
struct Setting {
  explicit Setting(RemoteTokenizer::Options options = {.bos = "", .eos = "~", .size = 256}) {
    auto created = RemoteTokenizer::create(
        std::move(options), [this](std::string_view path, const Value& body) -> Expected<Value> {
          EXPECT_EQ(path, "/tokenize");
          ++questions;
          if (is_gone) return Unexpected(Error{Errc::unavailable, "gone"});
          return tokenize_bytes(body);
        });
    EXPECT_TRUE(created) << created.error().message;
    tokenizer = *std::move(created);
    questions = 0;
  }

  /// Returns how many questions it asked.
  int encode(const std::string& text, Controls controls = Controls::on) {
    const int before = questions;
    std::vector<TokenId> ids;
    EXPECT_TRUE(tokenizer->encode(text, controls, true, ids));
    EXPECT_EQ(ids.size(), text.size());
    return questions - before;
  }

  int questions = 0;
  bool is_gone = false;
  std::unique_ptr<RemoteTokenizer> tokenizer;
};

TEST(RemoteTokenizer, KnowsTheBytesOfEveryTokenWithoutAsking) {
  const Setting setting;
  ASSERT_EQ(setting.tokenizer->size(), 256u);
  for (TokenId id = 0; id < 256; ++id) {
    EXPECT_EQ(setting.tokenizer->bytes(id), std::string(1, static_cast<char>(id)));
  }
  EXPECT_EQ(setting.tokenizer->bytes(-1), "");
  EXPECT_EQ(setting.tokenizer->bytes(256), "");
  EXPECT_EQ(setting.tokenizer->max_token_bytes(), 1u);
  EXPECT_EQ(setting.tokenizer->eos(), '~');
  EXPECT_FALSE(setting.tokenizer->bos());
  EXPECT_EQ(setting.questions, 0);
}

TEST(RemoteTokenizer, AsksOnceForWhatComesAgain) {
  Setting setting;
  EXPECT_EQ(setting.encode("ab"), 2);  // also as data, to find its control tokens
  EXPECT_EQ(setting.encode("ab"), 0);
  EXPECT_EQ(setting.encode("ba"), 1);                 // its tokens are known
  EXPECT_EQ(setting.encode("ab", Controls::off), 1);  // data is a separate question
  EXPECT_EQ(setting.encode(""), 0);
  const std::string long_text(3000, 'a');  // too long to be kept
  EXPECT_EQ(setting.encode(long_text), 1);
  EXPECT_EQ(setting.encode(long_text), 1);
}

struct Text {
  std::string_view name;
  std::string text;
  Controls controls;
  std::vector<TokenId> controls_among;  // the control tokens of the text
};

const Text kTexts[] = {
    {"Plain", "ab", Controls::on, {}},
    {"Control", "a<|c|>b<|c|>", Controls::on, {kControlId, kControlId}},
    {"Marker", "<sign>a", Controls::on, {kMarkerId}},
    {"Eos", "a~", Controls::on, {'~'}},
    {"Bracketed", "[a]<b>", Controls::on, {}},
    {"DataIsNoControl", "a<|c|>b", Controls::off, {}},
    {"DataIsNoMarker", "<sign>a<sign><sign>", Controls::off, {}},
    {"DataIsNoMarkerWithinOthers", "[a<b<sign>>c]\n<sign\n><>[]<", Controls::off, {}},
};

// Servers differ in whether they accept lists, which give the texts of all tokens.
TEST(RemoteTokenizer, ControlTokensAreMadeOfTemplatesOnly) {
  for (const bool takes_lists : {true, false}) {
    const auto create = [&] {
      return RemoteTokenizer::create(
          {.bos = "", .eos = "~", .size = 258},
          [&](std::string_view path, const Value& body) -> Expected<Value> {
            if (path == "/detokenize") {
              const auto id = *(*body.find("tokens")->if_array())[0].if_number()->to_int64();
              if (id == kControlId) return json::Object{{"content", kControlText}};
              if (id == kMarkerId) return json::Object{{"content", kMarkerText}};
              return json::Object{{"content", std::string(1, static_cast<char>(id))}};
            }
            if (!takes_lists && body.find("content")->if_string() == nullptr) {
              return Unexpected(Error{Errc::invalid, "no lists"});
            }
            return tokenize_bytes(body);
          });
    };
    for (const Text& test : kTexts) {
      SCOPED_TRACE(test.name);
      const auto made = create();  // a new one, which knows no token yet
      ASSERT_TRUE(made) << made.error().message;
      std::vector<TokenId> ids;
      const Status done = (*made)->encode(test.text, test.controls, true, ids);
      ASSERT_TRUE(done) << done.error().message;
      std::string spelled;
      std::vector<TokenId> controls;
      for (const TokenId id : ids) {
        spelled += (*made)->bytes(id);
        if ((*made)->is_control(id)) controls.push_back(id);
      }
      EXPECT_EQ(spelled, test.text);
      EXPECT_EQ(controls, test.controls_among);
    }
    const auto made = create();
    ASSERT_TRUE(made) << made.error().message;
    std::vector<TokenId> ids;  // of a text that is no other token
    const Status refused = (*made)->encode("a~", Controls::off, true, ids);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Errc::invalid);
    std::string many;
    for (int i = 0; i < 100; ++i) many += kMarkerText;
    const Status counted = (*made)->encode(many, Controls::off, true, ids);
    EXPECT_EQ(bool(counted), takes_lists);
    std::string others;
    for (int i = 0; i < 300; ++i) others += "<" + std::to_string(i) + ">";
    EXPECT_EQ(bool((*made)->encode(others, Controls::off, true, ids)), takes_lists);
  }
}

// A server that answers nothing at all may still know lists.
TEST(RemoteTokenizer, IsNotMadeWhereTheFirstQuestionFails) {
  const auto made =
      RemoteTokenizer::create({.size = 256}, [](std::string_view, const Value&) -> Expected<Value> {
        return Unexpected(Error{Errc::unavailable, "slow"});
      });
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error(), (Error{Errc::unavailable, "slow"}));
}

// Some servers drop the connection at a list, and answer the next question.
TEST(RemoteTokenizer, IsMadeWhereOnlyListsFail) {
  const auto made = RemoteTokenizer::create(
      {.size = 256}, [](std::string_view, const Value& body) -> Expected<Value> {
        const std::string* const text = body.find("content")->if_string();
        if (text == nullptr) return Unexpected(Error{Errc::unavailable, "cut off"});
        json::Array tokens;
        for (const char byte : *text) {
          tokens.emplace_back(std::uint64_t{static_cast<unsigned char>(byte)});
        }
        return Value(json::Object{{"tokens", std::move(tokens)}});
      });
  ASSERT_TRUE(made) << made.error().message;
  std::vector<TokenId> ids;
  EXPECT_TRUE((*made)->encode("ab", Controls::off, true, ids));
  EXPECT_EQ(ids, (std::vector<TokenId>{'a', 'b'}));
}

TEST(RemoteTokenizer, KeepsNoMoreThanItMay) {
  Setting setting({.size = 256, .max_known_bytes = 20'000});
  const auto data = Controls::off;
  EXPECT_EQ(setting.encode("first", data), 1);
  EXPECT_EQ(setting.encode(std::string(2000, 'a'), data), 1);  // 10,000 bytes with its ids
  EXPECT_EQ(setting.encode("first", data), 0);
  EXPECT_EQ(setting.encode(std::string(2000, 'b'), data), 1);
  EXPECT_EQ(setting.encode("first", data), 1);
}

TEST(RemoteTokenizer, AServerThatIsGoneIsAnError) {
  Setting setting;
  setting.encode("known");
  setting.is_gone = true;
  std::vector<TokenId> ids;
  const Status done = setting.tokenizer->encode("new", Controls::on, true, ids);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error(), (Error{Errc::unavailable, "gone"}));
  EXPECT_TRUE(ids.empty());
  EXPECT_EQ(setting.encode("known"), 0);
  EXPECT_EQ(setting.tokenizer->bytes('a'), "a");
}

TEST(RemoteTokenizer, AsksForSingleTokensWhereListsAreRefused) {
  int questions = 0;
  const auto made = RemoteTokenizer::create(
      {.bos = "", .eos = "~", .size = 256},
      [&](std::string_view path, const Value& body) -> Expected<Value> {
        ++questions;
        if (path == "/tokenize" && body.find("content")->if_array() != nullptr) {
          return Unexpected(Error{Errc::invalid, "no lists"});
        }
        if (path == "/tokenize") return tokenize_bytes(body);
        EXPECT_EQ(path, "/detokenize");
        const auto id = (*body.find("tokens")->if_array())[0].if_number()->to_int64();
        if (*id == 'x') return Unexpected(Error{Errc::unavailable, "closed"});
        return json::Object{{"content", std::string(1, static_cast<char>(*id))}};
      });
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(questions, 2);  // for the list, and for the end token
  EXPECT_EQ((*made)->size(), 256u);
  EXPECT_EQ((*made)->eos(), '~');
  EXPECT_EQ((*made)->max_token_bytes(), 0u);
  EXPECT_EQ((*made)->bytes('~'), "~");
  EXPECT_EQ(questions, 2);
  EXPECT_EQ((*made)->bytes('a'), "a");
  EXPECT_EQ((*made)->bytes('a'), "a");
  EXPECT_EQ(questions, 3);
  EXPECT_EQ((*made)->bytes('x'), "");
  EXPECT_EQ((*made)->bytes(256), "");
}

struct Odd {
  std::string_view name;
  std::size_t size;
  std::string_view answer;
  std::string_view error_part;
};

constexpr std::size_t kVast = std::size_t{1} << 32;

const std::string kVastPiece =
    R"({"tokens": [{"id": 0, "piece": ")" + std::string(5000, 'x') + R"("}]})";

const Odd kOdd[] = {
    {"NoVocabulary", 0, "{}", "vocabulary's size"},
    {"VastVocabulary", kVast, "{}", "vocabulary's size"},
    {"NoTokens", 2, "{}", "without tokens"},
    {"TooFewTokens", 2, R"({"tokens": [{"id": 0, "piece": "a"}]})", "fewer tokens"},
    {"NoPiece", 1, R"({"tokens": [7]})", "without the text"},
    {"PieceOfNoBytes", 1, R"({"tokens": [{"id": 0, "piece": [256]}]})", "without the text"},
    {"PieceOfVastLength", 1, kVastPiece, "too long"},
    {"PieceOfAnotherKind", 1, R"({"tokens": [{"id": 0, "piece": 1}]})", "without the text"},
};

TEST(RemoteTokenizer, IsNotMadeOfAnswersThatTellNothing) {
  for (const Odd& test : kOdd) {
    SCOPED_TRACE(test.name);
    const auto made = RemoteTokenizer::create(
        {.size = test.size},
        [&](std::string_view, const Value&) { return json::parse(test.answer); });
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code, Errc::unavailable);
    EXPECT_NE(made.error().message.find(test.error_part), std::string::npos)
        << made.error().message;
  }
}

TEST(RemoteTokenizer, RefusesIdsThatDoNotExist) {
  for (const std::string_view id : {"2", "-1", "\"a\"", "0.5"}) {
    SCOPED_TRACE(id);
    const auto made =
        RemoteTokenizer::create({.size = 2}, [&](std::string_view, const Value& body) {
          if (body.find("with_pieces") != nullptr) {
            return json::parse(R"({"tokens": [{"id": 0, "piece": "a"}, {"id": 1, "piece": "b"}]})");
          }
          return json::parse("{\"tokens\": [" + std::string(id) + "]}");
        });
    ASSERT_TRUE(made);
    std::vector<TokenId> ids;
    const Status done = (*made)->encode("a", Controls::on, true, ids);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, Errc::unavailable);
  }
}

}  // namespace
}  // namespace tenon::engine
