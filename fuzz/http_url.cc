// URLs, targets and escapes: what is accepted keeps its promises.
#include <string>

#include "fuzz.h"

#include "tenon/base/utf8.h"
#include "tenon/http/client.h"
#include "tenon/http/wire.h"

using tenon::fuzz::promise;
namespace http = tenon::http;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = tenon::fuzz::text_of(data, size);
  if (const auto decoded = http::percent_decoded(text)) {
    promise(decoded->size() <= text.size(), "decoding does not lengthen");
    std::string encoded;
    for (const char c : *decoded) {
      constexpr std::string_view kDigits = "0123456789abcdef";
      const auto byte = static_cast<unsigned char>(c);
      encoded += {'%', kDigits[byte / 16], kDigits[byte % 16]};
    }
    promise(http::percent_decoded(encoded) == decoded, "what is encoded is decoded");
  }
  if (const auto target = http::split_target(text)) {
    promise(tenon::utf8::is_valid(target->path), "a path is UTF-8");
    promise(target->path.find('\0') == std::string::npos, "a path has no NUL");
    promise(target->path == "*" || target->path.starts_with('/'), "a path begins with a slash");
  }
  if (const auto url = http::parse_url(text)) {
    promise(!url->host.empty() && url->port != 0, "a URL has a host and a port");
    promise(url->target.starts_with('/'), "a URL's target begins with a slash");
    // What the client sends as request line is one request line.
    for (const char c : url->host + url->target) {
      promise(c > ' ' && c != '\x7f', "a URL has no spaces or control characters");
    }
  }
  return 0;
}
