#include "tenon/schema/uri.h"

#include <algorithm>

namespace tenon::schema {
namespace {

// The five parts of RFC 3986, appendix B.
struct Parts {
  std::optional<std::string_view> scheme;
  std::optional<std::string_view> authority;
  std::string_view path;
  std::optional<std::string_view> query;
  std::optional<std::string_view> fragment;
};

bool is_alpha(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool is_scheme(std::string_view text) {
  return !text.empty() && is_alpha(text[0]) && std::all_of(text.begin(), text.end(), [](char c) {
    return is_alpha(c) || (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.';
  });
}

// Takes `mark` and what is behind it off the text. "" is something, and not the same as nothing:
// "a#" has an empty fragment.
std::optional<std::string_view> cut_behind(std::string_view& text, char mark) {
  const std::size_t at = text.find(mark);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view behind = text.substr(at + 1);
  text = text.substr(0, at);
  return behind;
}

// From both ends, as in the regular expression of appendix B: fragment, query, scheme, authority,
// and the path is what is left.
Parts parts_of(std::string_view uri) {
  Parts parts;
  parts.fragment = cut_behind(uri, '#');
  parts.query = cut_behind(uri, '?');
  if (const std::size_t colon = uri.find(':');
      is_scheme(uri.substr(0, std::min(colon, uri.size()))) && colon != std::string_view::npos) {
    parts.scheme = uri.substr(0, colon);
    uri.remove_prefix(colon + 1);
  }
  if (uri.starts_with("//")) {
    const std::size_t end = std::min(uri.find('/', 2), uri.size());
    parts.authority = uri.substr(2, end - 2);
    uri.remove_prefix(end);
  }
  parts.path = uri;
  return parts;
}

// Section 5.2.4, segment by segment.
std::string without_dots(std::string_view path) {
  std::string out;
  while (!path.empty()) {
    const std::size_t end = std::min(path.find('/', path[0] == '/' ? 1 : 0), path.size());
    const std::string_view segment = path.substr(0, end);
    path.remove_prefix(end);
    const std::string_view name = segment.starts_with('/') ? segment.substr(1) : segment;
    if (name != "." && name != "..") {
      out.append(segment);
      continue;
    }
    if (name == "..") {
      const std::size_t slash = out.rfind('/');
      out.resize(slash == std::string::npos ? 0 : slash);
    }
    // "/a/." and "/a/b/.." are the directory "/a/".
    if (path.empty() && segment.starts_with('/')) out.push_back('/');
  }
  return out;
}

// Section 5.2.3: the path of the reference in place of the last segment of the base.
std::string merged(const Parts& base, std::string_view path) {
  if (base.authority && base.path.empty()) return "/" + std::string(path);
  const std::size_t slash = base.path.rfind('/');
  std::string out(base.path.substr(0, slash == std::string_view::npos ? 0 : slash + 1));
  return out.append(path);
}

}  // namespace

SplitUri split_fragment(std::string_view uri) {
  SplitUri split;
  split.fragment = cut_behind(uri, '#');
  split.address = uri;
  return split;
}

// Section 5.2.2: what the reference does not say is taken from the base, from the left on.
std::string resolve_uri(std::string_view base, std::string_view reference) {
  const Parts from = parts_of(base);
  const Parts to = parts_of(reference);
  Parts target = to;
  std::string path(to.path);
  if (!to.scheme) {
    target.scheme = from.scheme;
    if (!to.authority) {
      target.authority = from.authority;
      if (to.path.empty()) {
        path = from.path;
        if (!to.query) target.query = from.query;
      } else if (!to.path.starts_with('/')) {
        path = merged(from, to.path);
      }
    }
  }
  // An address with neither scheme nor authority keeps its dots: "../item.json" is only a name.
  if (!to.path.empty() && (target.scheme || target.authority)) path = without_dots(path);
  std::string out;
  if (target.scheme) out.append(*target.scheme).push_back(':');
  if (target.authority) out.append("//").append(*target.authority);
  out.append(path);
  if (target.query) out.append("?").append(*target.query);
  if (target.fragment) out.append("#").append(*target.fragment);
  return out;
}

std::optional<std::string> percent_decoded(std::string_view text) {
  const auto hex = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
  };
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out.push_back(text[i]);
      continue;
    }
    if (i + 2 >= text.size() || hex(text[i + 1]) < 0 || hex(text[i + 2]) < 0) return std::nullopt;
    out.push_back(static_cast<char>(hex(text[i + 1]) * 16 + hex(text[i + 2])));
    i += 2;
  }
  return out;
}

}  // namespace tenon::schema
