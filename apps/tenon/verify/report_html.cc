#include <string>
#include <string_view>

#include "verify/report.h"

#include "tenon/base/utf8.h"

// One page without scripts: each check unfolds to what was sent and what came.
namespace tenon::app::verify {
namespace {

constexpr std::string_view kHead = R"(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>tenon verify</title><style>
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222}
summary{cursor:pointer;padding:.2rem 0}details details,pre{margin-left:1.2rem}
pre{background:#f4f4f4;padding:.6rem;white-space:pre-wrap;overflow-wrap:anywhere;font-size:12px}
b{display:inline-block;min-width:7.5rem}.pass b{color:#176d2b}.fail b{color:#b00020}
.unsupported b{color:#666}.undecided b{color:#8a5a00}p{margin:.3rem 0 .3rem 1.2rem}
@media(prefers-color-scheme:dark){body{background:#161616;color:#ddd}pre{background:#242424}
.pass b{color:#6cc37c}.fail b{color:#ff7083}.unsupported b{color:#999}.undecided b{color:#e0a94a}}
</style></head><body>
)";

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : utf8::sanitized(text)) {
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string_view class_of(Verdict verdict) {
  return verdict == Verdict::unsupported ? "unsupported" : verdict_name(verdict);
}

void append_exchange(const Exchange& exchange, std::string& page) {
  page += "<p>" + escaped(exchange.method + " " + exchange.path) + "</p>\n";
  if (!exchange.sent.empty()) page += "<pre>" + escaped(exchange.sent) + "</pre>\n";
  page += "<p>status " + std::to_string(exchange.status) + "</p>\n<pre>" + escaped(exchange.came) +
          "</pre>\n";
}

void append_result(const Result& result, std::string& page) {
  const Verdict verdict = result.judgement.verdict;
  page += "<details class=\"" + std::string(class_of(verdict)) + "\" id=\"" +
          escaped(result.check->id()) + "\"><summary><b>" + std::string(verdict_name(verdict)) +
          "</b> " + escaped(result.check->name) + "</summary>\n<p>" + escaped(result.check->about) +
          "</p>\n";
  if (!result.judgement.why.empty()) page += "<p>" + escaped(result.judgement.why) + "</p>\n";
  for (const Exchange& exchange : result.exchanges) append_exchange(exchange, page);
  page += "</details>\n";
}

}  // namespace

std::string to_html(const Report& report) {
  std::string page(kHead);
  page += "<h1>tenon verify</h1>\n<p>" + escaped(report.target.url) + ", model " +
          escaped(report.target.model) + ", dialect " +
          std::string(dialect_name(report.target.dialect)) +
          (report.target.is_played ? ", played" : "") + ", " + escaped(report.date) + ", Tenon " +
          escaped(report.version) + "</p>\n<p>";
  for (const Verdict verdict :
       {Verdict::pass, Verdict::fail, Verdict::unsupported, Verdict::undecided}) {
    page += std::to_string(report.count(verdict)) + " " + std::string(verdict_name(verdict)) +
            (verdict == Verdict::undecided ? "" : ", ");
  }
  page += "</p>\n";
  std::string_view group;
  for (const Result& result : report.results) {
    if (result.check->group != group) {
      group = result.check->group;
      page += "<h2>" + escaped(group) + "</h2>\n";
    }
    append_result(result, page);
  }
  return page + "</body></html>\n";
}

}  // namespace tenon::app::verify
