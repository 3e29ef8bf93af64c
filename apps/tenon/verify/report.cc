#include "verify/report.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

namespace tenon::app::verify {
namespace {

constexpr std::array kVerdicts = {Verdict::pass, Verdict::fail, Verdict::unsupported,
                                  Verdict::undecided};

struct GroupSum {
  std::string name;
  std::array<std::size_t, kVerdicts.size()> counts{};
};

std::vector<GroupSum> sums_of(const Report& report) {
  std::vector<GroupSum> sums;
  for (const Result& result : report.results) {
    if (sums.empty() || sums.back().name != result.check->group) {
      sums.push_back({result.check->group, {}});
    }
    ++sums.back().counts[static_cast<std::size_t>(result.judgement.verdict)];
  }
  return sums;
}

std::string line_of(const GroupSum& sum) {
  std::array<char, 128> line{};
  std::snprintf(line.data(), line.size(), "  %-14s %6zu %6zu %14zu %10zu\n", sum.name.c_str(),
                sum.counts[0], sum.counts[1], sum.counts[2], sum.counts[3]);
  return line.data();
}

std::int64_t milliseconds(std::chrono::nanoseconds time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time).count();
}

json::Value exchange_json(const Exchange& exchange) {
  return json::Object{{"method", exchange.method}, {"path", exchange.path},
                      {"sent", exchange.sent},     {"status", exchange.status},
                      {"came", exchange.came},     {"ms", milliseconds(exchange.time)}};
}

json::Value result_json(const Result& result) {
  json::Array exchanges;
  for (const Exchange& exchange : result.exchanges) exchanges.push_back(exchange_json(exchange));
  return json::Object{
      {"group", result.check->group},     {"check", result.check->name},
      {"about", result.check->about},     {"verdict", verdict_name(result.judgement.verdict)},
      {"why", result.judgement.why},      {"ms", milliseconds(result.time)},
      {"exchanges", std::move(exchanges)}};
}

}  // namespace

std::size_t Report::count(Verdict verdict) const {
  return static_cast<std::size_t>(
      std::ranges::count(results, verdict, [](const Result& r) { return r.judgement.verdict; }));
}

std::string table(const Report& report) {
  std::string text = report.target.url + ", model " + report.target.model + ", dialect " +
                     std::string(dialect_name(report.target.dialect)) +
                     (report.target.is_played ? ", played" : "") + "\n\n";
  text += "  group            pass   fail  not supported  undecided\n";
  GroupSum all{"all", {}};
  for (const GroupSum& sum : sums_of(report)) {
    text += line_of(sum);
    for (std::size_t i = 0; i < sum.counts.size(); ++i) all.counts[i] += sum.counts[i];
  }
  text += line_of(all);
  if (report.results.size() < report.of) {
    text += "\n" + report.ended + ": " + std::to_string(report.results.size()) + " of " +
            std::to_string(report.of) + " checks were made\n";
  }
  for (const Verdict verdict : {Verdict::fail, Verdict::unsupported, Verdict::undecided}) {
    if (report.count(verdict) > 0) text += "\n" + std::string(verdict_name(verdict)) + ":\n";
    for (const Result& result : report.results) {
      if (result.judgement.verdict != verdict) continue;
      text += "  " + result.check->id() + ": " + result.judgement.why.substr(0, 300) + "\n";
    }
  }
  return text;
}

json::Object to_json(const Report& report) {
  json::Array results;
  for (const Result& result : report.results) results.push_back(result_json(result));
  json::Object counts;
  for (const Verdict verdict : kVerdicts) {
    counts.set(std::string(verdict_name(verdict)), report.count(verdict));
  }
  return {{"url", report.target.url},
          {"model", report.target.model},
          {"dialect", dialect_name(report.target.dialect)},
          {"played", report.target.is_played},
          {"tries", report.target.tries},
          {"tenon", report.version},
          {"date", report.date},
          {"of", report.of},
          {"counts", std::move(counts)},
          {"results", std::move(results)}};
}

}  // namespace tenon::app::verify
