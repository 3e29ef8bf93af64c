// Cuts change neither an answer nor its refusal, and bodies keep to their limit.
#include <string>

#include "fuzz.h"

#include "tenon/http/wire.h"

using tenon::fuzz::promise;
namespace http = tenon::http;

namespace {

constexpr http::WireLimits kLimits{.max_header_bytes = 512, .max_body_bytes = 64, .max_fields = 8};

struct Answer {
  explicit Answer(bool to_head) : reader(kLimits, to_head) {}
  void feed(std::string_view bytes) {
    while (!bytes.empty() && !reader.error() && !reader.is_whole()) {
      const std::size_t taken = reader.feed(bytes, body);
      promise(taken <= bytes.size(), "no more is taken than there is");
      promise(taken > 0 || reader.error(), "a reader that is not done makes progress");
      bytes.remove_prefix(taken);
    }
    left += bytes.size();
  }

  http::ResponseReader reader;
  std::string body;
  std::size_t left = 0;
};

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const bool to_head = data[0] == 'h';
  const std::string_view text = tenon::fuzz::text_of(data + 1, size - 1);
  Answer whole(to_head);
  whole.feed(text);
  Answer cut(to_head);
  tenon::fuzz::in_pieces(text, static_cast<std::uint32_t>(size),
                         [&](std::string_view piece) { cut.feed(piece); });
  promise(whole.reader.error() == cut.reader.error(), "cuts do not change the refusal");
  promise(whole.body.size() <= kLimits.max_body_bytes, "a body keeps to its limit");
  if (whole.reader.error()) return 0;
  promise(whole.left == cut.left, "cuts do not change where an answer ends");
  promise(whole.body == cut.body, "cuts do not change a body");
  promise(whole.reader.status() == cut.reader.status(), "cuts do not change the status");
  promise(whole.reader.finish_at_close() == cut.reader.finish_at_close(),
          "cuts do not change whether the end was cut off");
  promise(whole.reader.keeps_alive() == cut.reader.keeps_alive(), "cuts do not change the rest");
  return 0;
}
