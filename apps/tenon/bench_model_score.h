#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bench_model_set.h"

#include "tenon/json/value.h"
#include "tenon/message/event.h"
#include "tenon/message/message.h"

/// Judges answers, and adds up the results for a set.
///
///     Tally total;
///     const Given given = given_of(fold);
///     total.add(row, given, judge(row, given));
///     print(total.exact.count, total.exact.of);
namespace tenon::app::bench {

/// An answer, reduced to what is judged.
struct Given {
  std::string text;
  std::vector<message::ToolCall> calls;
  bool has_broken_call = false;  ///< It began a call that could not be read: its bytes are text.
  bool is_json = true;           ///< The arguments of its calls were JSON as the model wrote them.
  bool is_whole = true;          ///< None of its calls broke off.
  bool is_cut = false;           ///< By max_tokens or the context.
  /// Why there is no answer: the request was refused, or the engine failed. "": there is one.
  std::string refusal{};
};

/// Takes the answer that a client gets, and what its diagnostics say about it.
[[nodiscard]] Given given_of(const message::Fold& fold);

struct Verdict {
  bool calls = false;      ///< It made a call, or began one.
  bool has_call = false;   ///< It made calls, and all of them are whole.
  bool is_json = false;    ///< For such an answer: no call had broken JSON.
  bool is_valid = false;   ///< For such an answer: each call has a tool, and arguments that fit it.
  bool has_tools = false;  ///< Exactly the tools that are wanted, each as often as it is wanted.
  bool is_exact = false;   ///< Also with exactly the arguments.
  bool is_loose = false;   ///< The same, except for how texts are written.
  bool abstains = false;   ///< It made no call, except those that it may make.
  bool mentions = false;   ///< It mentions everything that it should.
  bool is_right = false;   ///< Everything that the row wants.
};

/// Numbers are compared by value (5 and 5.0), objects in any order of members. A call that was
/// begun and could not be read counts as a call that is not wanted.
[[nodiscard]] Verdict judge(const Row& row, const Given& given);

/// Compares texts loosely, at any depth: without regard to case, to blanks around them and to one
/// full stop at the end.
[[nodiscard]] bool is_same_loosely(const json::Value& a, const json::Value& b);

/// Whether `text` contains `what` as separate words, in any case: after a letter at its end comes
/// no letter, and after a digit no digit and no rest of a number. So 17 is in "17km" and in "at
/// 17.", but not in "2017", "17.5" or "1,017", and Kew is not in "Kewpie". Letters without case
/// (Chinese, Thai) are words by themselves.
[[nodiscard]] bool stands_in(std::string_view what, std::string_view text);

/// A count out of a number.
struct Figure {
  std::size_t count = 0;
  std::size_t of = 0;
  /// Baselines for comparison: the sums that these strategies would reach on the same rows.
  double chance = 0;  ///< Draws the tool at random, and knows everything else.
  double first = 0;   ///< Always calls the first of the request's tools, and knows everything else.
  double never = 0;   ///< Never calls, and writes nothing.

  void add(bool is_so, double by_chance = 0, double by_first = 0, double by_silence = 0);
  Figure& operator+=(const Figure& other);
};

/// The sums over the answers to some rows.
struct Tally {
  std::size_t requests = 0;
  std::size_t refused = 0;  ///< Without an answer, and wrong.
  std::size_t cut = 0;
  Figure called;    ///< Rows that want calls: the answer made one, right or wrong.
  Figure json;      ///< Answers with a call.
  Figure valid;     ///< Answers with a call.
  Figure tool;      ///< Rows that want calls. `chance` and `first` are for these calls.
  Figure exact;     ///< Rows that want calls.
  Figure loose;     ///< Rows that want calls.
  Figure abstains;  ///< Rows that want no call. `chance`: draws among the tools and no call.
  Figure right;     ///< All rows.

  void add(const Row& row, const Given& given, const Verdict& verdict);
  Tally& operator+=(const Tally& other);
};

/// The probability of having the wanted tools right when they are drawn at random; 1/n for one call
/// and n tools.
[[nodiscard]] double chance_of_tools(const Row& row);

}  // namespace tenon::app::bench
