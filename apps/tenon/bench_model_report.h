#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench_model_engine.h"
#include "bench_model_score.h"

#include "tenon/json/value.h"

/// What `tenon bench model` prints.
namespace tenon::app::bench {

/// A wrong answer.
struct Miss {
  std::string id;
  std::string category;
  std::string question;  ///< The last message of the user.
  std::string wanted;
  std::string given;
};

/// The answers of one way to ask.
struct Round {
  std::string name;                                       ///< "constrained" or "unconstrained".
  std::vector<std::pair<std::string, Tally>> categories;  ///< In the order of their first rows.
  std::vector<Miss> misses;                               ///< As many as were asked for.
  std::string first_refusal;                              ///< "<id>: <why>"; "": none.
  Speed speed;
  std::chrono::nanoseconds time{0};  ///< From request to answer, summed over all.

  [[nodiscard]] Tally& category(const std::string& name);
  [[nodiscard]] Tally total() const;
};

struct SetSummary {
  std::string file;
  std::size_t requests = 0;
  std::size_t left_out = 0;
};

struct Report {
  std::string model;
  std::string engine;
  std::string format;          ///< "": none.
  std::string constrained_by;  ///< engine::constrained_by_name()
  std::string choice;          ///< For all requests: "auto", "required" or "named".
  std::vector<SetSummary> sets;
  std::size_t max_tokens = 0;
  std::size_t asked = 0;     ///< Requests that every round has answered.
  std::size_t of = 0;        ///< Requests that were to be asked.
  std::string stopped_by{};  ///< Why not all were asked; "": they were.
  std::vector<Round> rounds;
};

/// What a right answer to `row` is, or what an answer was, on one line.
[[nodiscard]] std::string described(const Wanted& wanted);
[[nodiscard]] std::string described(const Given& given);

/// The figures as a person reads them, wrong answers included.
[[nodiscard]] std::string table(const Report& report);
/// The same for programs; docs/bench-model.md names the members.
[[nodiscard]] json::Object to_json(const Report& report);

/// "[####      ]  12/100  right 75.0 %  0:31 left", as wide as a line of `width` characters at
/// most.
[[nodiscard]] std::string progress_bar(std::size_t done, std::size_t of, const Figure& right,
                                       std::chrono::nanoseconds since, std::size_t width);
/// "12/100  right 75.0 %  0:31 left": the same without a bar.
[[nodiscard]] std::string progress_line(std::size_t done, std::size_t of, const Figure& right,
                                        std::chrono::nanoseconds since);

}  // namespace tenon::app::bench
