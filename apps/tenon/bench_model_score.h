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

/// Whether an answer is right, and what the answers to a set come to.
///
///     Tally total;
///     const Given given = given_of(fold);
///     total.add(row, given, judge(row, given));
///     print(total.exact.count, total.exact.of);
namespace tenon::app::bench {

/// An answer, as far as it is judged.
struct Given {
  std::string text;
  std::vector<message::ToolCall> calls;
  bool has_broken_call = false;  ///< It began a call that came to nothing: its bytes are text.
  bool is_json = true;           ///< What it made of calls was JSON as it came.
  bool is_whole = true;          ///< None of its calls broke off.
  bool is_cut = false;           ///< By max_tokens or the context.
  /// The request was refused, or the engine could not do it: there is no answer. "": there is.
  std::string refusal{};
};

/// What a client is given, and of how it came what the diagnostics tell.
[[nodiscard]] Given given_of(const message::Fold& fold);

struct Verdict {
  bool calls = false;      ///< It made a call, or began one.
  bool has_call = false;   ///< It made calls, and all of them are whole.
  bool is_json = false;    ///< Of such an answer: no call had broken JSON.
  bool is_valid = false;   ///< Of such an answer: each call has a tool, and arguments that fit it.
  bool has_tools = false;  ///< Just the tools that are wanted, each as often as it is.
  bool is_exact = false;   ///< And with just the arguments.
  bool is_loose = false;   ///< And with these, but for how texts are written.
  bool abstains = false;   ///< It made no call but those that it may.
  bool mentions = false;   ///< All that it is to mention, if anything.
  bool is_right = false;   ///< What the row wants, in full.
};

/// A number is the same by its value (5 and 5.0), objects are in any order of their members. A
/// call that was begun and came to nothing is a call, and no wanted one.
[[nodiscard]] Verdict judge(const Row& row, const Given& given);

/// Texts are the same loosely, however deep in values, if they are but for case, blanks around
/// them and one full stop at the end.
[[nodiscard]] bool is_same_loosely(const json::Value& a, const json::Value& b);

/// Whether `text` has `what` in it as words of its own, in any case: a letter at its end has no
/// letter behind it there, a digit no digit and no more of a number. So 17 stands in "17km" and "at
/// 17.", not in "2017", "17.5" or "1,017", and Kew not in "Kewpie". Letters that have no case
/// (Chinese, Thai) are words by themselves.
[[nodiscard]] bool stands_in(std::string_view what, std::string_view text);

/// How many of how many.
struct Figure {
  std::size_t count = 0;
  std::size_t of = 0;
  /// What others would come to who know all but which tool is right: sums over what is counted in
  /// `of`.
  double chance = 0;  ///< One who draws it.
  double first = 0;   ///< One who always calls the first of the request's tools,
  double never = 0;   ///< and one who never calls, and says nothing.

  void add(bool is_so, double by_chance = 0, double by_first = 0, double by_silence = 0);
  Figure& operator+=(const Figure& other);
};

/// What the answers to some rows come to.
struct Tally {
  std::size_t requests = 0;
  std::size_t refused = 0;  ///< Without an answer, and wrong.
  std::size_t cut = 0;
  Figure called;    ///< Of the rows that want calls, whichever: it made one.
  Figure json;      ///< Of the answers with a call.
  Figure valid;     ///< Of the same.
  Figure tool;      ///< Of the rows that want calls. `chance` and `first` are of these calls.
  Figure exact;     ///< Of the same.
  Figure loose;     ///< Of the same.
  Figure abstains;  ///< Of the rows that want none. `chance`: of no call among the tools and it.
  Figure right;     ///< Of all rows.

  void add(const Row& row, const Given& given, const Verdict& verdict);
  Tally& operator+=(const Tally& other);
};

/// How likely who draws the wanted calls' tools blindly has them right; 1/n for one call and n
/// tools.
[[nodiscard]] double chance_of_tools(const Row& row);

}  // namespace tenon::app::bench
