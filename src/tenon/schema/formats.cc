#include "tenon/schema/formats.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <mutex>
#include <optional>
#include <string>

#include "tenon/base/budget.h"
#include "tenon/regex/syntax.h"
#include "tenon/schema/idna.h"

namespace tenon::schema {
namespace {

std::string group(const std::string& alternatives) {
  return "(?:" + alternatives + ")";
}

// Parts of patterns -------------------------------------------------------------------------------

// RFC 3339, section 5.6, with the days that each month has (appendix C).
std::string date() {
  // The years with a February 29: divisible by 4 and not by 100, or by 400.
  const std::string year_29 =
      R"((?:\d\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00))";
  return R"((?:\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)|)"
         R"(02-(?:0[1-9]|1\d|2[0-8]))|)" +
         year_29 + "-02-29)";
}

// The seconds may be 60, a leap second; is_time() then checks that it is at the end of a day.
const std::string kTime =
    R"((?:[01]\d|2[0-3]):[0-5]\d:(?:[0-5]\d|60)(?:\.\d+)?(?:[Zz]|[+\-](?:[01]\d|2[0-3]):[0-5]\d))";

// RFC 3339, appendix A.
std::string duration() {
  const std::string time = R"(T(?:\d+H(?:\d+M(?:\d+S)?)?|\d+M(?:\d+S)?|\d+S))";
  const std::string date = R"((?:\d+Y(?:\d+M(?:\d+D)?)?|\d+M(?:\d+D)?|\d+D))";
  return "P(?:" + date + group(time) + "?|" + time + R"(|\d+W))";
}

// RFC 3986, section 3.2.2.
const std::string kOctet = R"((?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d))";
const std::string kIpv4 = kOctet + R"((?:\.)" + kOctet + "){3}";

std::string ipv6() {
  const std::string h = "[0-9A-Fa-f]{1,4}";
  const std::string groups = group(h + ":");
  const std::string last = group(h + ":" + h + "|" + kIpv4);
  // Up to `most` groups and one more before "::", or none.
  const auto before = [&](int most) {
    return group(groups + "{0," + std::to_string(most) + "}" + h) + "?::";
  };
  return group(groups + "{6}" + last + "|::" + groups + "{5}" + last + "|" + before(0) + groups +
               "{4}" + last + "|" + before(1) + groups + "{3}" + last + "|" + before(2) + groups +
               "{2}" + last + "|" + before(3) + groups + last + "|" + before(4) + last + "|" +
               before(5) + h + "|" + before(6));
}

// RFC 3987, section 2.2, as the inside of a class.
const std::string kUcschar =
    R"(\u{A0}-\u{D7FF}\u{F900}-\u{FDCF}\u{FDF0}-\u{FFEF}\u{10000}-\u{1FFFD}\u{20000}-\u{2FFFD})"
    R"(\u{30000}-\u{3FFFD}\u{40000}-\u{4FFFD}\u{50000}-\u{5FFFD}\u{60000}-\u{6FFFD})"
    R"(\u{70000}-\u{7FFFD}\u{80000}-\u{8FFFD}\u{90000}-\u{9FFFD}\u{A0000}-\u{AFFFD})"
    R"(\u{B0000}-\u{BFFFD}\u{C0000}-\u{CFFFD}\u{D0000}-\u{DFFFD}\u{E1000}-\u{EFFFD})";
const std::string kIprivate = R"(\u{E000}-\u{F8FF}\u{F0000}-\u{FFFFD}\u{100000}-\u{10FFFD})";
const std::string kPercent = "%[0-9A-Fa-f]{2}";

// RFC 3986, appendix A, and RFC 3987, which allows `wide` characters beside the unreserved ones and
// `wide_query` in queries.
std::string uri(bool relative_too, const std::string& wide, const std::string& wide_query) {
  const std::string plain = R"(A-Za-z0-9\-._~!$&'()*+,;=)" + wide;  // unreserved and sub-delims
  const std::string pchar = "(?:[" + plain + ":@]|" + kPercent + ")";
  // The first segment of a relative path has no colon: "a:b" would be a scheme (RFC 3986, section
  // 4.2).
  const std::string first_of_relative = "(?:[" + plain + "@]|" + kPercent + ")+";
  const std::string segments = "(?:/" + pchar + "*)*";
  const std::string host = R"((?:\[(?:)" + ipv6() + R"(|[vV][0-9A-Fa-f]+\.[)" +
                           R"(A-Za-z0-9\-._~!$&'()*+,;=:]+)\]|(?:[)" + plain + "]|" + kPercent +
                           ")*)";
  const std::string authority =
      "(?:(?:[" + plain + ":]|" + kPercent + ")*@)?" + host + R"((?::\d*)?)";
  const std::string rooted = "//" + authority + segments + "|/(?:" + pchar + "+" + segments + ")?";
  const std::string absolute =
      R"([A-Za-z][A-Za-z0-9+\-.]*:(?:)" + rooted + "|" + pchar + "+" + segments + ")?";
  const std::string relative = "(?:" + rooted + "|" + first_of_relative + segments + ")?";
  const std::string query = R"((?:\?(?:)" + pchar + "|[/?" + wide_query + "])*)?";
  const std::string fragment = "(?:#(?:" + pchar + "|[/?])*)?";
  return group(relative_too ? absolute + "|" + relative : absolute) + query + fragment;
}

// RFC 6570, section 2, with the apostrophe, which its errata add.
std::string uri_template() {
  const std::string literal =
      R"((?:[!#$&-;=?-\[\]_a-z~)" + kUcschar + kIprivate + "]|" + kPercent + ")";
  const std::string varchar = "(?:[A-Za-z0-9_]|" + kPercent + ")";
  const std::string variable = varchar + R"((?:\.?)" + varchar + R"()*(?::[1-9]\d{0,3}|\*)?)";
  return "(?:" + literal + R"(|\{[+#./;?&=,!@|]?)" + variable + "(?:," + variable + R"()*\})*)";
}

// RFC 952, and RFC 1123, section 2.1: up to 63 characters, and no hyphen at either end.
const std::string kLabel = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?";
const std::string kHostname = kLabel + R"((?:\.)" + kLabel + ")*";

// RFC 5321, section 4.1.2; RFC 6531 adds `wide` characters to the local part and whole labels.
std::string email(const std::string& wide, const std::string& domain) {
  const std::string atom = R"([A-Za-z0-9!#$%&'*+/=?^_`{|}~\-)" + wide + "]+";
  const std::string quoted = R"("(?:[ !#-\[\]-~)" + wide + R"(]|\\[ -~])*")";
  return group(atom + R"((?:\.)" + atom + ")*|" + quoted) + "@" +
         group(domain + R"(|\[(?:)" + kIpv4 + "|IPv6:" + ipv6() + R"()\])");
}

// RFC 6901: in a key ~0 stands for ~, and ~1 for a slash.
const std::string kPointer = "(?:/(?:[^/~]|~[01])*)*";

// Checks beside the patterns ----------------------------------------------------------------------

int two_digits(std::string_view text) {
  return (text[0] - '0') * 10 + (text[1] - '0');
}

// A leap second is the last second of a day in UTC.
bool is_time(std::string_view text) {
  if (text.substr(6, 2) != "60") return true;
  int minutes = two_digits(text) * 60 + two_digits(text.substr(3));
  if (text.back() != 'Z' && text.back() != 'z') {
    const std::string_view offset = text.substr(text.size() - 6);
    const int shift = two_digits(offset.substr(1)) * 60 + two_digits(offset.substr(4));
    minutes += offset[0] == '+' ? -shift : shift;
  }
  constexpr int kMinutesPerDay = 24 * 60;
  return (minutes + kMinutesPerDay) % kMinutesPerDay == kMinutesPerDay - 1;
}

bool is_date_time(std::string_view text) {
  return is_time(text.substr(11));
}

bool is_regex(std::string_view text) {
  Budget budget("pattern", {.max_steps = 1'000'000, .max_bytes = std::size_t{16} << 20U});
  const auto syntax = regex::parse(text, regex::Dialect::ecma262, budget);
  // A pattern that is too large for us is still a regex.
  return syntax || syntax.error().code != Errc::invalid;
}

// The table ---------------------------------------------------------------------------------------

// A format's name, its pattern without ^ and $, and a check of what a pattern cannot say; null: the
// pattern says all. Patterns serve masks too, so they say as much as they can.
struct Row {
  std::string_view name;
  std::string (*pattern)();
  bool (*also)(std::string_view) = nullptr;
};

constexpr Row kRows[] = {
    {"date", date},
    {"date-time", [] { return date() + "[Tt]" + kTime; }, is_date_time},
    {"duration", duration},
    {"email", [] { return email("", kHostname); }},
    {"hostname", [] { return kHostname; }, is_hostname},
    {"idn-email", [] { return email(R"(\u{80}-\u{10FFFF})", R"((?:[^\0-,/:-@\[-`{-\x7F]+))"); }},
    {"idn-hostname", [] { return std::string(R"([^\0-,/:-@\[-`{-\x7F]+)"); }, is_idn_hostname},
    {"ipv4", [] { return kIpv4; }},
    {"ipv6", ipv6},
    {"iri", [] { return uri(false, kUcschar, kIprivate); }},
    {"iri-reference", [] { return uri(true, kUcschar, kIprivate); }},
    {"json-pointer", [] { return kPointer; }},
    {"regex", [] { return std::string("[^]*"); }, is_regex},
    {"relative-json-pointer", [] { return R"((?:0|[1-9]\d*)(?:#|)" + kPointer + ")"; }},
    {"time", [] { return kTime; }, is_time},
    {"uri", [] { return uri(false, "", ""); }},
    {"uri-reference", [] { return uri(true, "", ""); }},
    {"uri-template", uri_template},
    {"uuid", [] { return std::string("[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"); }},
};

}  // namespace

Expected<const Format*> find_format(std::string_view name) {
  static std::mutex mutex;  // guards made
  static std::array<std::optional<Format>, std::size(kRows)> made;
  const auto* const row = std::ranges::find(kRows, name, &Row::name);
  if (row == std::end(kRows)) return nullptr;
  const std::scoped_lock lock(mutex);
  std::optional<Format>& format = made[static_cast<std::size_t>(row - kRows)];
  if (!format) {
    // Compiled when it is first asked for, once for the process: most schemas use few formats.
    std::string pattern = "^(?:" + row->pattern() + ")$";
    auto regex = regex::Regex::compile(pattern);
    if (!regex) return Unexpected(regex.error());
    format = Format{row->name, {std::move(pattern), *std::move(regex)}, row->also};
  }
  return &*format;
}

Expected<bool> has_format(const Format& format, std::string_view text) {
  const auto matches = format.pattern.regex->contains_match(text);
  if (!matches || !*matches) return matches;
  return format.also == nullptr || format.also(text);
}

}  // namespace tenon::schema
