// Cuts change neither requests nor refusals; what is accepted keeps its promises and reads back.
#include <optional>
#include <string>
#include <vector>

#include "fuzz.h"

#include "tenon/base/utf8.h"
#include "tenon/http/wire.h"

using tenon::fuzz::promise;
namespace http = tenon::http;

namespace {

// Small, so that the fuzzer meets them.
constexpr http::WireLimits kLimits{.max_header_bytes = 512, .max_body_bytes = 64, .max_fields = 8};

class Requests {
 public:
  void feed(std::string_view bytes) {
    while (!bytes.empty() && !reader_.error()) {
      const std::size_t taken = reader_.feed(bytes);
      promise(taken <= bytes.size(), "no more is taken than there is");
      promise(taken > 0 || reader_.error(), "a reader that is not done makes progress");
      bytes.remove_prefix(taken);
      if (!reader_.error() && reader_.is_whole()) seen.push_back(reader_.take());
    }
  }
  unsigned status() const { return reader_.error() ? reader_.error()->status : 0; }
  bool is_idle() const { return reader_.is_idle(); }

  std::vector<http::Request> seen;

 private:
  http::RequestReader reader_{kLimits};
};

std::string described(const http::Request& request) {
  std::string text = request.method + '\n' + request.target + '\n' + request.path + '\n' +
                     request.query + '\n' + request.body;
  for (const http::Header& header : request.headers) {
    text += '\n' + header.name + '\r' + header.value;
  }
  return text;
}

void check(const http::Request& request) {
  promise(request.body.size() <= kLimits.max_body_bytes, "a body keeps to its limit");
  promise(request.headers.size() <= kLimits.max_fields, "the fields keep to their limit");
  promise(http::is_field_name(request.method), "a method is a token");
  promise(tenon::utf8::is_valid(request.path), "a path is UTF-8");
  promise(request.path.find('\0') == std::string::npos, "a path has no NUL");
  promise(request.path == "*" || !request.path.empty(), "a path is something");
  for (const http::Header& header : request.headers) {
    promise(http::is_field_name(header.name), "a field's name is a token");
    promise(http::is_field_value(header.value), "a field's value has no control characters");
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = tenon::fuzz::text_of(data, size);
  Requests whole;
  whole.feed(text);
  Requests cut;
  tenon::fuzz::in_pieces(text, static_cast<std::uint32_t>(size),
                         [&](std::string_view piece) { cut.feed(piece); });
  promise(whole.status() == cut.status(), "cuts do not change the refusal");
  promise(whole.is_idle() == cut.is_idle(), "cuts do not change what is awaited");
  promise(whole.seen.size() == cut.seen.size(), "cuts do not change how many requests there are");
  for (std::size_t i = 0; i < whole.seen.size(); ++i) {
    const http::Request& request = whole.seen[i];
    promise(described(request) == described(cut.seen[i]), "cuts do not change a request");
    check(request);

    // Written anew with another framing of the body, it is the same request.
    std::string wire = request.method + " " + request.target + " HTTP/1.1\r\nHost: a\r\n";
    if (!request.body.empty()) {
      wire += "Transfer-Encoding: chunked\r\n\r\n";
      http::append_chunk(wire, request.body);
      wire += http::kLastChunk;
    } else {
      wire += "\r\n";
    }
    Requests again;
    again.feed(wire);
    // Its limit of header bytes may be met, by the fields that are new.
    if (again.status() == 431) continue;
    promise(again.seen.size() == 1, "what was accepted is accepted");
    promise(again.seen[0].path == request.path && again.seen[0].query == request.query &&
                again.seen[0].body == request.body,
            "what was accepted reads back");
  }
  return 0;
}
