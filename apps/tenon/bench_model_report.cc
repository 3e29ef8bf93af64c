#include "bench_model_report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <functional>
#include <iterator>
#include <optional>
#include <utility>

#include "tenon/base/utf8.h"

// How a report is written
//
// The same Report becomes a table for people and JSON for programs. kColumns has the columns of the
// table: a figure and, in brackets behind it, its baselines, which say what chance alone or always
// calling the first tool would get. A figure without rows is "-" and null, not 0 %.

namespace tenon::app::bench {
namespace {

using std::chrono::duration;
using std::chrono::nanoseconds;

template <class... Arguments>
std::string formatted(const char* format, Arguments... arguments) {
  std::array<char, 128> buffer{};
  const int length = std::snprintf(buffer.data(), buffer.size(), format, arguments...);
  return {buffer.data(),
          std::min(static_cast<std::size_t>(std::max(length, 0)), buffer.size() - 1)};
}

double share(double count, std::size_t of) {
  return of == 0 ? 0 : count / static_cast<double>(of);
}

std::string percent(double count, std::size_t of) {
  return of == 0 ? "-" : formatted("%.1f", 100 * share(count, of));
}

std::string several(std::size_t count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

std::string percent(const Figure& figure) {
  return percent(static_cast<double>(figure.count), figure.of);
}

// Tokens per second; no value if no tokens were timed.
std::optional<double> rate(std::uint64_t tokens, nanoseconds time) {
  if (tokens == 0 || time <= nanoseconds(0)) return std::nullopt;
  return static_cast<double>(tokens) / duration<double>(time).count();
}

// ---- the table

struct Column {
  std::string_view title;
  std::string (*cell)(const Tally& tally);
  bool is_baseline = false;  // stands in brackets behind the figure before it
};

const Column kColumns[] = {
    {"n", [](const Tally& t) { return std::to_string(t.requests); }},
    {"call", [](const Tally& t) { return percent(t.called); }},
    {"json", [](const Tally& t) { return percent(t.json); }},
    {"valid", [](const Tally& t) { return percent(t.valid); }},
    {"tool", [](const Tally& t) { return percent(t.tool); }},
    {"chance", [](const Tally& t) { return percent(t.tool.chance, t.tool.of); }, true},
    {"first", [](const Tally& t) { return percent(t.tool.first, t.tool.of); }, true},
    {"exact", [](const Tally& t) { return percent(t.exact); }},
    {"loosely", [](const Tally& t) { return percent(t.loose); }},
    {"no call", [](const Tally& t) { return percent(t.abstains); }},
    {"chance", [](const Tally& t) { return percent(t.abstains.chance, t.abstains.of); }, true},
    {"first", [](const Tally& t) { return percent(t.abstains.first, t.abstains.of); }, true},
    {"right", [](const Tally& t) { return percent(t.right); }},
    {"chance", [](const Tally& t) { return percent(t.right.chance, t.right.of); }, true},
    {"first", [](const Tally& t) { return percent(t.right.first, t.right.of); }, true},
};

std::string padded_left(std::string text, std::size_t width) {
  if (text.size() < width) text.insert(0, width - text.size(), ' ');
  return text;
}

std::string padded_right(std::string text, std::size_t width) {
  if (text.size() < width) text.append(width - text.size(), ' ');
  return text;
}

// One line of the table: the name, then each column's cell, right-aligned. Baselines are in
// brackets after the figure that they belong to: "tool 62.5 ( 25.0   0.0)".
std::string line(std::string name, std::size_t name_width,
                 const std::function<std::string(const Column&)>& cell) {
  std::string out = padded_right(std::move(name), name_width);
  for (const Column* column = std::begin(kColumns); column != std::end(kColumns); ++column) {
    const bool opens = column->is_baseline && !(column - 1)->is_baseline;
    const bool closes =
        column->is_baseline && (column + 1 == std::end(kColumns) || !(column + 1)->is_baseline);
    const std::size_t width =
        column->is_baseline ? 6 : std::max<std::size_t>(column->title.size(), 5);
    out += opens ? " (" : column->is_baseline ? " " : "  ";
    out += padded_left(cell(*column), width);
    if (closes) out += ')';
  }
  return out + '\n';
}

// At most `most` bytes, without a part of a character at the end.
std::string begin_of(std::string text, std::size_t most) {
  text.resize(utf8::valid_prefix(std::string_view(text).substr(0, most)));
  return text;
}

std::string table_of(const Round& round) {
  constexpr std::size_t kWidest = 24;
  // The word is the longer of the two names of a round, so that the tables of both are equally
  // wide.
  std::size_t width = std::string_view("unconstrained").size();
  for (const auto& [name, tally] : round.categories) {
    width = std::max(width, std::min(name.size(), kWidest));
  }
  std::string out =
      line(round.name, width, [](const Column& column) { return std::string(column.title); });
  const auto add = [&](const std::string& name, const Tally& tally) {
    out += line(begin_of(name, kWidest), width,
                [&](const Column& column) { return column.cell(tally); });
  };
  for (const auto& [name, tally] : round.categories) add(name, tally);
  add("total", round.total());
  return out;
}

std::string shortened(const std::string& text) {
  constexpr std::size_t kMostBytes = 400;
  if (text.size() <= kMostBytes) return text;
  return begin_of(text, kMostBytes) + " ...";
}

std::string speed_line(const Round& round) {
  const auto number = [](std::optional<double> rate) {
    return rate ? formatted("%.0f", *rate) : std::string("-");
  };
  return formatted("%s: %s prompt and %s generated tokens/s, %.1f s\n", round.name.c_str(),
                   number(rate(round.speed.prompt_tokens, round.speed.prompt_time)).c_str(),
                   number(rate(round.speed.generated_tokens, round.speed.generated_time)).c_str(),
                   duration<double>(round.time).count());
}

// What the figures hide: requests that were refused, and answers that were cut.
std::string notes(const Round& round) {
  const Tally total = round.total();
  std::string out;
  if (total.refused > 0) {
    out += round.name + ": " + several(total.refused, "request") +
           " refused, counted as wrong; the first was " + shortened(round.first_refusal) + '\n';
  }
  if (total.cut > 0) {
    out += round.name + ": " + several(total.cut, "answer") + " cut for the length\n";
  }
  return out;
}

// ---- JSON

json::Value share_of(double count, std::size_t of) {
  return of == 0 ? json::Value() : json::Value(share(count, of));
}

json::Object figure(const Figure& figure, bool has_baselines) {
  json::Object out{{"count", figure.count},
                   {"of", figure.of},
                   {"share", share_of(static_cast<double>(figure.count), figure.of)}};
  if (has_baselines) {
    out.set("chance", share_of(figure.chance, figure.of));
    out.set("first_tool", share_of(figure.first, figure.of));
    out.set("never_calling", share_of(figure.never, figure.of));
  }
  return out;
}

json::Object figures(const Tally& tally) {
  return {{"requests", tally.requests},
          {"refused", tally.refused},
          {"cut", tally.cut},
          {"called", figure(tally.called, false)},
          {"json", figure(tally.json, false)},
          {"valid", figure(tally.valid, false)},
          {"right_tool", figure(tally.tool, true)},
          {"exact_arguments", figure(tally.exact, true)},
          {"loose_arguments", figure(tally.loose, true)},
          {"abstention", figure(tally.abstains, true)},
          {"right", figure(tally.right, true)}};
}

json::Value rate_of(std::uint64_t tokens, nanoseconds time) {
  const auto found = rate(tokens, time);
  return found ? json::Value(*found) : json::Value();
}

json::Object json_of(const Round& round) {
  json::Object categories;
  for (const auto& [name, tally] : round.categories) categories.set(name, figures(tally));
  json::Array misses;
  for (const Miss& miss : round.misses) {
    misses.emplace_back(json::Object{{"id", miss.id},
                                     {"category", miss.category},
                                     {"question", miss.question},
                                     {"wanted", miss.wanted},
                                     {"given", miss.given}});
  }
  return {
      {"total", figures(round.total())},
      {"categories", std::move(categories)},
      {"prompt_tokens_per_s", rate_of(round.speed.prompt_tokens, round.speed.prompt_time)},
      {"generated_tokens_per_s", rate_of(round.speed.generated_tokens, round.speed.generated_time)},
      {"seconds", duration<double>(round.time).count()},
      {"first_refusal",
       round.first_refusal.empty() ? json::Value() : json::Value(round.first_refusal)},
      {"failures", std::move(misses)}};
}

std::string call_of(std::string_view name, std::string_view arguments) {
  return std::string(name) + "(" + std::string(arguments) + ")";
}

std::string described(const WantedCall& call) {
  std::string arguments;
  for (const WantedArgument& argument : call.arguments) {
    arguments += (arguments.empty() ? "" : ", ") + argument.key + ": ";
    for (std::size_t i = 0; i < argument.accepted.size(); ++i) {
      arguments += (i == 0 ? "" : " or ") +
                   json::dumps(argument.accepted[i], {.ensure_ascii = false, .keep_numbers = true});
    }
  }
  return call_of(call.name, arguments);
}

}  // namespace

Tally& Round::category(const std::string& wanted) {
  const auto found = std::ranges::find(categories, wanted, &std::pair<std::string, Tally>::first);
  if (found != categories.end()) return found->second;
  return categories.emplace_back(wanted, Tally{}).second;
}

Tally Round::total() const {
  Tally total;
  for (const auto& category : categories) total += category.second;
  return total;
}

std::string described(const Wanted& wanted) {
  if (wanted.kind == Wanted::Kind::any_call) return "a call";
  std::string out;
  for (const WantedCall& call : wanted.calls) out += (out.empty() ? "" : "; ") + described(call);
  if (out.empty()) out = "no call";
  for (const WantedCall& call : wanted.optional) out += "; perhaps " + described(call);
  for (const auto& group : wanted.mentions) {
    out += "; mentions ";
    for (std::size_t i = 0; i < group.size(); ++i) {
      out += (i == 0 ? "" : " or ") + json::quoted(group[i]);
    }
  }
  return out;
}

std::string described(const Given& given) {
  if (!given.refusal.empty()) return "refused: " + given.refusal;
  std::string out;
  for (const message::ToolCall& call : given.calls) {
    out += (out.empty() ? "" : "; ") + call_of(call.name, call.arguments);
  }
  if (!given.text.empty() || out.empty()) {
    out += (out.empty() ? "" : "; ") + std::string("says ") + json::quoted(given.text);
  }
  return out + (given.is_cut ? " [cut]" : "");
}

// Head, sets, a table for each way, the meaning of the brackets, speed and notes, and at the end
// the answers that were wrong.
std::string table(const Report& report) {
  std::string out = report.model + " (" + report.engine +
                    (report.format.empty() ? "" : ", " + report.format) + "), temperature 0, " +
                    "tool choice " + report.choice + '\n';
  for (const SetSummary& set : report.sets) {
    out += set.file + ": " + several(set.requests, "request");
    if (set.left_out > 0) out += ", " + std::to_string(set.left_out) + " marked invalid left out";
    out += '\n';
  }
  if (report.asked < report.of || !report.stopped_by.empty()) {
    out += "asked: " + std::to_string(report.asked) + " of " + std::to_string(report.of) +
           (report.stopped_by.empty() ? "" : ", " + report.stopped_by) + '\n';
  }
  for (const Round& round : report.rounds) out += '\n' + table_of(round);
  if (!report.rounds.empty()) {
    const Figure right = report.rounds.front().total().right;
    out +=
        "\nIn brackets: what comes of drawing among the tools (and no call), and of always calling "
        "the first,\nwith everything else right. Never calling gets " +
        percent(right.never, right.of) + " right.\n";
  }
  for (const Round& round : report.rounds) out += speed_line(round) + notes(round);
  for (const Round& round : report.rounds) {
    for (const Miss& miss : round.misses) {
      out += "\n" + round.name + ", " + miss.category + ", " + miss.id + ": " +
             shortened(miss.question) + "\n  wanted " + shortened(miss.wanted) + "\n  given  " +
             shortened(miss.given) + '\n';
    }
  }
  return out;
}

json::Object to_json(const Report& report) {
  json::Array sets;
  for (const SetSummary& set : report.sets) {
    sets.emplace_back(
        json::Object{{"file", set.file}, {"requests", set.requests}, {"left_out", set.left_out}});
  }
  json::Object out{
      {"model", report.model},
      {"engine", report.engine},
      {"format", report.format.empty() ? json::Value() : json::Value(report.format)},
      {"holding", report.constrained_by},
      {"sets", std::move(sets)},
      {"requests", report.of},
      {"asked", report.asked},
      {"stopped_by", report.stopped_by.empty() ? json::Value() : json::Value(report.stopped_by)},
      {"temperature", 0},
      {"tool_choice", report.choice},
      {"max_tokens", report.max_tokens}};
  for (const Round& round : report.rounds) out.set(round.name, json_of(round));
  return out;
}

std::string progress_line(std::size_t done, std::size_t of, const Figure& right,
                          nanoseconds since) {
  std::string told =
      std::to_string(done) + "/" + std::to_string(of) + "  right " + percent(right) + " %";
  if (done > 0 && done < of) {
    const double seconds = duration<double>(since).count() / static_cast<double>(done) *
                           static_cast<double>(of - done);
    const auto left = static_cast<long>(std::ceil(seconds));
    told += formatted("  %ld:%02ld left", left / 60, left % 60);
  }
  return told;
}

std::string progress_bar(std::size_t done, std::size_t of, const Figure& right, nanoseconds since,
                         std::size_t width) {
  constexpr std::size_t kWidest = 30;
  const std::string told = "  " + progress_line(done, of, right, since);
  const std::size_t room = width > told.size() + 2 ? width - told.size() - 2 : 0;
  const std::size_t cells = std::min(room, kWidest);
  if (cells < 5) return told.substr(0, width);
  const std::size_t full = of == 0 ? cells : cells * done / of;
  return "[" + std::string(full, '#') + std::string(cells - full, ' ') + "]" + told;
}

}  // namespace tenon::app::bench
