// Cuts change neither events nor errors; what is written reads back.
#include "tenon/http/sse.h"

#include "fuzz.h"

using tenon::fuzz::promise;
namespace http = tenon::http;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = tenon::fuzz::text_of(data, size);
  constexpr std::size_t kLimit = 256;  // small, so that the fuzzer meets it

  http::SseDecoder whole(kLimit);
  std::vector<http::SseEvent> events;
  const bool ok = whole.feed(text, events).has_value();

  http::SseDecoder cut(kLimit);
  std::vector<http::SseEvent> cut_events;
  bool cut_ok = true;
  tenon::fuzz::in_pieces(text, static_cast<std::uint32_t>(size), [&](std::string_view piece) {
    cut_ok = cut.feed(piece, cut_events).has_value();
  });
  promise(ok == cut_ok, "cuts do not change the error");
  promise(events == cut_events, "cuts do not change the events");

  for (const http::SseEvent& event : events) {
    std::string wire;
    http::append_sse(wire, event.data, event.type == "message" ? "" : event.type);
    std::vector<http::SseEvent> back;
    promise(http::SseDecoder().feed(wire, back).has_value(), "what is written is read");
    promise(back.size() == 1 && back[0].data == event.data && back[0].type == event.type,
            "what is written reads back");
  }
  return 0;
}
